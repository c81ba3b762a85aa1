// SiteNodes: all nodes as both sides have them, and which is which. Filled by the controller from the watch and from its looks; read by
// translation (where may a pod go?) and by the mirror. One thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "agent/config.h"
#include "agent/kube/pod.h"
#include "agent/lifecycle/mirror.h"
#include "agent/translate/node_names.h"
#include "agent/translate/placeholder.h"

namespace berth {

class SiteNodes {
  public:
    explicit SiteNodes(const std::vector<NodeMapConfig> &map) : map_(map) {}

    void set_kube(kube::Node &&node);
    std::string remove_kube(const std::string &name);  // the Slurm node that it was, "" for none
    void set_listed() { listed_ = true; }
    void set_slurm(std::vector<SlurmNode> nodes);

    // Both sides have been read once. Until then nothing can be said about any node.
    bool known() const { return listed_ && !slurm_.empty(); }
    bool listed() const { return listed_; }

    const kube::Node *kube(const std::string &name) const;
    const SlurmNode *slurm(const std::string &name) const;
    const std::map<std::string, kube::Node> &all_kube() const { return kube_; }
    const NodeNames &names();
    // In Slurm's order; empty until both sides are known. Good until the next change.
    std::span<const SiteNode> for_translation();

  private:
    const std::vector<NodeMapConfig> map_;
    std::map<std::string, kube::Node> kube_;  // by name
    std::vector<SlurmNode> slurm_;
    std::unordered_map<std::string, std::size_t> slurm_index_;
    NodeNames names_;
    std::vector<SiteNode> site_;
    bool listed_ = false, names_stale_ = true, site_stale_ = true;
};

}  // namespace berth
