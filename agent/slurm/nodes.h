// Slurm's nodes as the mirror sees them, and the two changes that it makes. Blocks; any thread.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "agent/lifecycle/mirror.h"
#include "agent/result.h"
#include "agent/slurm/queue.h"

namespace berth::slurm {

struct NodeTable {
    std::vector<SlurmNode> nodes;  // in Slurm's order
    std::vector<QueueNode> shown;  // the same, as people want to see them
    std::time_t as_of = 0;         // slurmctld's clock
};

// All nodes; nothing when none has changed since that moment, which costs slurmctld next to nothing. Slurm has no push for a change of a
// node, so this is asked whenever it is talked to anyway.
Result<std::optional<NodeTable>> load_nodes(std::time_t since);

// Both ask first, for the table may be old by now: a node that is off for somebody else's reason is left alone, and false says so.
Result<bool> drain_node(const std::string &name, const std::string &reason);
// Ends a drain of the mirror's. A node that is down stays so.
Result<bool> resume_node(const std::string &name);

}  // namespace berth::slurm
