#include "agent/kube/pod.h"

#include <algorithm>

namespace berth::kube {

std::string_view value_of(const KeyValues &values, std::string_view key) {
    const auto it =
        std::lower_bound(values.begin(), values.end(), key,
                         [](const auto &entry, std::string_view k) { return std::string_view(entry.first) < k; });
    return it != values.end() && it->first == key ? std::string_view(it->second) : std::string_view();
}

std::string_view Pod::annotation(std::string_view key) const { return value_of(annotations, key); }
std::string_view Pod::label(std::string_view key) const { return value_of(labels, key); }

bool is_older(const Pod &state, const Pod &than) {
    return (than.terminal() && !state.terminal()) || (than.deleting && !state.deleting) ||
           (!than.node_name.empty() && state.node_name.empty());
}

std::uint32_t wait_status(const Pod &pod) {
    if (pod.phase == Phase::succeeded)
        return 0;
    if (pod.exit_signal != 0)
        return static_cast<std::uint32_t>(pod.exit_signal) & 0x7f;
    const int code = pod.exit_code & 0xff;
    return static_cast<std::uint32_t>(code != 0 ? code : 1) << 8;
}

std::string state_words(const Node *node) {
    if (node == nullptr)
        return "-";
    return std::string(node->ready ? "ready" : "not ready") + (node->unschedulable ? ", cordoned" : "");
}

}  // namespace berth::kube
