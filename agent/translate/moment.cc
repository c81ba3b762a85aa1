#include "agent/translate/moment.h"

#include <fmt/core.h>

#include <chrono>
#include <optional>

#include "agent/translate/quantity.h"
#include "agent/translate/text.h"

namespace berth {
namespace {

constexpr std::int64_t kDay = 86400;
constexpr std::int64_t kLastSecond = UINT32_MAX - 2;  // what Slurm's formats can carry

// Takes exactly `width` digits from the front, and the separator behind them where one is given.
std::optional<int> take(std::string_view &text, std::size_t width, char separator = 0) {
    const std::size_t whole = width + (separator != 0);
    std::uint64_t number = 0;
    if (text.size() < whole || !parse_number(text.substr(0, width), number) || (separator != 0 && text[width] != separator))
        return std::nullopt;
    text.remove_prefix(whole);
    return static_cast<int>(number);
}

std::optional<std::int64_t> parse_clock(std::string_view text) {
    const auto hours = take(text, 2, ':'), minutes = take(text, 2);
    if (!hours || !minutes || !text.empty() || *hours > 23 || *minutes > 59)
        return std::nullopt;
    return *hours * 3600 + *minutes * 60;
}

std::optional<std::int64_t> parse_offset(std::string_view text) {
    if (text == "Z" || text == "z")
        return 0;
    if (text.empty() || (text[0] != '+' && text[0] != '-'))
        return std::nullopt;
    const auto seconds = parse_clock(text.substr(1));
    if (!seconds)
        return std::nullopt;
    return text[0] == '+' ? *seconds : -*seconds;
}

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
    using namespace std::chrono;
    const auto y = take(text, 4, '-'), m = take(text, 2, '-'), d = take(text, 2);
    if (!y || !m || !d || text.empty() || (text[0] != 'T' && text[0] != 't'))
        return std::nullopt;
    text.remove_prefix(1);
    const year_month_day date(year(*y), month(static_cast<unsigned>(*m)), day(static_cast<unsigned>(*d)));
    const auto hours = take(text, 2, ':'), minutes = take(text, 2, ':'), seconds = take(text, 2);
    if (!date.ok() || !hours || !minutes || !seconds || *hours > 23 || *minutes > 59 || *seconds > 60)
        return std::nullopt;
    if (!text.empty() && text[0] == '.') {
        const std::size_t digits = text.find_first_not_of("0123456789", 1);
        if (digits == std::string_view::npos || digits == 1)
            return std::nullopt;
        text.remove_prefix(digits);
    }
    const auto offset = parse_offset(text);
    if (!offset)
        return std::nullopt;
    return sys_days(date).time_since_epoch().count() * kDay + *hours * 3600 + *minutes * 60 + *seconds - *offset;
}

}  // namespace

std::time_t Moment::at(std::time_t created) const {
    switch (form) {
    case Form::absolute: return seconds;
    case Form::after: return created + seconds;
    case Form::clock: {
        const std::time_t today = created - created % kDay + seconds;
        return today > created ? today : today + kDay;
    }
    }
    return 0;
}

Result<Moment> parse_moment(std::string_view text) {
    constexpr std::string_view now = "now+";
    if (const auto clock = parse_clock(text))
        return Moment{Moment::Form::clock, *clock};
    if (const auto seconds = parse_rfc3339(text); seconds && *seconds > 0 && *seconds <= kLastSecond)
        return Moment{Moment::Form::absolute, *seconds};
    if (text.starts_with(now)) {
        const auto ms = parse_duration_ms(text.substr(now.size()));
        if (ms && *ms / 1000 < kLastSecond / 4)
            return Moment{Moment::Form::after, *ms / 1000 + (*ms % 1000 > 0)};
    }
    return Error{fmt::format("\"{}\" is not a time; accepted are 2026-11-16T18:00:00Z (RFC 3339), now+90s, now+5m, now+2h, now+1d "
                             "(after the workload's creation) and HH:MM (the next one, in UTC)",
                             shown(text))};
}

}  // namespace berth
