#include "agent/translate/text.h"

#include <algorithm>

namespace berth {
namespace {

bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
}

bool is_printable_char(char c) { return c >= ' ' && c < 127; }

}  // namespace

bool is_safe_name(std::string_view name) {
    return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), is_name_char);
}

bool is_printable(std::string_view text) { return std::all_of(text.begin(), text.end(), is_printable_char); }

bool is_digits(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool matches(std::string_view pattern, std::string_view text) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos)
        return pattern == text;
    if (!text.starts_with(pattern.substr(0, star)))
        return false;
    const std::string_view rest = pattern.substr(star + 1);
    for (std::size_t at = star; at <= text.size(); at++)
        if (matches(rest, text.substr(at)))
            return true;
    return false;
}

bool parse_number(std::string_view text, std::uint64_t &value) {
    if (text.empty() || text.size() > 18 || !is_digits(text))
        return false;
    value = 0;
    for (char c : text)
        value = value * 10 + (c - '0');
    return true;
}

std::string plain(std::string_view text, std::size_t longest) {
    std::string out(text.substr(0, longest));
    std::replace_if(out.begin(), out.end(), [](char c) { return !is_printable_char(c); }, '?');
    return out;
}

std::string shown(std::string_view value) {
    constexpr std::size_t longest = 64;
    return plain(value, longest) + (value.size() > longest ? "..." : "");
}

std::string joined(const std::vector<std::string> &words) {
    std::string out;
    for (const std::string &word : words)
        out += (out.empty() ? "" : ", ") + word;
    return out;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    for (;;) {
        const std::size_t at = text.find(separator);
        parts.push_back(text.substr(0, at));
        if (at == std::string_view::npos)
            return parts;
        text.remove_prefix(at + 1);
    }
}

}  // namespace berth
