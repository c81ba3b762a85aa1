// Annotations: what a pod's author writes under slurmjob.slinky.slurm.net/, checked for form. Whether the site allows
// it is not decided here but in translate(). Pure values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/kube/pod.h"
#include "agent/result.h"

namespace berth {

inline constexpr std::string_view kAnnotationPrefix = "slurmjob.slinky.slurm.net/";

using GresList = std::vector<std::pair<std::string, std::uint64_t>>;  // ("gpu:a100", 2); a name occurs once

// An absent annotation and one with an empty value are the same: the field keeps its default.
struct Annotations {
    std::string account, partition, qos, reservation, wckey;  // [A-Za-z0-9_.-]+
    std::string licenses, constraints, job_name;              // printable ASCII
    std::string user_id, group_id;                            // a name or a number
    GresList gres;
    std::optional<std::uint16_t> cpus;          // cpu-per-task, whole CPUs
    std::optional<std::uint64_t> memory_mib;    // mem-per-node
    std::optional<std::uint32_t> time_limit_minutes;  // absent for "0", which means no limit of the pod's own
    std::optional<std::uint32_t> priority;
    std::optional<bool> exclusive;
    // min-nodes and max-nodes are checked and dropped: a single pod takes one node.
};

// Takes the annotations under the prefix and passes over all others. An error names the annotation, its value and what
// is accepted.
Result<Annotations> read_annotations(const kube::KeyValues &annotations);

// The sentence's beginning that every refusal of an annotation shares: `annotation PREFIX/key: "value"`.
std::string annotation_words(std::string_view key, std::string_view value);

// "gpu:2,shard:a100:4", also with Slurm's "gres/" or "gres:" before a name; a count may end in K, M, G, T or P (of
// 1024).
Result<GresList> parse_gres(std::string_view text);

// Slurm's CPU counts have 16 bits, of which the two highest values mean something else.
inline constexpr std::int64_t kMaxCpus = 0xfffd;

// Sums that stop at the largest number: a pod may ask for absurd amounts, and they must not wrap into small ones.
std::uint64_t sum_of(std::uint64_t a, std::uint64_t b);
// Adds to the entry of that name, or makes one.
void add_gres(GresList &list, std::string_view name, std::uint64_t count);

// True for names that are safe to hand to Slurm and to show: [A-Za-z0-9_.-]+, bounded.
bool is_safe_name(std::string_view name);

}  // namespace berth
