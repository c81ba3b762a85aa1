// Annotations: what a workload's author writes under slurmjob.slinky.slurm.net/ and berth.dev/, checked for form. Whether the site allows
// it is not decided here but in translate(). Pure values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/pod.h"
#include "agent/result.h"
#include "agent/translate/dependency.h"
#include "agent/translate/gres.h"
#include "agent/translate/moment.h"
#include "agent/translate/text.h"

namespace berth {

inline constexpr std::string_view kAnnotationPrefix = "slurmjob.slinky.slurm.net/";
inline constexpr std::string_view kOwnPrefix = "berth.dev/";

// An absent annotation and one with an empty value are the same: the field keeps its default.
struct Annotations {
    // Under slurmjob.slinky.slurm.net/.
    std::string account, partition, qos, reservation, wckey;  // [A-Za-z0-9_.-]+
    std::string licenses, constraints, job_name;              // printable ASCII
    std::string user_id, group_id;                            // a name or a number
    GresList gres;
    std::optional<std::uint16_t> cpus;          // cpu-per-task, whole CPUs
    std::optional<std::uint64_t> memory_mib;    // mem-per-node
    std::optional<std::uint32_t> time_limit_minutes;  // absent for "0", which means no limit of the pod's own
    std::optional<std::uint32_t> priority;
    std::optional<std::uint32_t> min_nodes, max_nodes;  // 1 or more
    std::optional<bool> exclusive;

    // Under berth.dev/.
    std::optional<std::int32_t> nice;
    std::string prefer, comment;             // printable ASCII
    std::optional<Moment> begin, deadline;
    std::vector<Dependency> dependencies;
    std::uint32_t switches = 0, switches_wait_seconds = 0;
    std::vector<std::string> exclude;        // node names
    bool spread = false, pack = false;
    std::uint16_t tasks_per_node = 0;        // spread: "2"
    std::optional<std::chrono::seconds> warn;  // 0: never
};

// One map out of several, the outermost first: an outer value wins, an empty one is none. Sorted by key.
kube::KeyValues merge_layers(const std::vector<kube::KeyValues> &layers);

// Takes the annotations under the two prefixes and passes over all others, and over those that are Berth's own or read elsewhere. An
// error names the annotation, its value and what is accepted.
Result<Annotations> read_annotations(const kube::KeyValues &annotations);
// The same for cpu-per-task, mem-per-node and gres alone, whatever the others look like.
Result<Annotations> read_sizes(const kube::KeyValues &annotations);
// The annotations that speak for a whole job, not for one pod of it: what pods of one shape must agree on.
kube::KeyValues job_wide(const kube::KeyValues &annotations);

// How long before its end a job's pods are warned: "5m", "0" for never.
Result<std::chrono::seconds> parse_warn(std::string_view text);

// The sentence's beginning that every refusal of an annotation shares: `annotation PREFIX/key: "value"`.
std::string annotation_words(std::string_view prefix, std::string_view key, std::string_view value);

// Slurm's CPU counts have 16 bits, of which the two highest values mean something else.
inline constexpr std::int64_t kMaxCpus = 0xfffd;

}  // namespace berth
