// Gate: how often to ask again where somebody has just said that there is no room. After a no it is shut for a while, twice as long each
// time; then it opens for one at a time, until as many have passed as it takes to halve that while away. So a thousand who wait for the
// same room cost as many questions as one. Pure: the clock and the jitter are passed in.
#pragma once

#include <algorithm>
#include <chrono>

namespace berth {

class Gate {
  public:
    using Time = std::chrono::steady_clock::time_point;
    static constexpr std::chrono::milliseconds first{1'000}, most{30'000};

    bool open(Time now) const { return backoff_.count() == 0 || (under_way_ == 0 && now >= until_); }
    // When open() may become true by itself; nothing stands in the way: the epoch.
    Time opens() const { return backoff_.count() == 0 || under_way_ > 0 ? Time{} : until_; }
    bool shut() const { return backoff_.count() != 0; }
    // The last answer was a no; since then nobody has passed.
    bool refusing() const { return shut() && until_ != Time{}; }
    bool empty() const { return under_way_ == 0; }

    void enter() { ++under_way_; }
    void passed() {
        --under_way_;
        backoff_ = backoff_ <= first ? std::chrono::milliseconds(0) : backoff_ / 2;
        until_ = {};
    }
    // Neither yes nor no.
    void returned() { --under_way_; }
    // `jitter` from 0 to 1: up to a quarter more.
    void refused(Time now, double jitter) {
        --under_way_;
        if (now < until_)
            return;  // several were under way together: it is one no
        backoff_ = std::clamp(backoff_ * 2, first, most);
        refused_ = now;
        until_ = now + backoff_ + std::chrono::milliseconds(static_cast<long>(static_cast<double>(backoff_.count()) * jitter / 4));
    }
    // There is reason to believe in room: the next may ask earlier, but not in the same breath.
    void hint() { until_ = std::min(until_, refused_ + first); }

  private:
    std::chrono::milliseconds backoff_{0};
    Time until_{}, refused_{};
    unsigned under_way_ = 0;
};

}  // namespace berth
