// The kinds of objects that Berth knows by name: where they are in the API, and the labels by which pods name them. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/discovery.h"
#include "agent/kube/object.h"

namespace berth {

namespace labels {
inline constexpr std::string_view pod_group = "scheduling.x-k8s.io/pod-group";
inline constexpr std::string_view lws_name = "leaderworkerset.sigs.k8s.io/name";
inline constexpr std::string_view lws_group_index = "leaderworkerset.sigs.k8s.io/group-index";
inline constexpr std::string_view lws_worker_index = "leaderworkerset.sigs.k8s.io/worker-index";
inline constexpr std::string_view lws_size = "leaderworkerset.sigs.k8s.io/size";  // an annotation
inline constexpr std::string_view jobset_name = "jobset.sigs.k8s.io/jobset-name";
inline constexpr std::string_view jobset_job = "jobset.sigs.k8s.io/replicatedjob-name";
inline constexpr std::string_view jobset_job_index = "jobset.sigs.k8s.io/job-index";
inline constexpr std::string_view jobset_global_index = "jobset.sigs.k8s.io/job-global-index";
inline constexpr std::string_view jobset_attempt = "jobset.sigs.k8s.io/restart-attempt";
inline constexpr std::string_view completion_index = "batch.kubernetes.io/job-completion-index";  // below 1.28 an annotation
inline constexpr std::string_view job_name = "job-name";
inline constexpr std::string_view controller_uid = "controller-uid";
}  // namespace labels

// A kind that Berth watches and reads whole. Of every other kind it reads the metadata.
struct WorkloadKind {
    std::string_view group, kind, resource;
    std::string_view versions;  // that Berth can read, best first, each with a blank behind it; empty: any, as the server lists them
    bool keep_all = false;      // objects are kept although no pod names them
};
std::span<const WorkloadKind> workload_kinds();
const WorkloadKind *find_workload_kind(std::string_view group, std::string_view kind);

// The versions of the kind's group that are worth looking into, best first.
std::vector<std::string> candidate_versions(const WorkloadKind &kind, const kube::ApiGroups &groups);

// The resource of kinds whose names will not change ("apps/v1", "ReplicaSet" -> "replicasets"); "" for all others, which must
// be looked up in the server's discovery.
std::string_view well_known_resource(std::string_view api_version, std::string_view kind);

}  // namespace berth
