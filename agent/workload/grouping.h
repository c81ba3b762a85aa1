// Grouping: which pods start together, and what is known about them before any of them is translated. Pure: a pod and the chain
// of its owners in, a Membership out. docs/workloads.md has the same rules in words.
//
//   Pod, unknown owners      one placeholder per pod                     key: the pod's uid
//   Job, JobSet              per pod; one gang when asked                key: uid of the Job; uid of the JobSet "/" attempt
//   PodGroup (both APIs)     one gang                                    key: uid of the PodGroup
//   LeaderWorkerSet          one gang per group                          key: uid of the LWS "/" group index
//
// Keys are made of uids, so two workloads of one name in two namespaces, or one after the other, never meet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/kube/object.h"
#include "agent/kube/pod.h"
#include "agent/result.h"

namespace berth {

using ObjectPtr = std::shared_ptr<const kube::Object>;

// A pod's owners, innermost first (ReplicaSet, Deployment), and the group it names by label or spec, if any.
struct Chain {
    std::vector<ObjectPtr> owners;
    ObjectPtr pod_group;      // of either API
    ObjectPtr set;            // the LeaderWorkerSet or JobSet that its labels name, also when the owners do not lead there
    ObjectPtr workload;       // scheduling.k8s.io Workload
    std::string missing;      // what the pod names and is not there yet ("PodGroup team-a/ring"); it waits for it
};

struct Membership {
    std::string key;   // names the gang; the pod's uid for a single pod
    std::string kind;  // "Pod", "Job", "JobSet", "PodGroup", "LeaderWorkerSet"
    std::string ns, name;    // of the workload; LeaderWorkerSet: "<lws>-<groupIndex>"
    std::string owner_uid;   // of the object behind the key, the pod's own for kind Pod
    bool gang = false;
    std::uint32_t size = 1;  // pods that must be there before anything is submitted
    bool suspended = false;  // its owner is suspended: nothing is submitted
    bool finished = false;   // its owner is done, or is being deleted: no other pod will come
    bool failed = false;     // and it failed, by its own count
    bool deleted = false;    // it is being deleted, or gone: how its pods end is no verdict of its
    // How a node finds the members of a gang, with the field spec.schedulerName besides; empty: by the pods' scheduling group.
    std::string selector;
    std::string scheduling_group;
    std::vector<std::string> owners;  // "Job/prepare": every owner, for those that depend on it by name
    // Annotations, outermost owner first; the pod's own last. An outer one wins.
    std::vector<kube::KeyValues> layers;
    std::int64_t active_deadline_seconds = 0;         // the shortest of pod and Job, 0: none
    std::int64_t schedule_timeout_seconds = 0;        // PodGroup
    std::optional<kube::Resources> min_resources;     // PodGroup, of the whole gang
    std::int64_t created = 0;                         // of the group, else the pod
};

// The annotation berth.dev/gang: "true" on any layer makes a gang of a JobSet, else of a Job; "false" overrides the site's
// default for Jobs. When layers differ the outermost counts. PodGroups and LeaderWorkerSets are gangs by their nature, whatever
// it says. An error is a sentence for the pod's author (berth.dev/gang on a kind that cannot be one, a size that is none).
Result<Membership> group_of(const kube::Pod &pod, const Chain &chain, const Config &config);

// The order of pods inside a gang: completion index, worker index, JobSet's job and index, else name. Sorting by it gives ranks.
struct RankKey {
    std::string job;  // JobSet: the replicated job's name, unless it numbers all of its jobs; by name: without the number at its end
    std::int64_t job_index = 0, index = 0;
    std::string name;

    auto operator<=>(const RankKey &) const = default;
};
RankKey rank_key(const kube::Pod &pod);
// The pod's rank where it says it itself: completion index of an Indexed Job's pod, worker index of a LeaderWorkerSet's. Not
// for pods of a PodGroup or JobSet, where the indices of several Jobs may meet.
std::optional<std::uint32_t> own_rank(const kube::Pod &pod);

}  // namespace berth
