// Kubelet: what becomes of the pods that are bound to hollow nodes. As a kubelet does, it admits a pod only when it fits into the
// node beside the others, runs it, reports its status, ends it within the grace when it is deleted, removes its cgroup and
// only then its API object. Started anew it takes over what still runs. Loop's thread.
//
//   waiting --start--> running --process gone--> ended --API object deleted--> forgotten
//      |                  ^------- restartPolicy ----|
//      `--no room, deleted before it began --> ended
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "agent/kube/http.h"
#include "agent/loop.h"
#include "test/hollow/nodes.h"
#include "test/hollow/pod_process.h"
#include "test/hollow/pod_spec.h"

namespace berth::hollow {

class Kubelet {
  public:
    Kubelet(Loop &loop, kube::Http &http, const Nodes &nodes, Places places);

    void changed(PodSpec &&spec);
    void removed(const std::string &uid);                        // its API object is gone
    void synced(const std::unordered_set<std::string> &uids);    // all that there are
    std::size_t pods() const { return pods_.size(); }

  private:
    enum class State { waiting, running, ended };
    struct Pod {
        PodSpec spec;
        State state = State::waiting;
        std::unique_ptr<PodProcess> process;
        std::chrono::system_clock::time_point started, finished;
        int exit_code = 0;
        int restarts = 0;
        std::string reason, message;      // why the pod as a whole failed
        bool api_gone = false;
        std::int64_t grace = -1;          // seconds, once it is being ended
        bool reporting = false, report_again = false, deleting_object = false, reported_end = false;
        SourcePtr start_timer, kill_timer, retry_timer, clean_timer;
    };

    void take_over(Pod &pod);
    void admit(Pod &pod);
    void begin(const std::string &uid);
    void terminate(Pod &pod, std::int64_t grace);
    void process_ended(const std::string &uid, int exit_code);
    void settle(const std::string &uid);  // after the end: report, clean up, delete, forget
    void fail(Pod &pod, std::string reason, std::string message);
    void report(Pod &pod);
    void delete_object(Pod &pod);
    std::string phase(const Pod &pod) const;
    std::string status_patch(const Pod &pod) const;
    Pod *find(const std::string &uid);

    Loop &loop_;
    kube::Http &http_;
    const Nodes &nodes_;
    Places places_;
    std::unordered_map<std::string, Pod> pods_;
};

}  // namespace berth::hollow
