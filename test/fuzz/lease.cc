// The Lease by which controllers elect their leader: whatever somebody wrote into it, and what a candidate makes of it.
#include "agent/kube/lease.h"

#include "test/fuzz/fuzz.h"

using namespace berth;
using namespace std::chrono_literals;
using Step = Election::Step;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const auto record = kube::decode_lease(fuzz::as_text(data, size));
    if (!record)
        return fuzz::require_sentence(record.error(), 300), 0;
    fuzz::require(record->duration >= 0s && record->transitions >= 0 && record->term <= most_term, "numbers are within their bounds");
    fuzz::require(record->holder.size() <= 310 && !fuzz::has_control(record->holder), "a holder is fit for a log", record->holder);

    constexpr std::uint64_t wall = 1'700'000'000;
    const ElectionTimes times{1000s, 900s, 2s};
    Election candidate("candidate", times);
    const Election::Time start(1h);
    const bool free = record->holder.empty() || record->holder == "candidate";
    for (auto now = start; now < start + longest_lease; now += times.renew_deadline) {
        const Step step = candidate.read(*record, now);
        if (free || now - start < times.duration)
            fuzz::require(step == (free ? Step::write : Step::wait), "a holder is given our own patience at least", record->holder);
    }
    fuzz::require(candidate.read(*record, start + longest_lease) == Step::write, "nobody waits for longer than any controller may hold it");

    const LeaseRecord next = candidate.next(wall);
    fuzz::require(next.term > record->term || (record->term == most_term && next.term == wall), "a term only grows, and does not wrap");
    const auto back = kube::decode_lease(kube::encode_lease(next, "berth"));
    fuzz::require(back && back->holder == "candidate" && back->term == next.term && back->transitions == next.transitions, "what is written reads back");
    fuzz::require(candidate.written(*back, start) && candidate.holds(), "whose write was accepted leads");
    return 0;
}
