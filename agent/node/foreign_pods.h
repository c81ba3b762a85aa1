// ForeignPods: pods on this node that Slurm knows nothing of: bound past it by another scheduler or by hand, so that their room is given
// twice. DaemonSets' pods and static pods are part of every node and are not meant; neither is what has ended. Pure.
#pragma once

#include <map>
#include <string>

#include "agent/kube/pod.h"

namespace berth::node {

class ForeignPods {
  public:
    explicit ForeignPods(std::string scheduler_name) : scheduler_name_(std::move(scheduler_name)) {}

    bool saw(const kube::Pod &pod);  // true: one that was not here before
    void forget(const std::string &uid) { pods_.erase(uid); }

    bool empty() const { return pods_.empty(); }
    // "3 pods on this node are not Slurm's (default/web and others): it does not know of their 2.5 CPUs and 512 MiB"
    std::string sentence() const;

  private:
    struct Guest {
        std::string name;
        kube::Resources need;
    };
    const std::string scheduler_name_;
    std::map<std::string, Guest> pods_;  // by uid
};

}  // namespace berth::node
