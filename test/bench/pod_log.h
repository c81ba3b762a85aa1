// PodLog: when a watch first told of a pod, of its node, of its deletion and of its end. One watch per scheduler name, by the agent's own
// code, so that what it costs to hear of a pod is what it costs Berth.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/kube/watch.h"

namespace berth::bench {

struct PodTimes {
    std::string uid, node;
    double added = 0, bound = 0, deleting = 0, ended = 0, gone = 0;  // 0: not yet
};

class PodLog {
  public:
    PodLog(Loop &loop, kube::Http &http) : loop_(loop), http_(http) {}

    // done() once the list is complete.
    void watch(const std::string &scheduler, std::function<void()> done);
    void forget() { pods_.clear(); }
    const std::map<std::string, PodTimes> &pods() const { return pods_; }

  private:
    void changed(const kube::Pod &pod);

    Loop &loop_;
    kube::Http &http_;
    std::map<std::string, PodTimes> pods_;  // by name
    std::vector<std::unique_ptr<kube::Watcher>> watchers_;
};

}  // namespace berth::bench
