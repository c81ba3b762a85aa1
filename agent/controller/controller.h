// Controller: the controller role of berthd. It watches the pods of its scheduler name, submits a placeholder for each
// that waits, tells the pod's author what Slurm says, and ends what has lost its other half. What may follow what is in
// agent/lifecycle/. It binds nothing: that is the node agents' part.
//
// Nothing is submitted before both the pods and slurmctld's jobs have been read once, so a restart submits nothing twice.
// After that it learns by push: pods by the watch, jobs by the doorbell. The slow reconcile heals what a crash hid.
// All on the loop's thread; report.cc holds what people are told.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/controller/doorbell.h"
#include "agent/controller/placeholder_table.h"
#include "agent/kube/api.h"
#include "agent/kube/watch.h"
#include "agent/lifecycle/lifecycle.h"
#include "agent/role.h"
#include "agent/slurm/client.h"
#include "agent/slurm/workers.h"
#include "agent/translate/placeholder.h"

namespace berth {

struct Workload {
    kube::Pod pod;
    State state = State::idle;
    bool removed = false;     // the API has it no more
    std::uint32_t owner = 0;  // the tenant's uid
    std::uint32_t job = 0;
    std::chrono::steady_clock::time_point job_known{};  // looks that began earlier say nothing about this job
    std::optional<slurm::Job> seen;                     // what the last look showed
    std::string problem;                                // why it was refused
    std::string told;                                   // the last condition message written
    std::chrono::steady_clock::time_point told_at{};
    bool dismissal_told = false;
    std::chrono::steady_clock::time_point unbound_since{};  // of the running job
    bool replaced = false;                              // its job was given up for an unnoticed one
    SourcePtr timer;
    std::chrono::milliseconds backoff{0};

    kube::PodRef ref() const { return {pod.ns, pod.name, pod.uid}; }
};

class Controller : public Role {
  public:
    Controller(Loop &loop, const Config &config, const ClusterConfig &cluster);
    ~Controller() override;

    Result<void> start() override;
    void stop(std::function<void()> done) override;

  private:
    using WorkloadPtr = std::shared_ptr<Workload>;
    struct Look {  // one look at slurmctld
        std::chrono::steady_clock::time_point began;
        std::vector<slurm::Job> jobs;
        std::time_t boot_time = 0;  // slurmctld's, when it was asked for
    };

    // controller.cc
    void on_pod(kube::Pod &&pod);
    void on_pod_removed(const kube::Pod &pod);
    void post(const WorkloadPtr &workload, Event event);
    void act(const WorkloadPtr &workload, Action action);
    void submit(const WorkloadPtr &workload);
    void submitted(const WorkloadPtr &workload, const slurm::Submission &result);
    void cancel(std::uint32_t job, const std::string &pod_uid, std::string_view why, std::function<void()> then = {});
    void retry_later(const WorkloadPtr &workload);
    std::uint16_t doorbell_port() const;

    // look.cc: what slurmctld says
    void look_soon(std::chrono::milliseconds delay);
    void look_now();
    void looked(Result<Look> answer);
    void apply(const WorkloadPtr &workload, const std::vector<const slurm::Job *> &jobs, const Look &look);
    void replace_if_unnoticed(const WorkloadPtr &workload);
    bool ended_by_slurm(const Workload &workload) const;
    void end_orphans(const std::vector<const slurm::Job *> &orphans);
    void reconcile();

    // report.cc: what people are told
    void tell_waiting(const WorkloadPtr &workload);
    void tell_refused(const WorkloadPtr &workload);
    void dismiss(const WorkloadPtr &workload);
    void write_condition(const WorkloadPtr &workload, const std::string &reason, const std::string &message);

    Loop &loop_;
    const Config config_;
    const ClusterConfig cluster_;
    const IdentityLookup identities_;
    std::unique_ptr<kube::Http> http_;
    std::unique_ptr<kube::Api> api_;
    std::unique_ptr<kube::Watcher> pods_;
    std::unique_ptr<Workers> submitters_, lookers_;
    Doorbell doorbell_;
    PlaceholderTable table_;

    std::map<std::string, WorkloadPtr> workloads_;                                // by pod uid
    std::map<std::uint32_t, std::chrono::steady_clock::time_point> orphans_;      // running jobs without a pod, since when
    bool pods_listed_ = false, jobs_listed_ = false;
    std::time_t boot_time_ = 0;
    std::optional<std::chrono::steady_clock::time_point> slurmctld_changed_;  // when it was seen to have restarted
    bool looking_ = false, look_again_ = false, ask_boot_time_ = true;
    std::chrono::steady_clock::time_point next_look_ = std::chrono::steady_clock::time_point::max();
    std::chrono::steady_clock::time_point earliest_look_{};  // so that a storm of rings costs slurmctld little
    SourcePtr look_timer_, reconcile_timer_;
};

}  // namespace berth
