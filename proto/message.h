// Message: what plugin and agent say to each other, and what lies in the run directory's records. docs/protocol.md is
// the contract; this is its only implementation. Text, one packet or file each:
//
//     berth 1 VERB\n
//     key=value\n ...
//
// Verb and keys are [a-z_]{1,64}, each key at most once; values are free of newline and NUL; the whole is at most
// max_message bytes. An unknown key is kept and ignored, so that one version can talk to the next; another version
// number is refused. Pure functions, safe in any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth {

constexpr std::size_t max_message = 32 * 1024;

struct Message {
    std::string verb;
    std::vector<std::pair<std::string, std::string>> fields;

    std::string_view get(std::string_view key) const;  // "" when absent
    std::optional<unsigned long> number(std::string_view key) const;
    Message &set(std::string_view key, std::string_view value);
    Message &set(std::string_view key, unsigned long value);
};

// Empty when the message breaks the rules above.
std::string encode(const Message &message);
// Nothing, with the reason in `why`, for anything that encode() would not have written.
std::optional<Message> decode(std::string_view text, std::string &why);

}  // namespace berth
