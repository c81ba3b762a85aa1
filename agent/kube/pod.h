// Pod: the few fields of a pod that Berth needs, copied out of the API's JSON; the rest is dropped at once, so that
// 50,000 known pods cost megabytes. Values only; safe to copy between threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/result.h"

namespace berth::kube {

using KeyValues = std::vector<std::pair<std::string, std::string>>;  // sorted by key

// What the whole pod asks for, as the Kubernetes scheduler counts it: the larger of (sum of containers and sidecars)
// and (the largest init step), plus overhead; per container the larger of request and limit.
struct Resources {
    std::int64_t cpu_milli = 0;
    std::int64_t memory_bytes = 0;
    // "nvidia.com/gpu" and other names with a '/', whole units, sorted by name, none of them 0.
    std::vector<std::pair<std::string, std::int64_t>> extended;
};

enum class Phase : std::uint8_t { pending, running, succeeded, failed, unknown };

struct Pod {
    std::string ns, name, uid, resource_version;
    std::string scheduler_name, node_name;
    std::string service_account, priority_class;
    std::string owner_kind, owner_name, owner_uid;  // the controlling owner reference, empty without one
    Phase phase = Phase::pending;
    bool deleting = false;  // has a deletionTimestamp
    bool gated = false;     // has schedulingGates
    std::int64_t grace_seconds = 30;
    std::int64_t active_deadline_seconds = 0;  // 0: none
    Resources need;
    std::string problem;    // why the pod cannot be translated (a bad quantity); empty when it can
    KeyValues annotations;  // only those under slurmjob.slinky.slurm.net/, slinky.slurm.net/,
                            // scheduler.slinky.slurm.net/, berth.dev/
    KeyValues labels;       // the same prefixes

    // The PodScheduled condition as it stands.
    std::string scheduled_status, scheduled_reason, scheduled_message;

    // How the pod's containers ended, for a terminal pod (and the best knowledge while it is dying): the first
    // container that failed, by finishing time; 0 and 0 when all succeeded.
    int exit_code = 0;        // as reported (137 for OOMKilled); 1 for a failed pod of which no container failed
    int exit_signal = 0;      // 9 for OOMKilled; when set, it says more than exit_code
    std::string exit_reason;  // "OOMKilled", "Error", ...; a failed pod's own reason ("Evicted", "OutOfcpu") goes first
    bool exit_known = false;  // some container reported its end, or the pod is terminal

    bool terminal() const { return phase == Phase::succeeded || phase == Phase::failed; }
    std::string full_name() const { return ns + "/" + name; }
    std::string_view annotation(std::string_view key) const;  // "" when absent
};

// Node: what a node agent must know of its own node before it binds.
struct Node {
    std::string name, uid, resource_version;
    bool ready = false;
    bool unschedulable = false;
    std::int64_t cpu_milli = 0, memory_bytes = 0;  // allocatable
};

}  // namespace berth::kube
