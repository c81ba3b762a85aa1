// Fence: until when this process may change anything, in Kubernetes or in Slurm. The controller that holds the lease opens it up to its
// renew deadline and no longer; whoever writes asks right before. Time is CLOCK_BOOTTIME, which goes on while the process is
// stopped and while the machine sleeps: one that wakes too late finds the fence closed before it has read anything. Any thread.
#pragma once

#include <ctime>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace berth {

struct BootClock {
    using duration = std::chrono::nanoseconds;
    using rep = duration::rep;
    using period = duration::period;
    using time_point = std::chrono::time_point<BootClock>;
    static constexpr bool is_steady = true;

    static time_point now() {
        std::timespec ts{};
        clock_gettime(CLOCK_BOOTTIME, &ts);
        return time_point(std::chrono::seconds(ts.tv_sec) + std::chrono::nanoseconds(ts.tv_nsec));
    }
};

class Fence {
  public:
    bool open() const { return BootClock::now() < until(); }
    BootClock::time_point until() const { return BootClock::time_point(BootClock::duration(until_.load())); }
    void open_until(BootClock::time_point when) { until_.store(when.time_since_epoch().count()); }
    void close() { until_.store(0); }

    // What is said of a write that was held back.
    static constexpr const char *closed_text = "held back: this controller's lease was not renewed in time, so another may lead";

  private:
    std::atomic<std::int64_t> until_{0};
};

}  // namespace berth
