// Loop: the agent's one event loop, over sd-event. Everything that the agent decides happens on the loop's thread;
// only post() may be called from another one. A Source is a registration: dropping it ends it, also from inside its
// own callback.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

struct sd_event;
struct sd_event_source;

namespace berth {

class Source {
  public:
    virtual ~Source() = default;
};
using SourcePtr = std::unique_ptr<Source>;

class Loop {
  public:
    Loop();
    ~Loop();
    Loop(const Loop &) = delete;
    Loop &operator=(const Loop &) = delete;

    // Calls fn(revents) whenever one of the epoll `events` is ready on fd. The fd stays the caller's.
    SourcePtr watch_fd(int fd, std::uint32_t events, std::function<void(std::uint32_t)> fn);
    // Calls fn once, after delay at the earliest.
    SourcePtr after(std::chrono::milliseconds delay, std::function<void()> fn);
    // Calls fn on each delivery of the signal, which the constructor's caller must have blocked in all threads.
    SourcePtr on_signal(int signal, std::function<void()> fn);
    // Runs fn on the loop's thread soon. Thread-safe; the order of one caller's posts is kept.
    void post(std::function<void()> fn);

    // From now on systemd's watchdog, if it watches us (WatchdogSec=), is told while events are handled, so that a loop that is stuck is ended.
    void answer_watchdog();
    int run();  // until quit(); returns its argument
    void quit(int status = 0);
    // Runs until done() is true; it is asked after each event. For programs that wait for one answer after the other.
    void run_until(const std::function<bool()> &done);

    std::chrono::steady_clock::time_point now() const;

  private:
    void run_posted();

    sd_event *event_ = nullptr;
    int wake_fd_ = -1;
    SourcePtr wake_;
    std::mutex mutex_;
    std::vector<std::function<void()>> posted_;
};

}  // namespace berth
