// When the pods of a running placeholder are warned, stopped or replaced. Pure: no clock, no server; times are seconds since the epoch.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace berth {

// The moment to speak of the job's end: `warn` before it; half-way in a job that is not longer than that. 0: never.
std::time_t warn_at(std::time_t start, std::time_t end, std::chrono::seconds warn);

// The moment to delete pods so that they are gone at `end`, with all the grace they ask for; it may be past.
std::time_t stop_at(std::time_t end, std::chrono::seconds longest_grace);

// Minutes; 0 in `most` and `up_to` is no bound. The limit that a service's job may have next: longer by `step`, and never beyond the
// partition's most and the site's up_to. `limit` itself when it may have no more.
std::uint32_t renewed_limit(std::uint32_t limit, std::uint32_t step, std::uint32_t most, std::uint32_t up_to);

// One pod of a service: of those with the same owner.
struct Replica {
    std::string uid;
    std::time_t start = 0, end = 0;  // of its job; end 0: none, or it can be renewed
    bool runs = false;               // bound and running, and nobody deletes it
};

// Who is to be replaced now, if anybody (a uid), else when to ask again; 0: not before something changes.
struct Turn {
    std::string uid;
    std::time_t ask_at = 0;
    bool operator==(const Turn &) const = default;
};
// One at a time, and the next only when all of them run again; `wanted` of them at least, for one that was replaced may be gone before its
// replacement is heard of. The turns of those that end together are spread evenly over the time
// between warning and end, so that each replacement has its share of it, and the next generation does not end together.
Turn next_turn(const std::vector<Replica> &replicas, std::size_t wanted, std::chrono::seconds warn, std::time_t now);

}  // namespace berth
