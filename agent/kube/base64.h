// Base64 as kubeconfigs carry it (RFC 4648, white space between digits allowed). Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth::kube {

std::optional<std::string> base64_decode(std::string_view text);  // nothing when the text is not base64
std::string base64_encode(std::string_view bytes);

}  // namespace berth::kube
