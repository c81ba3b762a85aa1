#include "agent/tool/node_pairs.h"

#include <map>

#include "agent/translate/node_names.h"

namespace berth::tool {

std::vector<NodePair> pair_nodes(const std::vector<slurm::QueueNode> &slurm_nodes, const std::vector<kube::Node> &kube_nodes,
                                 const std::vector<NodeMapConfig> &map) {
    std::vector<std::string> slurm_names;
    for (const slurm::QueueNode &node : slurm_nodes)
        slurm_names.push_back(node.name);
    std::map<std::string, kube::Node> by_name;
    for (const kube::Node &node : kube_nodes)
        by_name[node.name] = node;
    const NodeNames names(slurm_names, by_name, map);
    std::map<std::string, const kube::Node *> by_slurm_name;
    std::vector<NodePair> alone;
    for (const kube::Node &node : kube_nodes)
        if (const std::string &partner = names.slurm_of(node.name); !partner.empty())
            by_slurm_name[partner] = &node;
        else
            alone.push_back({nullptr, &node});
    std::vector<NodePair> pairs;
    for (const slurm::QueueNode &node : slurm_nodes) {
        const auto found = by_slurm_name.find(node.name);
        pairs.push_back({&node, found != by_slurm_name.end() ? found->second : nullptr});
    }
    pairs.insert(pairs.end(), alone.begin(), alone.end());
    return pairs;
}

std::vector<SiteNode> site_nodes(const std::vector<NodePair> &pairs) {
    std::vector<SiteNode> out;
    for (const NodePair &pair : pairs)
        if (pair.slurm != nullptr)
            out.push_back(make_site_node(pair.slurm->name, pair.kube));
    return out;
}

Result<std::vector<kube::Node>> load_kube_nodes(KubeSession &api) { return list_all<kube::Node>(api, "/api/v1/nodes?", "nodes"); }

}  // namespace berth::tool
