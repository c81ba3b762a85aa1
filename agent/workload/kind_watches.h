// KindWatches: finds out which of the workload kinds the server has, in which version, and watches all objects of each. Kinds
// that are not there, or that may not be listed, are tried again every `look_again`. On the loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/kube/http.h"
#include "agent/kube/watch.h"
#include "agent/loop.h"
#include "agent/workload/kinds.h"

namespace berth {

class KindWatches {
  public:
    struct Handlers {
        std::function<void(const WorkloadKind &, kube::Object &&)> changed;
        std::function<void(const WorkloadKind &, kube::Object &&)> removed;  // of its fields only ns, name and uid are sure
        std::function<void(const WorkloadKind &)> listed;                    // after each complete list
        std::function<void()> settled;  // once: every kind is listed, not there, forbidden, or could not be asked
        std::function<void()> looked;   // after each `look_again`
    };
    struct Times {
        std::chrono::milliseconds backoff_first{200}, backoff_most{30'000};
        std::chrono::milliseconds look_again{60'000};
        std::chrono::milliseconds look_soonest{1'000};  // look() asks no more often than this
    };

    KindWatches(Loop &loop, kube::Http &http, Handlers handlers, Times times);
    ~KindWatches();

    void start();

    // "" while the kind is not known to be there.
    const std::string &api_version(const WorkloadKind &kind) const;
    // It was looked for and the server does not have it.
    bool absent(const WorkloadKind &kind) const;
    // Listed, and watched since: every change of an object is reported.
    bool listed(const WorkloadKind &kind) const;
    // Counts the watches of the kind; each begins with a list of all objects.
    unsigned round(const WorkloadKind &kind) const;

    // Looks for kinds that are not there yet; done when that is answered, at once and from inside when it was just done.
    void look(std::function<void()> done);

  private:
    struct Kind;
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace berth
