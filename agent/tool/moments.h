// Times and durations as people read them. Pure, but for the time zone.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

namespace berth::tool {

// "8 s", "12 min", "3 h 5 min", "4 days".
std::string duration_words(std::int64_t seconds);
// "2026-11-16 14:10:00 (in 8 min)", "... (8 min ago)", in local time.
std::string moment_words(std::time_t when, std::time_t now);
// "90 min", "1 day 12 h", "no limit" for 0: a time limit in minutes.
std::string limit_words(std::uint32_t minutes);
// "512 MiB", "16 GiB"; whole units only where they are exact.
std::string mebibyte_words(std::uint64_t mib);

}  // namespace berth::tool
