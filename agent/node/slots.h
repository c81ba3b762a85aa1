// Slots: which places of a gang's part lie on this node. Every node computes this for itself from the same facts, so that no node
// needs another's word. Slots are numbered in Slurm's node order, so neighbouring ranks are on neighbouring nodes. Pure functions,
// safe in any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"
#include "proto/ticket.h"

namespace berth::node {

// What Slurm gave the part.
struct Allocation {
    std::vector<std::string> nodes;         // in Slurm's order
    std::string cpus_per_node;              // SLURM_JOB_CPUS_PER_NODE: "8(x2),2"
    std::vector<std::string> gres_by_node;  // "gpu:a100:2(IDX:0-1)", in the order of nodes; empty: not known
    // At most one of them; both 0: whole nodes' memory.
    std::uint64_t memory_mib_per_cpu = 0, memory_mib_per_node = 0;
};

// [first, first + count) are slots below the part's size. What the allocation can take beyond it (whole nodes, hyperthreads) are the
// spare slots, numbered on from the size: pods that came late may join there.
struct Slots {
    std::uint32_t first = 0, count = 0;
    std::uint32_t spare_first = 0, spare = 0;
    std::uint32_t everywhere = 0;  // slots on all nodes, spare ones included

    bool has(std::uint32_t slot) const {
        return (slot >= first && slot - first < count) || (slot >= spare_first && slot - spare_first < spare);
    }
    bool operator==(const Slots &) const = default;
};

// A slot by its full name, as a bound pod carries it: "PART.SLOT".
struct SlotName {
    std::uint32_t part = 0, slot = 0;

    bool operator==(const SlotName &) const = default;
};
std::string to_text(const SlotName &name);
std::optional<SlotName> parse_slot(std::string_view text);

// A node has room for as many pods as its CPUs, memory and devices are enough for, and at most ticket.per_node. When that is exactly the size
// over all nodes, it is the answer. When it is more, every node gets one while there are enough, and the rest fills the nodes in order,
// which is Slurm's block distribution. An error when it is less, when the node has no part in it, or when the texts contradict each other.
Result<Slots> slots_here(const Ticket &ticket, const Allocation &allocation, const std::string &node);

// "8(x2),2" -> 8, 8, 2; nothing when it is no such list, or names more than a million nodes.
std::optional<std::vector<std::uint32_t>> parse_cpus_per_node(std::string_view text);

// How many of a device ("gpu", or with its type "gpu:a100") a node's text speaks of; a name without type counts all types.
std::uint64_t devices_in(std::string_view gres_of_node, std::string_view name);

// What the allocation lacks in devices for the whole part, empty when it has enough or does not say.
std::string device_shortage(const Ticket &ticket, const std::vector<std::string> &gres_by_node);

}  // namespace berth::node
