// A packet on the agent's socket, or a record in its run directory.
#include "proto/message.h"

#include "proto/records.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    std::string why;
    const auto message = decode(text, why);
    if (!message) {
        fuzz::require_sentence(why, 200);
        return 0;
    }
    fuzz::require(text.size() <= max_message, "no message is longer than its bound");
    fuzz::require(encode(*message) == text, "what is taken is what encode() would have written", text);
    for (const auto &[key, value] : message->fields) {
        fuzz::require(message->get(key) == value, "each key is found with its value", key);
        if (const auto number = message->number(key); number && std::to_string(*number) != value)
            fuzz::require(value.front() == '0', "a number is its digits", value);
    }
    // A run directory may be named after a node: whatever the name, the pattern is gone and the call comes back.
    const std::string_view node = message->get("node");
    if (node.find("%n") == std::string_view::npos && node.find('%') == std::string_view::npos)
        fuzz::require(RunDir::expand("/run/%n/berth%n", node).find("%n") == std::string::npos, "%n is replaced", node);
    return 0;
}
