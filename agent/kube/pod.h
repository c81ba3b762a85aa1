// Pod: the few fields of a pod that Berth needs, copied out of the API's JSON; the rest is dropped at once, so that
// 50,000 known pods cost megabytes. Values only; safe to copy between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/result.h"

namespace berth::kube {

using KeyValues = std::vector<std::pair<std::string, std::string>>;  // sorted by key

std::string_view value_of(const KeyValues &values, std::string_view key);  // "" when absent

// What the whole pod asks for, as the Kubernetes scheduler counts it: the larger of (sum of containers and sidecars)
// and (the largest init step), plus overhead; per container the larger of request and limit.
struct Resources {
    std::int64_t cpu_milli = 0;
    std::int64_t memory_bytes = 0;
    // "nvidia.com/gpu" and other names with a '/', "hugepages-2Mi" and "ephemeral-storage" (bytes); whole units, sorted
    // by name, none of them 0.
    std::vector<std::pair<std::string, std::int64_t>> extended;

    bool operator==(const Resources &) const = default;
};

// One line of a node affinity.
struct Requirement {
    enum class Op : std::uint8_t { in, not_in, exists, does_not_exist, gt, lt, unknown };
    std::string key;
    Op op = Op::unknown;
    std::vector<std::string> values;
    bool field = false;  // of matchFields: the key is a field of the node ("metadata.name"), not a label

    bool operator==(const Requirement &) const = default;
};
using Term = std::vector<Requirement>;  // all must hold

struct Toleration {
    std::string key, op, value, effect;  // op "Equal" when not said; an empty key or effect is any

    bool operator==(const Toleration &) const = default;
};

// Where a pod wants to be. Left out of the tolerations: the two that every pod is given (not-ready, unreachable).
struct Placement {
    KeyValues node_selector;
    bool has_required = false;     // requiredDuringSchedulingIgnoredDuringExecution of the node affinity is there
    std::vector<Term> required;    // one of them must hold: with none, the pod fits nowhere
    std::vector<std::pair<std::int64_t, Term>> preferred;  // weight, heaviest first
    std::vector<Toleration> tolerations;
    bool pod_affinity = false;     // required affinity or anti-affinity to pods
    bool topology_spread = false;  // a spread constraint with DoNotSchedule

    bool operator==(const Placement &) const = default;
};

struct OwnerRef {
    std::string api_version, kind, name, uid;  // all empty: none

    bool empty() const { return uid.empty(); }
    bool operator==(const OwnerRef &) const = default;
};

enum class Phase : std::uint8_t { pending, running, succeeded, failed, unknown };

struct Pod {
    std::string ns, name, uid, resource_version;
    std::string scheduler_name, node_name;
    std::string service_account, priority_class;
    std::int64_t priority = 0;
    OwnerRef owner;               // the controlling owner reference
    std::string scheduling_group; // spec.schedulingGroup.podGroupName
    std::int64_t created = 0;     // seconds since the epoch
    Phase phase = Phase::pending;
    bool deleting = false;  // has a deletionTimestamp
    bool gated = false;     // has schedulingGates
    std::int64_t grace_seconds = 30;
    std::int64_t active_deadline_seconds = 0;  // 0: none
    Resources need;
    std::shared_ptr<const Resources> requests;  // the same by requests alone; null: no limit is above its request
    bool memory_limited = false;  // each container has a memory limit, or the pod as a whole: the kubelet bounds the pod's cgroup
    bool memory_open = false;     // some container says nothing of memory, and the pod as a whole does not either
    std::string problem;    // why the pod cannot be translated (a bad quantity); empty when it can
    KeyValues annotations;  // only those under slurmjob.slinky.slurm.net/, slinky.slurm.net/, scheduler.slinky.slurm.net/,
                            // berth.dev/ and scheduling.x-k8s.io/, leaderworkerset.sigs.k8s.io/size, and
                            // batch.kubernetes.io/job-completion-index where it is no label (before 1.28)
    KeyValues labels;       // the same prefixes, and those of workload kinds: batch.kubernetes.io/job-completion-index,
                            // job-name, controller-uid, jobset.sigs.k8s.io/, leaderworkerset.sigs.k8s.io/
    std::shared_ptr<const Placement> placement;  // null: anywhere
    std::vector<std::string> claims;             // names of its PersistentVolumeClaims, those of ephemeral volumes included

    // The PodScheduled condition as it stands.
    std::string scheduled_status, scheduled_reason, scheduled_message;
    // The condition berth.dev/Ending, while it is True.
    std::string ending_reason, ending_message;

    bool suspended = false;  // the condition berth.dev/Suspended is True

    // How the pod's containers ended, for a terminal pod (and the best knowledge while it is dying): the first
    // container that failed, by finishing time; 0 and 0 when all succeeded.
    int exit_code = 0;        // as reported (137 for OOMKilled); 1 for a failed pod of which no container failed
    int exit_signal = 0;      // 9 for OOMKilled; when set, it says more than exit_code
    std::string exit_reason;  // "OOMKilled", "Error", ...; a failed pod's own reason ("Evicted", "OutOfcpu") goes first
    bool exit_known = false;  // some container reported its end, or the pod is terminal

    const Resources &requested() const { return requests ? *requests : need; }  // what a kubelet counts
    bool terminal() const { return phase == Phase::succeeded || phase == Phase::failed; }
    std::string full_name() const { return ns + "/" + name; }
    std::string_view annotation(std::string_view key) const;  // "" when absent
    std::string_view label(std::string_view key) const;       // likewise
};

// Whether one state of a pod was before another, as far as its end, its deletion and its node tell: none of these is ever undone. An
// answer may arrive after the watch has told of what came later.
bool is_older(const Pod &state, const Pod &than);

// How a finished pod's end reads in sacct: a wait status.
std::uint32_t wait_status(const Pod &pod);

struct Taint {
    std::string key, value, effect;
    std::string time_added{};  // as the server has it; kept for when the list is written back

    bool operator==(const Taint &) const = default;
};

// Node: what a node agent must know of its own node before it binds, and the controller of all that may take a pod.
struct Node {
    std::string name, uid, resource_version;
    bool ready = false;
    std::string ready_message;  // of the condition Ready, whatever its status
    std::vector<std::pair<std::string, std::string>> pressures;  // DiskPressure, MemoryPressure, PIDPressure where True, with their messages
    bool unschedulable = false;
    KeyValues annotations;      // the prefixes of Pod::annotations
    KeyValues labels;           // all of them
    std::vector<Taint> taints;
    std::int64_t cpu_milli = 0, memory_bytes = 0, pods = 0;         // allocatable; 0: not known
    std::vector<std::pair<std::string, std::int64_t>> extended;     // likewise, as in Resources, and 0 where it says so
};

// "ready", "not ready", "ready, cordoned"; "-" for none.
std::string state_words(const Node *node);

}  // namespace berth::kube
