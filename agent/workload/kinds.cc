#include "agent/workload/kinds.h"

#include <algorithm>

namespace berth {

namespace {

// scheduling.k8s.io/v1beta1 is also the name of an old version of PriorityClass (1.20), so a version is taken only when it has the
// kind.
constexpr WorkloadKind kinds[] = {
    {kube::batch_group, "Job", "jobs", "v1 ", false},
    {kube::jobset_group, "JobSet", "jobsets", "", false},
    {kube::lws_group, "LeaderWorkerSet", "leaderworkersets", "", false},
    {kube::x_scheduling_group, "PodGroup", "podgroups", "v1alpha1 ", true},
    {kube::scheduling_group, "PodGroup", "podgroups", "v1beta1 v1alpha3 v1alpha2 ", true},
    {kube::scheduling_group, "Workload", "workloads", "v1beta1 v1alpha3 v1alpha2 ", false},
};

struct WellKnown {
    std::string_view api_version, kind, resource;
};
constexpr WellKnown well_known[] = {
    {"apps/v1", "ReplicaSet", "replicasets"}, {"apps/v1", "Deployment", "deployments"}, {"apps/v1", "StatefulSet", "statefulsets"},
    {"apps/v1", "DaemonSet", "daemonsets"},   {"v1", "Pod", "pods"},
};

}  // namespace

std::span<const WorkloadKind> workload_kinds() { return kinds; }

const WorkloadKind *find_workload_kind(std::string_view group, std::string_view kind) {
    const auto at =
        std::find_if(std::begin(kinds), std::end(kinds), [&](const auto &k) { return k.group == group && k.kind == kind; });
    return at == std::end(kinds) ? nullptr : at;
}

std::vector<std::string> candidate_versions(const WorkloadKind &kind, const kube::ApiGroups &groups) {
    const auto group = groups.find(kind.group);
    if (group == groups.end())
        return {};
    if (kind.versions.empty())
        return group->second;
    std::vector<std::string> out;
    for (std::string_view rest = kind.versions; !rest.empty();) {
        const auto blank = rest.find(' ');
        const std::string_view version = rest.substr(0, blank);
        rest.remove_prefix(blank + 1);
        if (std::find(group->second.begin(), group->second.end(), version) != group->second.end())
            out.emplace_back(version);
    }
    return out;
}

std::string_view well_known_resource(std::string_view api_version, std::string_view kind) {
    if (const auto *known = find_workload_kind(kube::Object::group_name(api_version), kind))
        return known->resource;
    for (const auto &one : well_known)
        if (one.api_version == api_version && one.kind == kind)
            return one.resource;
    return "";
}

}  // namespace berth
