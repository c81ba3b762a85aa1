// PodCgroup: the processes of one pod on this node, found by its cgroup "pod<uid>" in any hierarchy (v1 and v2) and in both
// of the kubelet's ways to name it (cgroupfs and systemd), for every QoS class. Plain file reads; any thread.
#pragma once

#include <string>
#include <vector>

namespace berth::node {

class PodCgroup {
  public:
    // mount: /sys/fs/cgroup; root: the kubelet's --cgroup-root.
    PodCgroup(const std::string &mount, const std::string &root, const std::string &pod_uid);

    // Whether any process lives in it. An absent cgroup has none, which alone proves nothing: the kubelet may not have begun.
    bool populated() const;
    // SIGKILL to every process in it, through cgroup.kill where the kernel has it. What was frozen is thawed, so that it can die.
    void kill() const;
    // Its cgroups that exist: the one of v2, or one for each hierarchy of v1.
    std::vector<std::string> directories() const;

  private:
    std::vector<std::string> candidates_;
};

}  // namespace berth::node
