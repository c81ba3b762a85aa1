#include "agent/controller/site_nodes.h"

#include <algorithm>

namespace berth {

void SiteNodes::set_kube(kube::Node &&node) {
    kube::Node &known = kube_[node.name];
    const bool renamed = known.name.empty() || known.labels != node.labels;
    names_stale_ |= renamed;
    // A heartbeat is no news to translation.
    site_stale_ |= renamed || known.cpu_milli != node.cpu_milli || known.memory_bytes != node.memory_bytes || known.taints != node.taints;
    known = std::move(node);
}

std::string SiteNodes::remove_kube(const std::string &name) {
    std::string slurm = names().slurm_of(name);
    kube_.erase(name);
    names_stale_ = site_stale_ = true;
    return slurm;
}

void SiteNodes::set_slurm(std::vector<SlurmNode> nodes) {
    const bool same = std::equal(nodes.begin(), nodes.end(), slurm_.begin(), slurm_.end(),
                                 [](const SlurmNode &a, const SlurmNode &b) { return a.name == b.name; });
    slurm_ = std::move(nodes);
    if (same)
        return;
    names_stale_ = site_stale_ = true;
    slurm_index_.clear();
    for (std::size_t i = 0; i < slurm_.size(); ++i)
        slurm_index_[slurm_[i].name] = i;
}

const kube::Node *SiteNodes::kube(const std::string &name) const {
    const auto at = kube_.find(name);
    return at != kube_.end() ? &at->second : nullptr;
}

const SlurmNode *SiteNodes::slurm(const std::string &name) const {
    const auto at = slurm_index_.find(name);
    return at != slurm_index_.end() ? &slurm_[at->second] : nullptr;
}

const NodeNames &SiteNodes::names() {
    if (names_stale_) {
        names_stale_ = false;
        std::vector<std::string> slurm;
        for (const SlurmNode &node : slurm_)
            slurm.push_back(node.name);
        names_ = NodeNames(slurm, kube_, map_);
    }
    return names_;
}

std::span<const SiteNode> SiteNodes::for_translation() {
    if (!known())
        return {};
    if (site_stale_) {
        site_stale_ = false;
        site_.clear();
        for (const SlurmNode &slurm : slurm_)
            site_.push_back(make_site_node(slurm.name, kube(names().kube_of(slurm.name))));
    }
    return site_;
}

}  // namespace berth
