// PodProcess: the one real process of a hollow pod, in a cgroup where a kubelet would put it:
//   HIERARCHY/CGROUP_ROOT/kubepods[/burstable|/besteffort]/pod<uid>/<container>
// in the v1 hierarchies pids, freezer, memory, cpuset and systemd, or in the unified one. The process behaves as the annotations say by
// itself, so it goes on while the kubelet is dead. What must outlive the kubelet lies in the state directory:
//   <uid>.started   made at the start: its time is the pod's start, its contents "stuck" for a pod nobody shall clean up
//   <uid>.beat      grows while a pod with `beat` runs
//   <uid>.exit      written by the process as it ends by itself: the exit code. A process killed leaves none
// Calls and callbacks on the loop's thread; the process outlives the object.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/loop.h"
#include "agent/result.h"
#include "test/hollow/pod_spec.h"

namespace berth::hollow {

// Where pods' cgroups and records lie.
struct Places {
    std::vector<std::string> hierarchies;  // directories
    std::string v1_freezer;                // one of them, or empty
    std::string cgroup_root;               // "%n" stands for the node
    std::string state;

    static Places find(const std::string &cgroup_mount, std::string cgroup_root, std::string state);
    std::string node_root(const std::string &hierarchy, const std::string &node) const;
    std::string pod_dir(const std::string &hierarchy, const PodSpec &pod) const;
    std::string record(const std::string &uid, const char *what) const { return state + "/" + uid + "." + what; }
};

class PodProcess {
  public:
    // Called once when the process is gone, with its exit code: its own, or 137 when it was killed.
    using Ended = std::function<void(int exit_code)>;

    static Result<std::unique_ptr<PodProcess>> start(Loop &loop, const Places &places, const PodSpec &pod, Ended ended);
    // The process of an earlier kubelet; null when the pod's cgroup has none.
    static std::unique_ptr<PodProcess> adopt(Loop &loop, const Places &places, const PodSpec &pod, Ended ended);
    ~PodProcess();

    void signal(int number);  // to everything in the pod's cgroup

  private:
    PodProcess(Loop &loop, const Places &places, const PodSpec &pod, int pid, Ended ended);

    Places places_;
    PodSpec pod_;
    int pid_, pidfd_;
    Ended ended_;
    SourcePtr exit_watch_;
};

// False while something in it still lives.
bool remove_cgroup(const Places &places, const PodSpec &pod);
std::vector<int> processes_in(const std::string &dir);  // and below
int recorded_exit(const Places &places, const std::string &uid);  // 137 without a record
std::chrono::system_clock::time_point recorded_start(const Places &places, const std::string &uid);
void forget_records(const Places &places, const std::string &uid);

// The pods that have a cgroup on these nodes, whoever made it: uid, node, QOS class and whether they are stuck.
std::vector<PodSpec> find_pods(const Places &places, const std::vector<std::string> &nodes);

}  // namespace berth::hollow
