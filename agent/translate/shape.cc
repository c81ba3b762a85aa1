#include "agent/translate/shape.h"

#include <fmt/core.h>

#include <algorithm>

#include "agent/translate/quantity.h"

namespace berth {
namespace {

// The membership's last layer is the own one of the pod that it was made for; each member brings its own instead.
kube::KeyValues layers_of(const Membership &membership, const kube::Pod &pod) {
    if (membership.layers.empty())
        return pod.annotations;
    std::vector<kube::KeyValues> layers(membership.layers.begin(), membership.layers.end() - 1);
    layers.push_back(pod.annotations);
    return merge_layers(layers);
}

// One job has one answer to each question.
Result<void> agree(const Candidate &first, const Candidate &other) {
    const kube::KeyValues ours = job_wide(first.said), theirs = job_wide(other.said);
    if (ours == theirs)
        return {};
    const auto value_of = [](const kube::KeyValues &from, const std::string &key) {
        const auto at = std::find_if(from.begin(), from.end(), [&](const auto &entry) { return entry.first == key; });
        return at == from.end() ? std::string() : at->second;
    };
    kube::KeyValues both = ours;
    both.insert(both.end(), theirs.begin(), theirs.end());
    for (const auto &[key, value] : both) {
        const std::string a = value_of(ours, key), b = value_of(theirs, key);
        if (a != b)
            return Error{fmt::format("annotation {} is \"{}\" on pod {} and \"{}\" on pod {}, but both are in one job; accepted is one value "
                                     "for pods of the same size, or one on their owner",
                                     shown(key), shown(a), first.pod->name, shown(b), other.pod->name)};
    }
    return {};
}

Result<Candidate> read_candidate(const Membership &membership, const kube::Pod &pod) {
    Candidate member{&pod, layers_of(membership, pod), {}};
    Result<Annotations> wishes = read_annotations(member.said);
    if (!wishes)
        return Error{wishes.error()};
    member.wishes = std::move(*wishes);
    return member;
}

std::uint64_t divided_up(std::uint64_t a, std::uint64_t b) { return a / b + (a % b > 0); }

}  // namespace

Result<std::vector<Group>> group_by_shape(const Membership &membership, const std::vector<const kube::Pod *> &pods, const Config &config) {
    const std::size_t size = std::min<std::size_t>(pods.size(), std::max<std::uint32_t>(1, membership.size));
    std::vector<Group> groups;
    for (std::size_t i = 0; i < size; i++) {
        const kube::Pod &pod = *pods[i];
        if (!pod.problem.empty())
            return Error{pod.problem};
        Result<Candidate> member = read_candidate(membership, pod);
        if (!member)
            return Error{member.error()};
        Result<Demand> demand = demand_of(pod, member->wishes, config);
        if (!demand)
            return Error{demand.error()};
        // Nodes tell the pods of a gang apart by this, and they see no annotations but the pod's.
        const Result<Need> natural = need_of(pod, {}, config);
        if (!natural && size > 1)
            return Error{natural.error()};
        const std::string name = natural ? need_text(*natural) : "";
        const auto at = std::find_if(groups.begin(), groups.end(), [&](const Group &g) { return g.name == name; });
        if (at == groups.end()) {
            groups.push_back({name, {std::move(*member)}, std::move(*demand)});
            continue;
        }
        if (Result<void> same = agree(at->members.front(), *member); !same)
            return Error{same.error()};
        at->members.push_back(std::move(*member));
        raise(at->demand, *demand);
    }
    return groups;
}

// The whole difference goes to one shape: the only one, or the largest of those behind the leader's, whose size is its own business.
// Each of its pods gets the same, rounded up. Other resources than CPU and memory are the pods' own.
Result<void> raise_to_minimum(std::vector<Group> &groups, const kube::Resources &least) {
    std::uint64_t cpus = 0, memory = 0;
    for (const Group &g : groups) {
        cpus = sum_of(cpus, g.members.size() * g.demand.need.cpus);
        std::uint64_t product = 0;
        memory = __builtin_mul_overflow(g.demand.need.memory_mib, g.members.size(), &product) ? UINT64_MAX : sum_of(memory, product);
    }
    const auto wanted_cpus = divided_up(static_cast<std::uint64_t>(std::max<std::int64_t>(0, least.cpu_milli)), 1000);
    const auto wanted_memory = static_cast<std::uint64_t>(mib_rounded_up(std::max<std::int64_t>(0, least.memory_bytes)));
    Group &raised = groups.size() == 1 ? groups.front()
                                       : *std::max_element(groups.begin() + 1, groups.end(), [](const Group &a, const Group &b) {
                                             return a.members.size() < b.members.size();
                                         });
    Need &need = raised.demand.need;
    if (wanted_cpus > cpus) {
        const std::uint64_t each = need.cpus + divided_up(wanted_cpus - cpus, raised.members.size());
        if (each > static_cast<std::uint64_t>(kMaxCpus))
            return Error{fmt::format("minResources of the PodGroup would be {} CPUs for each pod; accepted are up to {}", each, kMaxCpus)};
        need.cpus = static_cast<std::uint16_t>(each);
    }
    if (wanted_memory > memory)
        need.memory_mib += divided_up(wanted_memory - memory, raised.members.size());
    return {};
}

}  // namespace berth
