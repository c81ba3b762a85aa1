#include "agent/tool/node_pairs.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "agent/keys.h"
#include "agent/kube/decode.h"

namespace berth::tool {

std::vector<NodePair> pair_nodes(const std::vector<slurm::QueueNode> &slurm_nodes, const std::vector<kube::Node> &kube_nodes) {
    std::map<std::string, const kube::Node *> by_slurm_name;
    for (const kube::Node &node : kube_nodes) {
        const std::string_view label = kube::value_of(node.labels, keys::slurm_node_name);
        by_slurm_name[label.empty() ? node.name : std::string(label)] = &node;
    }
    std::vector<NodePair> pairs;
    std::set<const kube::Node *> taken;
    for (const slurm::QueueNode &node : slurm_nodes) {
        const auto found = by_slurm_name.find(node.name);
        pairs.push_back({&node, found != by_slurm_name.end() ? found->second : nullptr});
        taken.insert(pairs.back().kube);
    }
    for (const kube::Node &node : kube_nodes)
        if (taken.count(&node) == 0)
            pairs.push_back({nullptr, &node});
    return pairs;
}

std::vector<SiteNode> site_nodes(const std::vector<NodePair> &pairs) {
    std::vector<SiteNode> out;
    for (const NodePair &pair : pairs) {
        if (pair.slurm == nullptr)
            continue;
        SiteNode node;
        node.slurm_name = pair.slurm->name;
        if (pair.kube != nullptr) {
            node.in_kubernetes = true;
            node.kube_name = pair.kube->name;
            node.labels = pair.kube->labels;
            node.taints = pair.kube->taints;
            node.unschedulable = pair.kube->unschedulable;
            node.cpu_milli = pair.kube->cpu_milli;
            node.memory_bytes = pair.kube->memory_bytes;
        }
        out.push_back(std::move(node));
    }
    return out;
}

Result<std::vector<kube::Node>> load_kube_nodes(KubeSession &api) {
    std::vector<kube::Node> nodes;
    kube::Decoder decoder;
    std::string next;
    do {
        kube::Response answer = api.get("/api/v1/nodes?limit=500" + (next.empty() ? "" : "&continue=" + kube::url_escape(next)));
        if (!answer.ok())
            return Error{answer.error};
        auto page = decoder.list<kube::Node>(kube::padded(answer.body));
        if (!page)
            return Error{fmt::format("the list of nodes could not be understood: {}", page.error())};
        std::move(page->items.begin(), page->items.end(), std::back_inserter(nodes));
        next = page->next;
    } while (!next.empty());
    return nodes;
}

}  // namespace berth::tool
