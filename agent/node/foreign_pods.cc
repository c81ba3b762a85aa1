#include "agent/node/foreign_pods.h"

#include <fmt/format.h>

namespace berth::node {

bool ForeignPods::saw(const kube::Pod &pod) {
    const bool belongs = pod.scheduler_name == scheduler_name_ || pod.owner.kind == "DaemonSet" || pod.owner.kind == "Node";
    if (belongs || pod.terminal()) {
        pods_.erase(pod.uid);
        return false;
    }
    return pods_.insert_or_assign(pod.uid, Guest{pod.full_name(), pod.need}).second;
}

std::string ForeignPods::sentence() const {
    if (pods_.empty())
        return {};
    std::int64_t cpu_milli = 0, memory = 0;
    for (const auto &[uid, guest] : pods_) {
        cpu_milli += guest.need.cpu_milli;
        memory += guest.need.memory_bytes;
    }
    const bool one = pods_.size() == 1;
    return fmt::format("{} on this node {} not Slurm's ({}{}): it does not know of {} {:g} CPUs and {} MiB",
                       one ? "a pod" : fmt::format("{} pods", pods_.size()), one ? "is" : "are", pods_.begin()->second.name,
                       one ? "" : " and others", one ? "its" : "their", static_cast<double>(cpu_milli) / 1000, memory >> 20);
}

}  // namespace berth::node
