#include "agent/kube/pod.h"

#include <algorithm>

namespace berth::kube {

std::string_view Pod::annotation(std::string_view key) const {
    const auto it =
        std::lower_bound(annotations.begin(), annotations.end(), key,
                         [](const auto &entry, std::string_view k) { return std::string_view(entry.first) < k; });
    return it != annotations.end() && it->first == key ? std::string_view(it->second) : std::string_view();
}

}  // namespace berth::kube
