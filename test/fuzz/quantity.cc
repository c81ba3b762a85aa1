// Quantities, time limits, durations, moments and generic resources: numbers that any author of a pod writes.
#include "agent/translate/quantity.h"

#include "agent/translate/gres.h"
#include "agent/translate/moment.h"
#include "agent/translate/placeholder.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

namespace {

void try_quantity(std::string_view text) {
    const auto milli = parse_milli(text), units = parse_units(text);
    for (const auto *got : {&milli, &units}) {
        if (!*got) {
            fuzz::require_sentence(got->error(), 250);
            continue;
        }
        fuzz::require(**got >= 0, "no quantity is negative", text);
        fuzz::require(parse_units(std::to_string(**got)).ok() && *parse_units(std::to_string(**got)) == **got, "digits are their number", text);
        fuzz::require(mib_rounded_up(**got) >= 0 && (**got == 0) == (mib_rounded_up(**got) == 0), "MiB are rounded up", text);
    }
    if (milli) {
        fuzz::require(units.ok(), "what fits in thousandths fits in units", text);
        fuzz::require(*units == *milli / 1000 + (*milli % 1000 > 0), "both count the same, rounded up", text);
    }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    try_quantity(text);
    if (const auto limit = parse_time_limit(text)) {
        fuzz::require(*limit <= INT32_MAX / 60, "Slurm can count the limit in seconds", text);
        fuzz::require(*parse_time_limit(std::to_string(*limit)) == *limit, "minutes are their number", text);
    } else {
        fuzz::require_sentence(limit.error(), 300);
    }
    if (const auto duration = parse_duration_ms(text))
        fuzz::require(*duration >= 0, "no duration is negative", text);
    else
        fuzz::require_sentence(duration.error(), 250);
    if (const auto moment = parse_moment(text)) {
        const std::time_t created = 1794830400, at = moment->at(created);
        fuzz::require(at > 0 && at < UINT32_MAX * 2LL, "a moment is one that Slurm can carry", text);
    } else {
        fuzz::require_sentence(moment.error(), 300);
    }
    if (const auto gres = parse_gres(text)) {
        const auto back = parse_gres(gres_text(*gres));
        fuzz::require(back && *back == *gres, "generic resources read back as they were", text);
    } else {
        fuzz::require_sentence(gres.error(), 400);
    }
    return 0;
}
