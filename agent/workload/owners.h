// Owners: finds a pod's owners in the API and keeps them true. Each object is read once, when the first pod names it; the
// watches of the kinds that Berth knows (Job, JobSet, LeaderWorkerSet, PodGroup of both APIs, Workload) then keep it fresh, and
// only objects that some pod names are kept, except PodGroups, whose controller Berth is: all of them are. Kinds that the
// server does not have, or does not let us list, are tried again from time to time; objects of the latter, that pods name, are
// then read again too. On the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/kube/http.h"
#include "agent/loop.h"
#include "agent/workload/grouping.h"
#include "agent/workload/kind_watches.h"

namespace berth {

class Owners {
  public:
    struct Handlers {
        // An object that some pod names, or any PodGroup, came or changed in a way that Object shows. Not for what a resolve()
        // under way is the first to read: its done has it.
        std::function<void(const ObjectPtr &)> changed;
        std::function<void(const ObjectPtr &)> removed;  // its last state
        // Once: every kind is listed, or is not there, is forbidden or could not be asked. Objects that pods name are read all
        // the same.
        std::function<void()> synced;
    };
    using Times = KindWatches::Times;

    Owners(Loop &loop, kube::Http &http, Handlers handlers, Times times = Times());
    ~Owners();

    void start();

    // The chain of a pod's owners. `done` is called once: from inside when everything is known, later else; never after
    // forget() of the pod. A server that cannot be asked is asked again until it answers: an error is never taken for "no
    // owner". An owner that may not be read (403), is of an unknown kind (404 of the resource) or is gone (404, or another uid)
    // ends the chain there. At most 8 steps, no step twice. A PodGroup or LeaderWorkerSet that the pod names and that is not
    // there is Chain::missing; `changed` tells when it came. The pods of a LeaderWorkerSet are led to it by their label: what
    // stands between them is left out.
    using Done = std::function<void(Chain)>;
    void resolve(const kube::Pod &pod, Done done);

    // PodGroups of scheduling.x-k8s.io, known ones.
    ObjectPtr pod_group(const std::string &ns, const std::string &name) const;
    // Forgets interest in what only this pod named.
    void forget(const kube::Pod &pod);

  private:
    struct Impl;
    std::shared_ptr<Impl> impl_;
};

}  // namespace berth
