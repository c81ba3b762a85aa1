// Slurm's nodes. Blocks; any thread.
#pragma once

#include <cstdint>

#include "agent/result.h"
#include "agent/slurm/client.h"
#include "agent/translate/placeholder.h"

namespace berth::slurm {

// How many pods of an exclusive gang each whole node gets: as many as fit into the smallest node of its partition that takes any, by CPUs
// and memory. Larger nodes are not filled; who wants that says tasks_per_node. 1 when no node takes any: slurmctld then says so.
Result<std::uint16_t> pods_on_whole_node(const Placeholder &placeholder);

}  // namespace berth::slurm
