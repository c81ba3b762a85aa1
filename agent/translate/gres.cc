#include "agent/translate/gres.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "agent/translate/text.h"

namespace berth {
namespace {

constexpr std::size_t kMostGres = 16;
constexpr std::uint64_t kMostOfOneGres = 1ULL << 56;

bool parse_count(std::string_view s, std::uint64_t &count) {
    int shift = 0;
    if (!s.empty()) {
        const std::size_t at = std::string_view("KMGTP").find(static_cast<char>(s.back() & ~0x20));
        if (at != std::string_view::npos) {
            shift = 10 * (static_cast<int>(at) + 1);
            s.remove_suffix(1);
        }
    }
    if (!parse_number(s, count) || count > (kMostOfOneGres >> shift))
        return false;
    count <<= shift;
    return true;
}

// What stands where a type may stand and is meant for a count: too large, negative, or there twice.
bool is_bad_count(std::string_view type) {
    if (type.starts_with('-'))
        return true;
    if (std::string_view("KMGTP").find(static_cast<char>(type.back() & ~0x20)) != std::string_view::npos)
        type.remove_suffix(1);
    return !type.empty() && is_digits(type);
}

GresList::iterator entry_of(GresList &list, std::string_view name) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const auto &entry) { return entry.first == name; });
    return at != list.end() ? at : list.insert(list.end(), {std::string(name), 0});
}

}  // namespace

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return b > most - a ? most : a + b;
}

void add_gres(GresList &list, std::string_view name, std::uint64_t count) {
    const auto at = entry_of(list, name);
    at->second = sum_of(at->second, count);
}

void raise_gres(GresList &list, std::string_view name, std::uint64_t count) {
    const auto at = entry_of(list, name);
    at->second = std::max(at->second, count);
}

std::string_view gres_kind(std::string_view name) { return name.substr(0, name.find(':')); }

std::uint64_t total_of_kind(const GresList &list, std::string_view kind) {
    std::uint64_t sum = 0;
    for (const auto &[name, count] : list)
        if (gres_kind(name) == kind)
            sum = sum_of(sum, count);
    return sum;
}

std::uint64_t count_of(const GresList &list, std::string_view name) {
    for (const auto &[other, count] : list)
        if (other == name)
            return count;
    return 0;
}

Result<GresList> parse_gres(std::string_view text) {
    const auto refused = [&] {
        return Error{
            fmt::format("\"{}\" is not a list of generic resources; accepted are up to {} of NAME, NAME:COUNT or "
                        "NAME:TYPE:COUNT, separated by commas, such as gpu:2 or gpu:a100:2",
                        shown(text), kMostGres)};
    };
    GresList list;
    std::size_t entries = 0;
    for (std::string_view rest = text;;) {
        const std::size_t comma = rest.find(',');
        std::string_view item = rest.substr(0, comma);
        if (item.starts_with("gres/") || item.starts_with("gres:"))
            item.remove_prefix(5);
        // The last field is the count if it is one; what stands before it is NAME or NAME:TYPE.
        std::uint64_t count = 1;
        const std::size_t last = item.rfind(':');
        if (last != std::string_view::npos && parse_count(item.substr(last + 1), count))
            item = item.substr(0, last);
        else
            count = 1;
        const std::size_t colon = item.find(':');
        const bool typed = colon != std::string_view::npos;
        const std::string_view type = typed ? item.substr(colon + 1) : std::string_view();
        // "gres" itself is no name: with a count behind it, it would read as the prefix.
        if (!is_safe_name(item.substr(0, colon)) || item.substr(0, colon) == "gres" || (typed && (!is_safe_name(type) || is_bad_count(type))) || count == 0 ||
            ++entries > kMostGres)
            return refused();
        add_gres(list, item, count);
        if (comma == std::string_view::npos)
            return list;
        rest.remove_prefix(comma + 1);
    }
}

}  // namespace berth
