// Workers: threads that make libslurm's blocking calls, so that the event loop never waits for slurmctld. Calls start in
// the order given; answers arrive on the loop's thread. submit() from the loop's thread only. The destructor waits for calls that
// have begun and drops the rest, answers included.
//
// Workers with a fence make no call that changes anything in Slurm while it is closed: the functions of agent/slurm that do ask may_write()
// right before they speak to slurmctld.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "agent/fence.h"
#include "agent/loop.h"

namespace berth {

class Workers {
  public:
    // The fence outlives the workers.
    Workers(Loop &loop, unsigned threads, const Fence *fence = nullptr);
    ~Workers();

    // Runs call() on a worker, then done(result) on the loop.
    template <class Call, class Done>
    void submit(Call call, Done done) {
        push([this, alive = std::weak_ptr<bool>(alive_), call = std::move(call), done = std::move(done)]() mutable {
            auto result = std::make_shared<decltype(call())>(call());
            loop_.post([alive, result, done = std::move(done)]() mutable {
                if (alive.lock())
                    done(std::move(*result));
            });
        });
    }
    std::size_t waiting() const;

    // The fence of the calling thread's Workers; nullptr: none, or the thread is nobody's worker.
    static const Fence *fence();

  private:
    void push(std::function<void()> job);
    void work(const Fence *fence);

    Loop &loop_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    mutable std::mutex mutex_;
    std::condition_variable ready_;
    std::deque<std::function<void()>> queue_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

// Whether the calling thread may change anything in Slurm now.
inline bool may_write() { return Workers::fence() == nullptr || Workers::fence()->open(); }

}  // namespace berth
