// Capacity: what a kubelet has left for pods, counted as the kubelet counts when it admits one: its Node's allocatable less the requests
// of every pod on the node that is not over, whoever bound it. A pod that does not fit fails there (OutOfcpu, OutOfmemory), so it is not
// bound. No server; on the loop's thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/kube/pod.h"

namespace berth::node {

struct Lack {
    std::string resource;  // "cpu", "memory", "pods", "nvidia.com/gpu"; empty: the pod fits
    std::string sentence;  // with the numbers

    bool empty() const { return resource.empty(); }
};

class Capacity {
  public:
    void set_node(const kube::Node &node);
    // A pod on this node: as the API shows it, or as it is about to be bound.
    void saw(const kube::Pod &pod);
    void reserve(const std::string &uid, const kube::Resources &asked);
    void forget(const std::string &uid);

    // What the pod lacks here. Nothing while allocatable is not known. Extended resources that the node does not list are left out, as
    // the kubelet does.
    Lack lack(const std::string &uid, const kube::Resources &asked) const;

  private:
    bool known_ = false;
    kube::Resources all_;
    std::int64_t most_pods_ = 0;
    std::map<std::string, kube::Resources> pods_;  // by uid
};

}  // namespace berth::node
