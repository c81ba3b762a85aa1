// Object: what Berth needs of an object that owns or groups pods, whatever its kind: the fields of all kinds side by side, those that
// a kind lacks left at their defaults. Values only; safe to copy between threads.
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
    bool finished = false;   // condition Complete or Failed is True; JobSet: Completed or Failed
    bool failed = false;     // the latter
    std::int64_t active_deadline_seconds = 0;

    // JobSet: what its jobs make together, replicas x parallelism (bounded by completions), summed.
    std::int64_t pods = 0;

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
    std::string condition_status, condition_reason, condition_message;  // scheduling.k8s.io: the "scheduled" condition

    std::string full_name() const { return ns + "/" + name; }
    std::string_view label(std::string_view key) const;
};

}  // namespace berth::kube
