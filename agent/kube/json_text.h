// Text on its way into JSON bodies and log lines. Pure.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>

namespace berth::kube {

// With quotes around it; bytes that are no UTF-8 become U+FFFD, so that a foreign message cannot spoil a request.
std::string json_quote(std::string_view text);
// At most `most` bytes, never ending inside a UTF-8 character.
std::string_view cut_utf8(std::string_view text, std::size_t most);
// One line of printable text for a log, cut to `most` bytes.
std::string for_log(std::string_view text, std::size_t most = 300);
// RFC 3339 in UTC: Kubernetes' Time, or with microseconds its MicroTime.
std::string utc_time(std::chrono::system_clock::time_point when, bool micro);

}  // namespace berth::kube
