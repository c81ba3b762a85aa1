// Leadership: the controller role of berthd as a process has it: one of several controllers that stand for election, of which one leads.
// Who may lead, and until when, is agent/lifecycle/election.h; this carries it out.
//
//   start      read the lease; take it at once if nobody, or this host, holds it; else stand by (standby.h)
//   standby    read the lease every `retry`; take it when its holder has gone silent or let it go
//   leader     a Controller is started, which reads pods, owners and slurmctld's jobs before it submits anything. The lease is
//              renewed every `retry`, over a connection of its own, which no other request can hold up
//   deadline   a renewal does not get through: the fence (agent/fence.h) closes by itself, and nothing is written, in Kubernetes or in Slurm,
//              until one does and the lease is still ours
//   lost       another holds the lease: the process starts anew, as a standby (agent/start_anew.h)
//   stop       what is under way ends, then the lease is let go, so that a standby follows at once
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/config.h"
#include "agent/controller/controller.h"
#include "agent/controller/standby.h"
#include "agent/fence.h"
#include "agent/kube/lease.h"
#include "agent/lifecycle/election.h"
#include "agent/role.h"

namespace berth {

class Leadership : public Role {
  public:
    Leadership(Loop &loop, const Config &config, const ClusterConfig &cluster);

    Result<void> start() override;
    void stop(std::function<void()> done) override;
    std::string waits_for() const override;
    void measure(metrics::Gauges &now) override;
    std::string status_json() override;

  private:
    void after_retry(std::function<void()> what);
    void read();
    void write(bool create);
    void written(const kube::Response &answer, const std::optional<LeaseRecord> &record, Election::Time sent);
    void stand_by(const LeaseRecord &record);
    void lead();
    void complain(const kube::Response &answer);
    void complain(std::string what);
    void watch_deadline();
    void release(std::function<void()> done);

    Loop &loop_;
    const Config &config_;
    const ClusterConfig cluster_;
    const std::string identity_;
    Election election_;
    Fence fence_;
    std::unique_ptr<kube::Http> http_;  // for the lease alone
    std::unique_ptr<kube::LeaseStore> store_;
    std::unique_ptr<Standby> standby_;
    std::unique_ptr<Controller> controller_;
    std::string leader_, complaint_;  // as last said in the log
    SourcePtr timer_, deadline_timer_;
    bool stopping_ = false, late_ = false;
};

}  // namespace berth
