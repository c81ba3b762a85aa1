// The volumes that a pod needs here. Nobody but the scheduler of a pod knows its node before it is bound, so the scheduler tells the storage:
// a claim that waits for its first consumer gets this node written on it, a volume is made for it, and the pod is bound when all its
// claims are.
#include <fmt/format.h>

#include "agent/log.h"
#include "agent/node/node_agent.h"

namespace berth::node {

namespace {

// What one look at all claims of a pod found.
struct Round {
    std::size_t open = 0;   // answers that are still to come
    bool waiting = false;   // some claim has no volume yet
    std::string why;        // what only a person or another node can change; empty: nothing
    std::string problem;    // a server that did not answer
};

}  // namespace

bool NodeAgent::claims_ready(const BerthPtr &berth) {
    if (!berth->pod_seen || berth->pod_seen->claims.empty() || berth->claims_bound)
        return true;
    const auto round = std::make_shared<Round>();
    const auto arrived = [this, berth, round] {
        if (--round->open > 0)
            return;
        berth->request_open = false;
        if (berth->stage == Stage::ending)
            return hold_on(berth);
        if (berth->stage != Stage::checking)
            return;
        if (!round->why.empty())
            return wait_and_tell(berth, "FailedBinding", round->why);
        if (!round->problem.empty())
            log::warning("pod {}/{} waits for its volumes: {}", berth->pod.ns, berth->pod.name, round->problem);
        if (round->waiting || !round->problem.empty())
            return try_again(berth);
        berth->claims_bound = true;
        bind(berth);
    };
    berth->request_open = true;
    const std::vector<std::string> claims = berth->pod_seen->claims;
    round->open = claims.size();
    for (const std::string &name : claims)
        api_->get_claim({berth->pod.ns, name, ""}, [this, berth, round, arrived, name](const kube::Response &response,
                                                                                     const std::optional<kube::Claim> &claim) {
            if (response.status == 404) {
                round->why = fmt::format("PersistentVolumeClaim {} is not there", name);
            } else if (!claim) {
                round->problem = response.error;
            } else if (claim->phase == "Lost") {
                round->why = fmt::format("PersistentVolumeClaim {} has lost its volume", name);
            } else if (claim->phase != "Bound") {
                round->waiting = true;
                if (!claim->selected_node.empty() && claim->selected_node != kube_node_)
                    round->why = fmt::format("the volume of PersistentVolumeClaim {} is being made for node {}, but Slurm job {} is on {}",
                                             name, claim->selected_node, berth->job, kube_node_);
                if (claim->selected_node.empty()) {
                    ++round->open;
                    log::info("claim {}/{} of pod {} is to have its volume on {}", berth->pod.ns, name, berth->pod.name, kube_node_);
                    api_->select_node_for_claim({claim->ns, claim->name, claim->uid}, kube_node_,
                                                [round, arrived](const kube::Response &written) {
                                                    if (!written.ok())
                                                        round->problem = written.error;
                                                    arrived();
                                                });
                }
            }
            arrived();
        });
    return false;
}

}  // namespace berth::node
