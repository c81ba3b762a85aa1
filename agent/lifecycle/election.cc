#include "agent/lifecycle/election.h"

#include <algorithm>

namespace berth {

Election::Step Election::read(const std::optional<LeaseRecord> &record, Time now) {
    if (holds()) {
        if (!record || record->holder != identity_ || record->term != term_)
            return Step::lost;
        seen_ = record;
        return Step::write;
    }
    const bool changed = record.has_value() != seen_.has_value() || (record && record->version != seen_->version);
    // A holder may have been as blind as we were while the API server was away: then it gets the chance to renew first.
    const bool was_blind = now - read_at_ > times_.renew_deadline;
    read_at_ = now;
    if (changed || was_blind)
        seen_since_ = now;
    seen_ = record;
    if (!record)
        return Step::create;
    if (record->holder.empty() || record->holder == identity_)
        return Step::write;
    // The holder goes by its own settings, which may be more patient than ours.
    const auto patience = std::max<BootClock::duration>(times_.duration, std::min<std::chrono::seconds>(record->duration, longest_lease));
    return now - seen_since_ >= patience ? Step::write : Step::wait;
}

LeaseRecord Election::next(std::uint64_t wall) const {
    LeaseRecord out = seen_.value_or(LeaseRecord{});
    if (!holds()) {
        out.term = out.term < most_term ? std::max(out.term + 1, wall) : wall;
        out.transitions = std::min(out.transitions + (seen_ ? 1 : 0), most_transitions);
        out.acquired.clear();
    }
    out.holder = identity_;
    out.duration = std::chrono::ceil<std::chrono::seconds>(times_.duration);
    return out;
}

bool Election::written(const LeaseRecord &record, Time sent) {
    if (record.holder != identity_ || record.term == 0 || (holds() && record.term != term_))
        return false;
    seen_ = record;
    seen_since_ = sent;
    term_ = record.term;
    renewed_ = sent;
    return true;
}

}  // namespace berth
