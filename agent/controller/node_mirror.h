// NodeMirror: shows each side's state of a node on the other. What follows from what is in agent/lifecycle/mirror.h; this carries it out.
// Kubernetes tells by its watch. Slurm has no push for a node's change: the controller brings the table with some of its looks.
//
// At most one write a node and side is under way, and the next waits until its effect was seen. Writes to Kubernetes carry the version
// that was read, writes to Slurm look again first: so nobody's change of the same moment is overwritten. It keeps nothing that matters: after a
// restart the reasons and annotations say what was ours. Loop's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "agent/config.h"
#include "agent/controller/site_nodes.h"
#include "agent/kube/api.h"
#include "agent/loop.h"
#include "agent/slurm/workers.h"

namespace berth {

class NodeMirror {
  public:
    // `taint`: the key of the managed taint, "" for none. look() asks Slurm again soon.
    NodeMirror(Loop &loop, kube::Api &api, Workers &workers, SiteNodes &nodes, const NodesConfig &config, std::string taint,
               std::function<void()> look);

    // Each is told after SiteNodes was.
    void node_changed(const std::string &kube_name);
    void node_removed(const std::string &kube_name, const std::string &slurm_name);
    void nodes_listed() { settle_all(); }
    void slurm_looked(std::chrono::steady_clock::time_point began, bool changed);

  private:
    struct KubeSide {
        std::optional<std::chrono::steady_clock::time_point> not_ready_since;
        bool asleep = false;  // in Slurm, when it was last seen
        std::string writing;  // the version that is being replaced; empty: none
        SourcePtr patience, retry;
    };
    struct SlurmSide {
        std::string deleted;  // the Kubernetes node that was seen to go
        unsigned deletions = 0;
        bool writing = false;
        std::chrono::steady_clock::time_point written = std::chrono::steady_clock::time_point::max();
        SourcePtr retry;
    };

    void settle_all();
    void settle(const std::string &slurm_name, const std::string &kube_name);
    KubeNode view(const kube::Node &node);
    void be_patient(const std::string &kube_name);
    void write_kube(const kube::Node &node, const MirrorSteps &steps, const kube::NodeChange &change);
    void write_slurm(const std::string &slurm_name, const std::string &kube_name, const MirrorSteps &steps);
    void tell(const std::string &kube_name, const char *type, const char *reason, const char *action, const std::string &message);

    Loop &loop_;
    kube::Api &api_;
    Workers &workers_;
    SiteNodes &nodes_;
    const NodesConfig config_;
    const std::string taint_;
    const std::function<void()> look_;
    std::map<std::string, KubeSide> kube_;    // by Kubernetes' name
    std::map<std::string, SlurmSide> slurm_;  // by Slurm's, those that there is something to remember of
    const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace berth
