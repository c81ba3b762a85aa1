// Object: what Berth needs of an object that owns or groups pods, whatever its kind: the fields of all kinds side by side,
// those that a kind lacks left at their defaults. Values only; safe to copy between threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/pod.h"

namespace berth::kube {

struct Object {
    std::string api_version, kind;  // "batch/v1", "Job"; filled in from the request where the server leaves them out of list items
    std::string ns, name, uid, resource_version;
    OwnerRef owner;        // the controlling one
    KeyValues annotations; // the prefixes of Pod::annotations
    KeyValues labels;      // the prefixes of Pod::labels
    std::int64_t created = 0;
    bool deleting = false;

    // Job.
    std::optional<std::int64_t> parallelism, completions;
    bool indexed = false;    // completionMode: Indexed
    bool suspended = false;  // JobSet too
    bool in_order = false;   // JobSet: its jobs begin one after the other (startupPolicy, dependsOn)
    bool finished = false;   // condition Complete or Failed is True; JobSet: Completed or Failed
    bool failed = false;     // the latter
    std::int64_t active_deadline_seconds = 0;
    std::int64_t succeeded = 0;  // its pods that have; no others come for them

    // JobSet: what its jobs make together, replicas x parallelism (bounded by completions), summed.
    std::int64_t pods = 0;
    std::int64_t restarts = 0;  // how often all of them were begun anew

    // LeaderWorkerSet.
    std::int64_t size = 0;      // pods per group
    std::int64_t replicas = 0;  // groups

    // PodGroup of scheduling.x-k8s.io; min_member also holds scheduling.k8s.io's gang.minCount (0: no gang policy).
    std::int64_t min_member = 0;
    std::optional<Resources> min_resources;
    std::int64_t schedule_timeout_seconds = 0;  // 0: none
    std::string workload;                       // scheduling.k8s.io: the Workload it was made from, "" without one

    // Its status as it stands.
    struct GroupStatus {
        std::string phase, occupied_by, schedule_start_time;  // the time as the server has it: RFC 3339
        std::int64_t scheduled = 0, running = 0, succeeded = 0, failed = 0;

        bool operator==(const GroupStatus &) const = default;
    } status;
    std::string problem;  // why the object cannot be used (a bad quantity in minResources); empty when it can
    std::string condition_status, condition_reason, condition_message;  // scheduling.k8s.io: the "scheduled" condition

    std::string full_name() const { return ns + "/" + name; }
    std::string_view label(std::string_view key) const;
    std::string_view annotation(std::string_view key) const;
    std::string_view group() const { return group_name(api_version); }
    bool is(std::string_view group, std::string_view kind_name) const { return this->group() == group && kind == kind_name; }

    // "batch" of "batch/v1", "" of "v1".
    static std::string_view group_name(std::string_view api_version);

    bool operator==(const Object &) const = default;
};

// API groups of the kinds that Berth knows.
inline constexpr std::string_view batch_group = "batch";
inline constexpr std::string_view jobset_group = "jobset.x-k8s.io";
inline constexpr std::string_view lws_group = "leaderworkerset.x-k8s.io";
inline constexpr std::string_view x_scheduling_group = "scheduling.x-k8s.io";  // PodGroup, a CRD that Berth ships
inline constexpr std::string_view scheduling_group = "scheduling.k8s.io";      // PodGroup and Workload, the server's own

// The condition by which a PodGroup of scheduling.k8s.io says that it was scheduled. It was renamed after v1alpha2; since then it
// never goes back from True.
std::string_view scheduled_condition(std::string_view api_version);
bool scheduled_for_good(std::string_view api_version);  // whether it is one that never goes back

// Claim: a PersistentVolumeClaim, as far as its pod's place depends on it.
struct Claim {
    std::string ns, name, uid, resource_version;
    std::string phase;          // "Pending", "Bound", "Lost"
    std::string selected_node;  // for which a volume is being made (WaitForFirstConsumer)
    std::string storage_class, volume;
};

}  // namespace berth::kube
