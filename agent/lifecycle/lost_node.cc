#include "agent/lifecycle/lost_node.h"

namespace berth {

bool node_is_lost(const SlurmNode *slurm, bool kubelet_ready) {
    return !kubelet_ready && (slurm == nullptr || slurm->down || slurm->asleep);
}

bool may_force(OnLostNode policy, std::time_t since, std::int64_t grace_seconds, std::time_t now) {
    return policy == OnLostNode::force && since != 0 && now - since >= grace_seconds;
}

}  // namespace berth
