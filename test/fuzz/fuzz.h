// What the harnesses share: libFuzzer's entry, and the words in which a broken property is said. Each harness is one small file
// that feeds one parser with whatever bytes come, and checks what its header promises, not only that nothing crashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size);

namespace berth::fuzz {

inline std::string_view as_text(const std::uint8_t *data, std::size_t size) { return {reinterpret_cast<const char *>(data), size}; }

// Ends the run with the input kept, as a crash does.
inline void require(bool holds, const char *property, std::string_view about = {}) {
    if (holds)
        return;
    std::fprintf(stderr, "broken: %s: %.*s\n", property, static_cast<int>(about.size()), about.data());
    std::abort();
}

inline bool has_control(std::string_view text) {
    for (const char c : text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            return true;
    return false;
}

// What goes to a log, an event or a condition: one line, not empty, bounded, and nothing in it that a terminal would obey.
inline void require_sentence(std::string_view text, std::size_t most) {
    require(!text.empty(), "an error says something");
    require(text.size() <= most, "an error is bounded", text);
    require(!has_control(text), "an error is one printable line", text);
}

// Cuts the input at its first newline: the head is a choice that the harness reads as it likes, the rest the parser's own text.
inline std::string_view take_line(std::string_view &text) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return line;
}

}  // namespace berth::fuzz
