// Seal: a text with its HMAC-SHA256 in front ("64 hex digits, dot, text"), made by job_submit_berth.so inside slurmctld
// and checked on the node, with a key that only SlurmUser and root can read. Safe in any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth {

std::string seal(std::string_view key, std::string_view text);
// The text, if the seal is whole and made with this key. The view points into `sealed`.
std::optional<std::string_view> open_seal(std::string_view key, std::string_view sealed);

// Reads a key file: a plain file of 32 to 4,096 bytes (trailing newline aside) that nobody but its owner and group can
// read and only its owner can write, the owner being root or the caller. Nothing, with the reason in `why`, otherwise.
std::optional<std::string> read_key(const std::string &path, std::string &why);

}  // namespace berth
