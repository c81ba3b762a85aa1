// Notices: the conditions of pods that wait, on their way to the API server. People read them, and a controller that starts
// learns from them which job a pod was told to wait for; it does without those that are not there. And there may be one for each of tens of thousands of pods at once. So:
//
//  1. At most `most_under_way` are being written, which leaves the server and our own connections to what matters more.
//  2. Of one pod only the last is kept, and none once it is dropped: its pod has its place, or is gone.
//  3. A server that is busy or away is asked again by one of them at a time (gate.h), until it has taken all.
//  4. One that the server refuses for good is dropped, and holds up nobody.
//
// On the loop's thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>

#include "agent/kube/api.h"
#include "agent/lifecycle/gate.h"
#include "agent/loop.h"

namespace berth {

class Notices {
  public:
    Notices(Loop &loop, kube::Api &api, unsigned most_under_way = 16) : loop_(loop), api_(api), most_under_way_(most_under_way) {}

    void write(const kube::PodRef &pod, const kube::Condition &condition);
    void drop(const std::string &pod_uid);
    std::size_t waiting() const { return waiting_.size(); }

  private:
    struct Notice {
        kube::PodRef pod;
        kube::Condition condition;
    };
    void pump();
    void answered(const Notice &notice, const kube::Response &response);

    Loop &loop_;
    kube::Api &api_;
    const unsigned most_under_way_;
    std::unordered_map<std::string, Notice> waiting_;  // by the pod's uid
    std::deque<std::string> order_;                    // of uids; those that do not wait any more are passed over
    std::unordered_map<std::string, bool> under_way_;  // two writes to one pod could overtake each other; false: dropped since
    Gate gate_;
    int refused_ = 0;  // the status of the last answer, if it was such a no: said once
    SourcePtr timer_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace berth
