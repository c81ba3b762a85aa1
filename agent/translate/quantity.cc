#include "agent/translate/quantity.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>

namespace berth {
namespace {

constexpr std::size_t kLongest = 64;  // the API server itself writes at most some 25 characters
constexpr std::uint64_t kLimit = std::numeric_limits<std::int64_t>::max();

// Slurm multiplies minutes by 60 in 32 bits in places; 68 years is where that still holds with a sign.
constexpr std::uint64_t kMaxMinutes = std::numeric_limits<std::int32_t>::max() / 60;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// What people see of a text that may be anything: bounded and printable.
std::string shown(std::string_view text) {
    std::string out;
    for (char c : text.substr(0, kLongest))
        out += (c >= ' ' && c < 127) ? c : '?';
    return text.size() > kLongest ? out + "..." : out;
}

Error malformed(std::string_view text) {
    return Error{
        fmt::format("\"{}\" is not a quantity; accepted are numbers such as 2, 500m, 1.5, 2e3 or 4Gi", shown(text))};
}

Error too_large(std::string_view text) { return Error{fmt::format("\"{}\" is too large", shown(text))}; }

// What follows the number: a power of two, or a power of ten.
struct Suffix {
    bool ok = false;
    int doublings = 0;
    int exponent = 0;
};

Suffix parse_suffix(std::string_view s) {
    if (s.empty())
        return {true, 0, 0};
    if (s.size() == 2 && s[1] == 'i') {
        const std::size_t at = std::string_view("KMGTPE").find(s[0]);
        return at == std::string_view::npos ? Suffix{} : Suffix{true, 10 * (static_cast<int>(at) + 1), 0};
    }
    if (s.size() == 1) {
        switch (s[0]) {
        case 'n': return {true, 0, -9};
        case 'u': return {true, 0, -6};
        case 'm': return {true, 0, -3};
        case 'k': return {true, 0, 3};
        case 'M': return {true, 0, 6};
        case 'G': return {true, 0, 9};
        case 'T': return {true, 0, 12};
        case 'P': return {true, 0, 15};
        case 'E': return {true, 0, 18};
        default: return {};
        }
    }
    if (s[0] != 'e' && s[0] != 'E')
        return {};
    s.remove_prefix(1);
    const bool minus = s[0] == '-';
    if (s[0] == '-' || s[0] == '+')
        s.remove_prefix(1);
    if (s.empty() || !std::all_of(s.begin(), s.end(), is_digit))
        return {};
    int exponent = 0;
    for (char c : s)
        exponent = std::min(exponent * 10 + (c - '0'), 1000);  // beyond this only "too large" and "tiny" remain
    return {true, 0, minus ? -exponent : exponent};
}

// ceil(text * 10^scale), exactly. The number is kept as an integer part and decimal digits of a fraction; a binary
// suffix doubles both, so nothing is rounded before the end.
Result<std::int64_t> parse_scaled(std::string_view text, int scale) {
    if (text.empty() || text.size() > kLongest)
        return malformed(text);
    std::string_view rest = text;
    if (rest[0] == '-')
        return Error{fmt::format("\"{}\" is negative", shown(text))};
    if (rest[0] == '+')
        rest.remove_prefix(1);

    std::string digits;
    int exponent = scale;
    bool any = false, point = false;
    std::size_t at = 0;
    for (; at < rest.size(); at++) {
        if (rest[at] == '.' && !point) {
            point = true;
        } else if (is_digit(rest[at])) {
            any = true;
            digits += rest[at];
            exponent -= point;
        } else {
            break;
        }
    }
    const Suffix suffix = parse_suffix(rest.substr(at));
    if (!any || !suffix.ok)
        return malformed(text);
    exponent += suffix.exponent;
    digits.erase(0, digits.find_first_not_of('0'));
    if (digits.empty())
        return std::int64_t{0};

    // No more than kLongest digits stand before the point, so a deeper fraction than this changes nothing.
    const std::size_t fraction_length = exponent < 0 ? std::min<std::size_t>(-exponent, 4 * kLongest) : 0;
    if (digits.size() < fraction_length)
        digits.insert(0, fraction_length - digits.size(), '0');
    const std::size_t whole = digits.size() - fraction_length;

    std::uint64_t value = 0;
    for (std::size_t i = 0; i < whole; i++) {
        if (value > (kLimit - (digits[i] - '0')) / 10)
            return too_large(text);
        value = value * 10 + (digits[i] - '0');
    }
    for (int i = 0; i < exponent; i++) {
        if (value > kLimit / 10)
            return too_large(text);
        value *= 10;
    }
    for (int i = 0; i < suffix.doublings; i++) {
        int carry = 0;
        for (std::size_t k = digits.size(); k-- > whole;) {
            const int doubled = 2 * (digits[k] - '0') + carry;
            digits[k] = static_cast<char>('0' + doubled % 10);
            carry = doubled / 10;
        }
        if (value > (kLimit - carry) / 2)
            return too_large(text);
        value = 2 * value + carry;
    }
    if (digits.find_first_not_of('0', whole) != std::string::npos) {
        if (value == kLimit)
            return too_large(text);
        value++;
    }
    return static_cast<std::int64_t>(value);
}

// Digits only, at most nine of them, so that sums of products stay far from overflow.
bool parse_field(std::string_view s, std::uint64_t &value) {
    if (s.empty() || s.size() > 9 || !std::all_of(s.begin(), s.end(), is_digit))
        return false;
    value = 0;
    for (char c : s)
        value = value * 10 + (c - '0');
    return true;
}

// Slurm's clock notation without its days: fields separated by ':'. Returns how many there were, 0 when malformed.
int parse_fields(std::string_view s, std::uint64_t (&fields)[3]) {
    for (int n = 0; n < 3; n++) {
        const std::size_t colon = s.find(':');
        if (!parse_field(s.substr(0, colon), fields[n]))
            return 0;
        if (colon == std::string_view::npos)
            return n + 1;
        s.remove_prefix(colon + 1);
    }
    return 0;
}

// Seconds of a time limit; false when malformed.
bool parse_time_limit_seconds(std::string_view s, std::uint64_t &seconds) {
    constexpr std::uint64_t minute = 60, hour = 3600, day = 86400;
    std::uint64_t f[3] = {0, 0, 0};
    const std::size_t dash = s.find('-');
    if (dash != std::string_view::npos) {
        std::uint64_t days = 0;
        if (!parse_field(s.substr(0, dash), days) || parse_fields(s.substr(dash + 1), f) == 0)
            return false;
        seconds = days * day + f[0] * hour + f[1] * minute + f[2];
        return true;
    }
    switch (parse_fields(s, f)) {
    case 1: seconds = f[0] * minute; return true;
    case 2: seconds = f[0] * minute + f[1]; return true;
    case 3: seconds = f[0] * hour + f[1] * minute + f[2]; return true;
    default: break;
    }
    if (s.empty() || !parse_field(s.substr(0, s.size() - 1), f[0]))
        return false;
    switch (s.back()) {
    case 's': seconds = f[0]; return true;
    case 'm': seconds = f[0] * minute; return true;
    case 'h': seconds = f[0] * hour; return true;
    case 'd': seconds = f[0] * day; return true;
    case 'w': seconds = f[0] * 7 * day; return true;
    default: return false;
    }
}

}  // namespace

Result<std::int64_t> parse_milli(std::string_view quantity) { return parse_scaled(quantity, 3); }

Result<std::int64_t> parse_units(std::string_view quantity) { return parse_scaled(quantity, 0); }

std::int64_t mib_rounded_up(std::int64_t bytes) {
    constexpr std::int64_t mib = 1024 * 1024;
    return bytes / mib + (bytes % mib > 0);
}

Result<std::uint32_t> parse_time_limit(std::string_view text) {
    std::uint64_t seconds = 0;
    if (!parse_time_limit_seconds(text, seconds))
        return Error{
            fmt::format("\"{}\" is not a time limit; accepted are minutes (30), 90s, 5m, 2h, 1d, 1w and Slurm's "
                        "M:S, H:M:S, D-H, D-H:M, D-H:M:S",
                        shown(text))};
    const std::uint64_t minutes = seconds / 60 + (seconds % 60 > 0);
    if (minutes > kMaxMinutes)
        return Error{
            fmt::format("\"{}\" is too long; accepted are up to {} minutes (68 years)", shown(text), kMaxMinutes)};
    return static_cast<std::uint32_t>(minutes);
}

Result<std::int64_t> parse_duration_ms(std::string_view text) {
    const std::size_t unit_at = std::find_if_not(text.begin(), text.end(), is_digit) - text.begin();
    const std::string_view unit = text.substr(unit_at);
    const std::int64_t factor = unit == "ms"  ? 1
                                : unit == "s" ? 1000
                                : unit == "m" ? 60 * 1000
                                : unit == "h" ? 3600 * 1000
                                : unit == "d" ? 86400 * 1000
                                              : 0;
    std::uint64_t number = 0;
    if (factor == 0 || !parse_field(text.substr(0, unit_at), number))
        return Error{fmt::format("\"{}\" is not a duration; accepted are 500ms, 30s, 5m, 2h, 1d", shown(text))};
    return static_cast<std::int64_t>(number) * factor;
}

}  // namespace berth
