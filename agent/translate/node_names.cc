#include "agent/translate/node_names.h"

#include <algorithm>
#include <set>

#include "agent/keys.h"

namespace berth {

namespace {

const std::string none;

const std::string &found(const std::map<std::string, std::string> &names, const std::string &name) {
    const auto at = names.find(name);
    return at != names.end() ? at->second : none;
}

// A name alone is the weakest claim: a node that the configuration or a label names beats one that only happens to be called so.
std::map<std::string, std::vector<std::string>> claims(const std::map<std::string, kube::Node> &kube, const std::vector<NodeMapConfig> &map) {
    std::map<std::string, std::vector<std::string>> said, assumed;
    for (const auto &[name, node] : kube) {
        const std::string slurm = slurm_name_of(name, node.labels, map);
        const bool mapped = std::any_of(map.begin(), map.end(), [&](const auto &entry) { return entry.slurm == slurm; });
        const bool by_config = std::any_of(map.begin(), map.end(), [&kube_name = name](const auto &entry) { return entry.kubernetes == kube_name; });
        if (mapped && !by_config)
            continue;  // the configuration has given that Slurm node away
        (slurm != name || by_config ? said : assumed)[slurm].push_back(name);
    }
    for (auto &[slurm, names] : assumed)
        said.try_emplace(slurm, std::move(names));
    return said;
}

}  // namespace

std::string slurm_name_of(const std::string &kube_name, const kube::KeyValues &labels, const std::vector<NodeMapConfig> &map) {
    for (const NodeMapConfig &entry : map)
        if (entry.kubernetes == kube_name)
            return entry.slurm;
    const auto label = std::find_if(labels.begin(), labels.end(), [](const auto &l) { return l.first == keys::slurm_node_name; });
    return label != labels.end() && !label->second.empty() ? label->second : kube_name;
}

std::string kube_name_of(const std::string &slurm_name, const std::vector<NodeMapConfig> &map) {
    const auto entry = std::find_if(map.begin(), map.end(), [&](const NodeMapConfig &e) { return e.slurm == slurm_name; });
    return entry != map.end() ? entry->kubernetes : slurm_name;
}

NodeNames::NodeNames(const std::vector<std::string> &slurm, const std::map<std::string, kube::Node> &kube,
                     const std::vector<NodeMapConfig> &map) {
    const auto claimed = claims(kube, map);
    for (const std::string &name : slurm)
        if (const auto at = claimed.find(name); at != claimed.end() && at->second.size() == 1) {
            by_slurm_[name] = at->second.front();
            by_kube_[at->second.front()] = name;
        }
}

const std::string &NodeNames::kube_of(const std::string &slurm) const { return found(by_slurm_, slurm); }

const std::string &NodeNames::slurm_of(const std::string &kube) const { return found(by_kube_, kube); }

Unmatched unmatched(const std::vector<std::string> &slurm, const std::map<std::string, kube::Node> &kube,
                    const std::vector<NodeMapConfig> &map) {
    const NodeNames names(slurm, kube, map);
    Unmatched out;
    for (const std::string &name : slurm)
        if (names.kube_of(name).empty())
            out.slurm.push_back(name);
    for (const auto &[name, node] : kube)
        if (names.slurm_of(name).empty())
            out.kube.push_back(name);
    const std::set<std::string> known(slurm.begin(), slurm.end());
    for (auto &[name, claimants] : claims(kube, map))
        if (claimants.size() > 1 && known.contains(name))
            out.disputed[name] = std::move(claimants);
    return out;
}

}  // namespace berth
