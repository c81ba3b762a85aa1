// Moment: a point in time as annotations write it. Pure: reads no clock and no time zone.
#pragma once

#include <cstdint>
#include <ctime>
#include <string_view>

#include "agent/result.h"

namespace berth {

struct Moment {
    enum class Form : std::uint8_t { absolute, after, clock } form = Form::absolute;
    std::int64_t seconds = 0;  // since the epoch; after the workload's creation; since midnight (UTC)

    // `created` is the workload's: a moment must not move when its job is submitted again.
    std::time_t at(std::time_t created) const;
    bool operator==(const Moment &) const = default;
};

// RFC 3339 ("2026-11-16T18:00:00Z", "2026-11-16T18:00:00+01:00"), "now+90s", "now+5m", "now+2h", "now+1d" (after the workload's
// creation) and "HH:MM" (the next one after its creation, UTC).
Result<Moment> parse_moment(std::string_view text);

}  // namespace berth
