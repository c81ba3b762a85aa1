// What Slurm's reasons for letting a job wait mean. What to do about them is in agent/slurm/reason.h, for pods are told that too. Pure.
#pragma once

#include <string_view>

namespace berth::tool {

// A clause: "jobs of higher priority wait in its partition". `reason` is Slurm's word ("Resources", "QOSMaxCpuPerUserLimit"); one that is
// not known is told by its kind.
std::string_view reason_words(std::string_view reason);

}  // namespace berth::tool
