#include "agent/tool/moments.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::tool {

namespace {

constexpr std::int64_t minute = 60, hour = 60 * minute, day = 24 * hour;

std::string two(std::int64_t value, std::int64_t large, const char *large_name, std::int64_t small, const char *small_name) {
    const std::int64_t rest = value % large / small;
    std::string out = fmt::format("{} {}", value / large, large_name);
    return rest == 0 ? out : out + fmt::format(" {} {}", rest, small_name);
}

}  // namespace

std::string duration_words(std::int64_t seconds) {
    seconds = std::max<std::int64_t>(seconds, 0);
    if (seconds < 2 * minute)
        return fmt::format("{} s", seconds);
    if (seconds < hour)
        return fmt::format("{} min", seconds / minute);
    if (seconds < day)
        return two(seconds, hour, "h", minute, "min");
    return two(seconds, day, seconds < 2 * day ? "day" : "days", hour, "h");
}

std::string moment_words(std::time_t when, std::time_t now) {
    std::tm tm{};
    localtime_r(&when, &tm);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm);
    return when > now ? fmt::format("{} (in {})", text, duration_words(when - now))
                      : fmt::format("{} ({} ago)", text, duration_words(now - when));
}

std::string limit_words(std::uint32_t minutes) {
    return minutes == 0 ? "no limit" : minutes < 120 ? fmt::format("{} min", minutes) : duration_words(std::int64_t{minutes} * minute);
}

std::string mebibyte_words(std::uint64_t mib) {
    return mib >= 1024 && mib % 1024 == 0 ? fmt::format("{} GiB", mib / 1024) : fmt::format("{} MiB", mib);
}

}  // namespace berth::tool
