// NodePairs: the nodes of both systems side by side, as agent/translate/node_names.h says which is which. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/kube/pod.h"
#include "agent/slurm/queue.h"
#include "agent/tool/kube_session.h"
#include "agent/translate/placeholder.h"

namespace berth::tool {

struct NodePair {
    const slurm::QueueNode *slurm = nullptr;  // null: Kubernetes alone has it
    const kube::Node *kube = nullptr;         // null: Slurm alone has it

    const std::string &name() const { return slurm != nullptr ? slurm->name : kube->name; }
};

// In Slurm's order, then what is left of Kubernetes. Points into both lists.
std::vector<NodePair> pair_nodes(const std::vector<slurm::QueueNode> &slurm_nodes, const std::vector<kube::Node> &kube_nodes,
                                 const std::vector<NodeMapConfig> &map = {});
// As translate() wants them.
std::vector<SiteNode> site_nodes(const std::vector<NodePair> &pairs);

// All nodes of the API server.
Result<std::vector<kube::Node>> load_kube_nodes(KubeSession &api);

}  // namespace berth::tool
