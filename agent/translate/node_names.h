// NodeNames: which Kubernetes node is which Slurm node. "nodes.map" of the configuration says it, else the label
// slinky.slurm.net/slurm-nodename of the Kubernetes node, else the names are the same. What two claim belongs to neither: a pod on the
// wrong node is worse than one that waits. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/kube/pod.h"

namespace berth {

// The Slurm node that a Kubernetes node says it is, by the configuration, its label or its name.
std::string slurm_name_of(const std::string &kube_name, const kube::KeyValues &labels, const std::vector<NodeMapConfig> &map);

// The reverse for a node's own agent, which knows no labels yet: by the configuration, else the same name.
std::string kube_name_of(const std::string &slurm_name, const std::vector<NodeMapConfig> &map);

class NodeNames {
  public:
    NodeNames() = default;
    // `kube` is by name.
    NodeNames(const std::vector<std::string> &slurm, const std::map<std::string, kube::Node> &kube, const std::vector<NodeMapConfig> &map);

    // "" without a partner.
    const std::string &kube_of(const std::string &slurm) const;
    const std::string &slurm_of(const std::string &kube) const;
    const std::map<std::string, std::string> &pairs() const { return by_slurm_; }  // Slurm's name -> Kubernetes'

  private:
    std::map<std::string, std::string> by_slurm_, by_kube_;
};

// Nodes that get no pods because the other side lacks them. Each in its own order.
struct Unmatched {
    std::vector<std::string> slurm;  // without a Kubernetes node
    std::vector<std::string> kube;   // without a Slurm node
    std::map<std::string, std::vector<std::string>> disputed;  // Slurm nodes that several Kubernetes nodes claim; they are above, too

    bool empty() const { return slurm.empty() && kube.empty(); }
};
Unmatched unmatched(const std::vector<std::string> &slurm, const std::map<std::string, kube::Node> &kube,
                    const std::vector<NodeMapConfig> &map);

}  // namespace berth
