#include "agent/kube/json_text.h"

#include <fmt/core.h>

#include <cstdint>
#include <ctime>
#include <iterator>

namespace berth::kube {

namespace {

// Length of the UTF-8 character at `at`, 0 when there is none (overlong forms, surrogates and cut ones included).
std::size_t utf8_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
        return static_cast<unsigned char>(text[at + i]);
    };
    const unsigned char lead = byte(0);
    if (lead < 0x80)
        return 1;
    const std::size_t length = lead >= 0xc2 && lead <= 0xdf   ? 2
                               : lead >= 0xe0 && lead <= 0xef ? 3
                               : lead >= 0xf0 && lead <= 0xf4 ? 4
                                                              : 0;
    if (length == 0 || at + length > text.size())
        return 0;
    for (std::size_t i = 1; i < length; ++i)
        if ((byte(i) & 0xc0) != 0x80)
            return 0;
    if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f) || (lead == 0xf0 && byte(1) < 0x90) ||
        (lead == 0xf4 && byte(1) > 0x8f))
        return 0;
    return length;
}

}  // namespace

std::string json_quote(std::string_view text) {
    std::string out;
    out.reserve(text.size() + 2);
    out.push_back('"');
    for (std::size_t i = 0; i < text.size();) {
        const char c = text[i];
        const std::size_t length = utf8_length(text, i);
        if (length == 0)
            out += "\\ufffd";
        else if (length > 1)
            out.append(text.substr(i, length));
        else if (c == '"' || c == '\\')
            (out += '\\') += c;
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        else
            out.push_back(c);
        i += length == 0 ? 1 : length;
    }
    out.push_back('"');
    return out;
}

std::string_view cut_utf8(std::string_view text, std::size_t most) {
    if (text.size() <= most)
        return text;
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
        --end;
    return text.substr(0, end);
}

std::string for_log(std::string_view text, std::size_t most) {
    std::string out(cut_utf8(text, most));
    for (char &c : out)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            c = ' ';
    if (out.size() < text.size())
        out += "...";
    return out;
}

std::string utc_time(std::chrono::system_clock::time_point when, bool micro) {
    const auto since = when.time_since_epoch();
    const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
    std::tm tm{};
    gmtime_r(&seconds, &tm);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!micro)
        return fmt::format("{}Z", text);
    return fmt::format("{}.{:06}Z", text,
                       std::chrono::duration_cast<std::chrono::microseconds>(since).count() % 1'000'000);
}

}  // namespace berth::kube
