#include "agent/loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <systemd/sd-event.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace berth {

namespace {

// Without its event loop the agent can do nothing: registrations fail only when the system is out of descriptors.
void must(int r, const char *what) {
    if (r < 0) {
        std::fprintf(stderr, "berthd: %s: %s\n", what, std::strerror(-r));
        std::abort();
    }
}

// The callback is held by a shared_ptr that the running call keeps, so that it may drop its own Source.
template <class Fn>
class Registration : public Source {
  public:
    explicit Registration(Fn fn) : fn_(std::make_shared<Fn>(std::move(fn))) {}
    ~Registration() override {
        sd_event_source_set_enabled(source, SD_EVENT_OFF);
        sd_event_source_unref(source);
    }
    std::shared_ptr<Fn> fn() const { return fn_; }

    sd_event_source *source = nullptr;

  private:
    std::shared_ptr<Fn> fn_;
};

using FdFn = std::function<void(std::uint32_t)>;
using PlainFn = std::function<void()>;

int on_io(sd_event_source *, int, std::uint32_t revents, void *data) {
    auto fn = static_cast<Registration<FdFn> *>(data)->fn();
    (*fn)(revents);
    return 0;
}

int on_time(sd_event_source *, std::uint64_t, void *data) {
    auto fn = static_cast<Registration<PlainFn> *>(data)->fn();
    (*fn)();
    return 0;
}

int on_sig(sd_event_source *, const struct signalfd_siginfo *, void *data) {
    auto fn = static_cast<Registration<PlainFn> *>(data)->fn();
    (*fn)();
    return 0;
}

}  // namespace

Loop::Loop() {
    must(sd_event_new(&event_), "sd_event_new");
    wake_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(wake_fd_ < 0 ? -errno : 0, "eventfd");
    wake_ = watch_fd(wake_fd_, EPOLLIN, [this](std::uint32_t) { run_posted(); });
}

Loop::~Loop() {
    wake_.reset();
    close(wake_fd_);
    sd_event_unref(event_);
}

SourcePtr Loop::watch_fd(int fd, std::uint32_t events, FdFn fn) {
    auto r = std::make_unique<Registration<FdFn>>(std::move(fn));
    must(sd_event_add_io(event_, &r->source, fd, events, on_io, r.get()), "sd_event_add_io");
    return r;
}

SourcePtr Loop::after(std::chrono::milliseconds delay, PlainFn fn) {
    auto r = std::make_unique<Registration<PlainFn>>(std::move(fn));
    const auto usec = std::chrono::duration_cast<std::chrono::microseconds>(delay).count();
    must(sd_event_add_time_relative(event_, &r->source, CLOCK_MONOTONIC, usec > 0 ? static_cast<std::uint64_t>(usec) : 0,
                                    1000, on_time, r.get()),
         "sd_event_add_time");
    return r;
}

SourcePtr Loop::on_signal(int signal, PlainFn fn) {
    auto r = std::make_unique<Registration<PlainFn>>(std::move(fn));
    must(sd_event_add_signal(event_, &r->source, signal, on_sig, r.get()), "sd_event_add_signal");
    return r;
}

void Loop::post(PlainFn fn) {
    {
        std::lock_guard lock(mutex_);
        posted_.push_back(std::move(fn));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(wake_fd_, &one, sizeof one);  // full means: awake already
}

void Loop::run_posted() {
    std::uint64_t count;
    [[maybe_unused]] const ssize_t n = read(wake_fd_, &count, sizeof count);
    std::vector<PlainFn> batch;
    {
        std::lock_guard lock(mutex_);
        batch.swap(posted_);
    }
    for (auto &fn : batch)
        fn();
}

void Loop::answer_watchdog() { must(sd_event_set_watchdog(event_, true), "sd_event_set_watchdog"); }

int Loop::run() { return sd_event_loop(event_); }

void Loop::run_until(const std::function<bool()> &done) {
    while (!done() && sd_event_run(event_, UINT64_MAX) >= 0) {
    }
}

void Loop::quit(int status) { sd_event_exit(event_, status); }

std::chrono::steady_clock::time_point Loop::now() const { return std::chrono::steady_clock::now(); }

}  // namespace berth
