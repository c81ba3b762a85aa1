// Why Slurm lets a job wait, in plain words, and what its author can do. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::tool {

struct ReasonWords {
    std::string_view words;   // a clause: "jobs of higher priority wait in its partition"
    std::string_view advice;  // a sentence, or several
    bool never = false;       // nothing that ends by itself will make room
};

// `reason` is Slurm's word ("Resources", "QOSMaxCpuPerUserLimit"). A word that is not known gets what its kind can be told.
ReasonWords reason_words(std::string_view reason);

}  // namespace berth::tool
