// Dependency: "start after that workload", as berth.dev/dependency writes it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"

namespace berth {

struct Dependency {
    std::string type;  // "after", "afterany", "afterok", "afternotok"
    std::string kind;  // "Pod", "Job", ...; empty: the kind of the workload that depends
    std::string name;

    bool operator==(const Dependency &) const = default;
};

// "afterok:Job/prepare,afterany:x"
Result<std::vector<Dependency>> parse_dependencies(std::string_view text);

// The jobs of a workload: of a Job that is no gang, one for each pod.
using JobsOf = std::function<Result<std::vector<std::uint32_t>>(const std::string &ns, const std::string &kind, const std::string &name)>;
// In Slurm's words: "afterok:12:13,afterany:14". An error names the workload that is waited for.
Result<std::string> resolve_dependencies(const std::vector<Dependency> &dependencies, const std::string &ns,
                                         const std::string &own_kind, const JobsOf &jobs_of);

}  // namespace berth
