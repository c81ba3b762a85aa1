#include "agent/slurm/hosts.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "agent/slurm/session.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

namespace {

using Nodes = std::unique_ptr<node_info_msg_t, decltype(&slurm_free_node_info_msg)>;

Result<Nodes> load_nodes() {
    node_info_msg_t *raw = nullptr;
    if (slurm_load_node(0, &raw, SHOW_ALL) != SLURM_SUCCESS)
        return Error{"asking slurmctld for its nodes: " + last_error()};
    return Nodes(raw, slurm_free_node_info_msg);
}

// Whether two comma-separated lists have a word in common; an empty wish is the default partition, of which a node does not speak.
bool in_any(std::string_view wished, std::string_view have) {
    if (wished.empty())
        return true;
    const auto has = [have](std::string_view word) {
        for (std::size_t at = have.find(word); at != std::string_view::npos; at = have.find(word, at + 1)) {
            const std::size_t end = at + word.size();
            if ((at == 0 || have[at - 1] == ',') && (end == have.size() || have[end] == ','))
                return true;
        }
        return false;
    };
    while (!wished.empty()) {
        const std::size_t comma = std::min(wished.find(','), wished.size());
        if (comma > 0 && has(wished.substr(0, comma)))
            return true;
        wished.remove_prefix(std::min(comma + 1, wished.size()));
    }
    return false;
}

}  // namespace

Result<std::vector<std::string>> node_names() {
    const auto nodes = load_nodes();
    if (!nodes)
        return Error{nodes.error()};
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < (*nodes)->record_count; ++i)
        if (const char *name = (*nodes)->node_array[i].name; name != nullptr && *name != '\0')  // holes of deleted nodes
            names.emplace_back(name);
    return names;
}

Result<std::uint16_t> pods_on_whole_node(const Placeholder &p) {
    const auto nodes = load_nodes();
    if (!nodes)
        return Error{nodes.error()};
    std::uint64_t least = 0;
    for (std::uint32_t i = 0; i < (*nodes)->record_count; ++i) {
        const node_info_t &node = (*nodes)->node_array[i];
        if (node.name == nullptr || !in_any(p.partition, node.partitions != nullptr ? node.partitions : ""))
            continue;
        const std::uint64_t memory = node.real_memory - std::min(node.real_memory, node.mem_spec_limit);
        const std::uint64_t fits = std::min(node.cpus_efctv / std::max<std::uint64_t>(p.cpus_per_task, 1),
                                            memory / std::max<std::uint64_t>(p.memory_mib, 1));
        if (fits > 0 && (least == 0 || fits < least))
            least = fits;
    }
    return static_cast<std::uint16_t>(std::clamp<std::uint64_t>(least, 1, std::min<std::uint64_t>(p.tasks, NO_VAL16 - 1)));
}

std::vector<std::string> expand_hosts(const std::string &hostlist) {
    std::vector<std::string> hosts;
    const auto list = slurm_hostlist_create(hostlist.c_str());
    if (list == nullptr)
        return hosts;
    while (char *host = slurm_hostlist_shift(list)) {
        hosts.emplace_back(host);
        std::free(host);
    }
    slurm_hostlist_destroy(list);
    return hosts;
}

std::string compress_hosts(const std::vector<std::string> &hosts) {
    if (hosts.empty())
        return {};
    const auto list = slurm_hostlist_create(nullptr);
    if (list == nullptr)
        return {};
    for (const std::string &host : hosts)
        slurm_hostlist_push_host(list, host.c_str());
    char *text = slurm_hostlist_ranged_string_xmalloc(list);
    const std::string out = text != nullptr ? text : "";
    slurm_xfree(reinterpret_cast<void **>(&text));
    slurm_hostlist_destroy(list);
    return out;
}

}  // namespace berth::slurm
