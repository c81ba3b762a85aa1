#include "agent/controller/managed_taint.h"

#include <algorithm>

#include "agent/keys.h"

namespace berth {

namespace {

constexpr const char *value = "slurm", *effect = "NoSchedule";

}  // namespace

void manage_taint(const kube::Node &node, const std::string &key, kube::NodeChange &change) {
    std::vector<kube::Taint> taints = node.taints;
    const std::string ours(kube::value_of(node.annotations, keys::tainted));
    if (!ours.empty() && ours != key) {
        std::erase_if(taints, [&](const kube::Taint &t) { return t.key == ours && t.value == value && t.effect == effect; });
        change.annotations.emplace_back(keys::tainted, std::nullopt);
    }
    const bool there = std::any_of(taints.begin(), taints.end(), [&](const kube::Taint &t) { return t.key == key && t.effect == effect; });
    if (!key.empty() && !there) {
        taints.push_back({key, value, effect});
        std::erase_if(change.annotations, [](const auto &note) { return note.first == keys::tainted; });
        if (ours != key)
            change.annotations.emplace_back(keys::tainted, key);
    }
    if (taints != node.taints)
        change.taints = std::move(taints);
}

}  // namespace berth
