// A node that is gone, and with it the kubelet that would end its pods: may their objects be deleted without its word? Pure.
#pragma once

#include <cstdint>
#include <ctime>

#include "agent/lifecycle/mirror.h"

namespace berth {

// "nodes.lost". By force two pods of one name may live at once, if the node was only cut off: a site that has DOWN nodes powered off,
// by Slurm or by hand, may choose it.
enum class OnLostNode : std::uint8_t { wait, force };

// Both sides must have given the node up: Slurm, which ends its jobs then (null: it has no such node any more), and Kubernetes, whose
// kubelet would end the pod if it lived.
bool node_is_lost(const SlurmNode *slurm, bool kubelet_ready);

// Whether a pod that is being deleted goes by force now: its node has been lost since `since` (0: it is not), for longer than its grace.
bool may_force(OnLostNode policy, std::time_t since, std::int64_t grace_seconds, std::time_t now);

}  // namespace berth
