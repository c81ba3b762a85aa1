// Owners: finds a pod's owners in the API and keeps them true. Each object is read once, when the first pod names it; the watches of
// the kinds that Berth knows (Job, JobSet, LeaderWorkerSet, PodGroup of both APIs, Workload) then keep it fresh, and only objects that
// some pod names are kept, except PodGroups, whose controller Berth is: all of them are. Kinds that the server does not have are
// looked for again from time to time. On the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/kube/api.h"
#include "agent/kube/http.h"
#include "agent/loop.h"
#include "agent/workload/grouping.h"

namespace berth {

class Owners {
  public:
    struct Handlers {
        std::function<void(const ObjectPtr &)> changed;  // an object that some pod names, or any PodGroup, changed or came
        std::function<void(const ObjectPtr &)> removed;  // its last state
        std::function<void()> synced;                    // once: everything that must be known before the first submission is listed
    };

    Owners(Loop &loop, kube::Http &http, Handlers handlers);
    ~Owners();

    void start();

    // The chain of a pod's owners. `done` is called at once, from inside, when everything is known; later else. A server that cannot
    // be asked is asked again until it answers: an error is never taken for "no owner". An owner that may not be read (403), is of an
    // unknown kind (404 of the resource) or is gone (404) ends the chain there. At most 8 steps, no step twice.
    using Done = std::function<void(Chain)>;
    void resolve(const kube::Pod &pod, Done done);

    // PodGroups of scheduling.x-k8s.io, known ones.
    ObjectPtr pod_group(const std::string &ns, const std::string &name) const;
    // Forgets interest in what only this pod named.
    void forget(const kube::Pod &pod);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace berth
