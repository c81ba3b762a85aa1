// Group: the pods of one shape on their way into a Placeholder. Pure; pods must outlive it.
#pragma once

#include <string>
#include <vector>

#include "agent/translate/need.h"

namespace berth {

// A member of the gang: the pod, what is said about it on all layers, and what it asks for.
struct Candidate {
    const kube::Pod *pod = nullptr;
    kube::KeyValues said;
    Annotations wishes;
};

struct Group {
    std::string name;  // shape_of() its pods
    std::vector<Candidate> members;
    Demand demand;  // per pod, of the largest; licenses of all together
};

// The pods that count, by what they ask for alone, in order of their lowest ranks. An error also when pods of one shape say different
// things about the job that they would share.
Result<std::vector<Group>> group_by_shape(const Membership &membership, const std::vector<const kube::Pod *> &pods, const Config &config);

// Raises the groups until they reach what a PodGroup asks for as a whole.
Result<void> raise_to_minimum(std::vector<Group> &groups, const kube::Resources &least);

}  // namespace berth
