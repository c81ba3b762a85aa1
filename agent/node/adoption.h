// Adoption: what to make of a pod that is on this node and says that it was bound here, while no record speaks of it. Its annotations prove
// nothing, for whoever may create pods can write them and choose the node as well; slurmctld's ticket does. Pure.
#pragma once

#include <optional>
#include <string>

#include "agent/config.h"
#include "agent/kube/pod.h"
#include "agent/slurm/client.h"

namespace berth::node {

enum class Claim {
    good,     // its job runs and has a place for it here
    over,     // the place was its own, but its job has ended or left this node
    forged,   // the job it names is another's, or has bound nothing yet
    unknown,  // slurmctld knows no such placeholder: forgotten, or never there
};

// The placeholder that a pod says it was bound for; nothing when it does not say.
struct ClaimedPlace {
    std::uint32_t job = 0;
    std::string nonce;
};
std::optional<ClaimedPlace> claimed_place(const kube::Pod &pod);

// `job`: slurmctld's answer for the claimed job. `node`: this one, in Slurm.
Claim judge(const kube::Pod &pod, const std::string &node, const std::optional<slurm::Job> &job, const Config &config);

}  // namespace berth::node
