#include "agent/slurm/workers.h"

namespace berth {

namespace {

thread_local const Fence *current_fence = nullptr;

}  // namespace

const Fence *Workers::fence() { return current_fence; }

Workers::Workers(Loop &loop, unsigned threads, const Fence *fence) : loop_(loop) {
    for (unsigned i = 0; i < threads; ++i)
        threads_.emplace_back([this, fence] { work(fence); });
}

Workers::~Workers() {
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;
        queue_.clear();
    }
    ready_.notify_all();
    for (std::thread &thread : threads_)
        thread.join();
}

std::size_t Workers::waiting() const {
    std::lock_guard lock(mutex_);
    return queue_.size();
}

void Workers::push(std::function<void()> job) {
    {
        std::lock_guard lock(mutex_);
        queue_.push_back(std::move(job));
    }
    ready_.notify_one();
}

void Workers::work(const Fence *fence) {
    current_fence = fence;
    for (;;) {
        std::function<void()> job;
        {
            std::unique_lock lock(mutex_);
            ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            if (stopping_)
                return;
            job = std::move(queue_.front());
            queue_.pop_front();
        }
        job();
    }
}

}  // namespace berth
