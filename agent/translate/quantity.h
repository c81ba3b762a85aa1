// Kubernetes quantities ("200m", "1Gi", "2e3") and time limits, as exact integers. Pure.
#pragma once

#include <cstdint>
#include <string_view>

#include "agent/result.h"

namespace berth {

// All round up and refuse what is negative, malformed, or does not fit ("1e400").
Result<std::int64_t> parse_milli(std::string_view quantity);  // CPU: "200m" -> 200, "2" -> 2000
Result<std::int64_t> parse_units(std::string_view quantity);  // memory, devices: "1Gi" -> 1073741824, "100m" -> 1

std::int64_t mib_rounded_up(std::int64_t bytes);

// "30" (minutes), "90s", "5m", "2h", "1d", "1w", and Slurm's M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; minutes, rounded up.
Result<std::uint32_t> parse_time_limit(std::string_view text);

// Config durations: "500ms", "30s", "5m", "2h", "1d"; a bare number is an error there. Milliseconds.
Result<std::int64_t> parse_duration_ms(std::string_view text);

}  // namespace berth
