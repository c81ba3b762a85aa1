#include "agent/lifecycle/ending.h"

#include <algorithm>

namespace berth {

std::time_t warn_at(std::time_t start, std::time_t end, std::chrono::seconds warn) {
    if (warn.count() <= 0 || end <= 0)
        return 0;
    return end - start <= warn.count() ? start + (end - start) / 2 : end - warn.count();
}

std::time_t stop_at(std::time_t end, std::chrono::seconds longest_grace) { return end - longest_grace.count(); }

std::uint32_t renewed_limit(std::uint32_t limit, std::uint32_t step, std::uint32_t most, std::uint32_t up_to) {
    std::uint64_t next = std::uint64_t{limit} + step;
    for (const std::uint32_t bound : {most, up_to})
        if (bound != 0)
            next = std::min<std::uint64_t>(next, bound);
    constexpr std::uint64_t longest = 0x7fffffff;  // far below what Slurm reads as "no limit"
    return static_cast<std::uint32_t>(std::max<std::uint64_t>(limit, std::min(next, longest)));
}

Turn next_turn(const std::vector<Replica> &replicas, std::size_t wanted, std::chrono::seconds warn, std::time_t now) {
    const Replica *next = nullptr;
    for (const Replica &replica : replicas)
        if (replica.end != 0 && replica.runs && (next == nullptr || replica.end < next->end))
            next = &replica;
    if (next == nullptr)
        return {};
    const std::time_t opens = warn_at(next->start, next->end, warn), window = next->end - opens;
    // Replacements began later, and have turns of their own.
    const auto together = std::count_if(replicas.begin(), replicas.end(), [&](const Replica &r) {
        return r.end != 0 && r.end <= next->end + window && r.start <= opens;
    });
    const std::time_t due = next->end - window * together / static_cast<std::time_t>(replicas.size());
    if (now < due)
        return {"", due};
    // Somebody is on the way in or out: the next one's turn comes when that is over.
    if (replicas.size() < wanted || std::any_of(replicas.begin(), replicas.end(), [](const Replica &r) { return !r.runs; }))
        return {};
    return {next->uid, 0};
}

}  // namespace berth
