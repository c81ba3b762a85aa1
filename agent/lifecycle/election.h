// Election: who of several controllers leads, by a Lease in Kubernetes. Pure: it is told what was read and what was answered, with the
// time of this machine, and says what to do next.
//
// The holder writes the lease every `retry`. It may change things until `renew_deadline` after it *sent* the last renewal that was accepted.
// A candidate takes the lease once it has seen no change of it for `duration`, in which it could read it all the time. It counts from when it first saw the record as it is now,
// on its own clock: the times inside the record are for people. duration > renew_deadline, so the holder has stopped before anybody
// takes over, however wrong their clocks are; only their rates must agree.
//
// Taken at once is a lease that nobody holds (absent, or released at a clean stop), or one of the same identity: that process is gone.
// Every taking begins a new *term*, a number that only grows.
//
// A holder that missed its deadline does not lose the lease by that: while it cannot tell, it only writes nothing. When it can read the
// record again and it is still its own, of the same term, nobody has led meanwhile and it goes on. Else it has lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "agent/fence.h"

namespace berth {

// What anybody who may write the Lease can write into it is bounded:
//
//   duration   berth.yaml accepts none above longest_lease, so no controller that leads needs more patience than that, and a record that
//              asks for more gets no more: never two leaders, and none waits for ever for one who is gone.
//   term       one that a ticket cannot carry counts as none, like that of a Lease that was deleted. The next is then the time of day. Where that is
//              not newer than what job_submit_berth.so has heard, it refuses the leader's tickets and says so.
//   holder     kept as text for a log; what was changed for that is nobody's identity.
constexpr std::chrono::hours longest_lease{1};
constexpr std::uint64_t most_term = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_transitions = std::numeric_limits<std::int32_t>::max();  // a larger one the API server would not take back

struct ElectionTimes {
    std::chrono::milliseconds duration{15'000}, renew_deadline{10'000}, retry{2'000};
};

// What of a Lease counts.
struct LeaseRecord {
    std::string holder;             // empty: released
    std::uint64_t term = 0;
    std::int64_t transitions = 0;   // how often the holder changed, as Kubernetes counts
    std::chrono::seconds duration{0};  // what the holder promised
    std::string acquired, renewed;  // RFC 3339, for people
    std::string version;            // resourceVersion: changes with every write
};

class Election {
  public:
    using Time = BootClock::time_point;

    Election(std::string identity, ElectionTimes times) : identity_(std::move(identity)), times_(times) {}

    enum class Step {
        wait,    // read again after `retry`
        create,  // write next() as a new lease
        write,   // write next() over the version that was read
        lost,    // somebody else leads now: start anew
    };
    // What a read said; nothing: there is no lease.
    Step read(const std::optional<LeaseRecord> &record, Time now);
    // The record to write. `wall`: seconds since the epoch, for terms that stay ahead of those of a lease that was deleted.
    LeaseRecord next(std::uint64_t wall) const;
    // The write that was sent then has been accepted; the record as it is now. False, and nothing is ours by it, when that is not what was written.
    bool written(const LeaseRecord &record, Time sent);

    bool holds() const { return term_ != 0; }
    std::uint64_t term() const { return term_; }
    Time valid_until() const { return renewed_ + times_.renew_deadline; }
    // Who was last seen to hold it; empty: nobody.
    std::string holder() const { return seen_ ? seen_->holder : std::string(); }

  private:
    const std::string identity_;
    const ElectionTimes times_;
    std::optional<LeaseRecord> seen_;  // as last read or written
    Time seen_since_{};                // since when it is so
    Time read_at_{};                   // when a read last succeeded
    std::uint64_t term_ = 0;           // ours, while we hold it
    Time renewed_{};
};

}  // namespace berth
