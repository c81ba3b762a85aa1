// Names of nodes: hostlists by our own reading and by libslurm's, and slots on the nodes that Slurm gave.
// First line: CPUs per node and devices, parted by a blank; the rest is the list.
#include "agent/translate/hostlist.h"

#include <algorithm>
#include <set>

#include "agent/node/slots.h"
#include "agent/slurm/client.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

namespace {

using Names = std::set<std::string>;

Names set_of(const std::vector<std::string> &names) { return {names.begin(), names.end()}; }

bool has_long_number(const std::string &name) {
    std::size_t run = 0;
    return std::any_of(name.begin(), name.end(), [&run](char c) { return (run = c >= '0' && c <= '9' ? run + 1 : 0) > 15; });
}

void try_slots(std::string_view line, const std::vector<std::string> &nodes) {
    const std::size_t blank = line.find(' ');
    node::Allocation allocation;
    allocation.nodes = nodes;
    allocation.cpus_per_node = line.substr(0, blank);
    Ticket ticket;
    ticket.size = static_cast<std::uint32_t>(nodes.size());
    ticket.cpus = 2;
    ticket.gres = blank == std::string_view::npos ? "" : line.substr(blank + 1);
    if (!ticket.gres.empty())
        allocation.gres_by_node.assign(nodes.size(), ticket.gres);
    std::uint64_t next = 0, everywhere = 0;
    for (const std::string &name : nodes) {
        const auto slots = node::slots_here(ticket, allocation, name);
        if (!slots)
            return fuzz::require(!slots.error().empty(), "an error says something");
        fuzz::require(slots->first == next, "slots are numbered in the order of nodes", line);
        next += slots->count;
        everywhere += slots->count + slots->spare;
        if (nodes.size() == 1 || &name == &nodes.back())
            fuzz::require(next == ticket.size && everywhere == slots->everywhere, "each slot is on one node", line);
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    std::string_view text = fuzz::as_text(data, size);
    const std::string_view line = fuzz::take_line(text);
    if (const auto cpus = node::parse_cpus_per_node(line))
        fuzz::require(!cpus->empty() && cpus->size() <= 1'000'000, "CPUs per node are bounded", line);
    if (const auto slot = node::parse_slot(line))
        fuzz::require(node::parse_slot(node::to_text(*slot)) == slot, "a slot reads back as it was", line);
    const auto names = expand_hostlist(text);
    if (!names) {
        fuzz::require_sentence(names.error(), 300);
        return 0;
    }
    fuzz::require(!names->empty() && names->size() <= 65536, "names are bounded", text);
    const Names expected = set_of(*names);
    fuzz::require(expected.size() == names->size(), "no name comes twice", text);
    if (names->size() > 2000)
        return 0;  // the rest is quadratic or slow, and no different for many
    const std::string packed = compress_hostlist(*names);
    const auto back = expand_hostlist(packed);
    fuzz::require(back && set_of(*back) == expected, "a packed list names the same nodes", packed);
    // slurmctld reads with libslurm's eyes what translate() excluded with ours: a list of ours means the same to it. (Its numbers have 64 bits,
    // and no node that it knows has a longer one.)
    if (std::none_of(names->begin(), names->end(), has_long_number))
        fuzz::require(set_of(slurm::expand_hosts(packed)) == expected, "libslurm reads our list as we do", packed);
    if (names->size() <= 50)
        try_slots(line, *names);
    return 0;
}
