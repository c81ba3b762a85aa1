// Terms: the newest leadership of each cluster's controllers that slurmctld has heard of. A controller that was stopped, woke up and
// submits what it had in its queue, unaware that another leads now, is told by its ticket's term. In memory alone: a slurmctld that starts learns
// anew from the first ticket of each cluster. Any thread; the lock is held for one lookup.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace berth {

class Terms {
  public:
    // 0 when a ticket of this term may pass, and is then the newest that was seen; else the newer one. A ticket without a term (0) passes.
    std::uint64_t newer_than(const std::string &cluster, std::uint64_t term) {
        if (term == 0)
            return 0;
        const std::lock_guard lock(mutex_);
        std::uint64_t &newest = newest_[cluster];
        if (term < newest)
            return newest;
        newest = term;
        return 0;
    }

  private:
    std::mutex mutex_;
    std::map<std::string, std::uint64_t> newest_;
};

}  // namespace berth
