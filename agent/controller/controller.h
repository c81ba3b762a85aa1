// Controller: the controller role of berthd. It watches the pods of its scheduler name and their owners, gathers gangs, submits a
// placeholder for each workload that is ready, tells its author what Slurm says, and ends what has lost its other half. What may
// follow what is in agent/lifecycle/. It binds nothing: that is the node agents' part.
//
// Nothing is submitted before pods, owners and slurmctld's jobs have been read once, so a restart submits nothing twice.
// After that it learns by push: pods and owners by their watches, jobs by the doorbell. The slow reconcile heals what a crash hid.
// All on the loop's thread. The way of a pod: arrivals.cc, gang.cc, admission.cc, controller.cc, look.cc; report.cc holds what people are told.
#pragma once

#include <chrono>
#include <ctime>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/config.h"
#include "agent/controller/doorbell.h"
#include "agent/controller/node_mirror.h"
#include "agent/controller/notices.h"
#include "agent/controller/placeholder_table.h"
#include "agent/controller/pod_groups.h"
#include "agent/controller/site_nodes.h"
#include "agent/controller/turnstile.h"
#include "agent/controller/workload.h"
#include "agent/fence.h"
#include "agent/kube/api.h"
#include "agent/kube/watch.h"
#include "agent/role.h"
#include "agent/slurm/nodes.h"
#include "agent/slurm/workers.h"
#include "agent/translate/placeholder.h"
#include "agent/web/status.h"
#include "agent/workload/owners.h"

namespace berth {

// What makes this controller the leader; see leadership.h.
struct Mandate {
    const Fence *fence = nullptr;  // closed: nothing is written. Outlives the controller
    std::uint64_t term = 0;
    std::string holder;            // our identity
};

class Controller : public Role {
  public:
    Controller(Loop &loop, const Config &config, const ClusterConfig &cluster, Mandate mandate);
    ~Controller() override;

    Result<void> start() override;
    void stop(std::function<void()> done) override;

    // picture.cc: what the web server shows
    std::string waits_for() const override;
    void measure(metrics::Gauges &now) override;
    std::string status_json() override;

  private:
    struct Look {  // one look at slurmctld
        std::chrono::steady_clock::time_point began;
        bool nodes_asked = false;
        std::vector<slurm::Job> jobs;
        std::time_t boot_time = 0;  // slurmctld's, when it was asked for
        std::uint32_t max_job_count = 0;  // likewise
        std::uint32_t records = 0;  // jobs in slurmctld's table, everybody's
        std::optional<slurm::NodeTable> nodes;  // when they have changed
        std::optional<std::string> unheard;  // slurm::announce_term(), when the term was told
        std::optional<slurm::NativeJobs> native;  // the jobs of others, when they are to be shown
    };

    // arrivals.cc: pods and their owners come and go
    void on_pod(kube::Pod &&pod);
    void on_pod_removed(const kube::Pod &pod);
    void on_owner(const ObjectPtr &object, bool removed);
    void on_node(kube::Node &&node, bool removed);
    void place(const std::string &pod_uid, const Chain &chain);
    void read_owners(Workload &workload, const kube::Pod &pod, const Chain &chain);
    void reconsider(const WorkloadPtr &workload, const std::function<void()> &then);
    void add_member(const WorkloadPtr &workload, kube::Pod &&pod);
    void close(const WorkloadPtr &workload);  // no other pod joins it
    void forget_if_empty(const WorkloadPtr &workload);
    void hand_on(const WorkloadPtr &workload);  // its waiting pods begin anew
    void all_arrived();

    // gang.cc: who is there, who is missing, who is too many
    void settle(const WorkloadPtr &workload);
    void settle_gang(const WorkloadPtr &workload);
    void settle_late_members(const WorkloadPtr &workload);
    WorkloadPtr split_off(const WorkloadPtr &gang, const std::string &pod_uid);
    void be_patient(const WorkloadPtr &workload, std::optional<Event> awaited, std::chrono::milliseconds patience = {});
    void watch_deadline(const WorkloadPtr &workload);
    void complete(const WorkloadPtr &workload);

    // admission.cc: who is submitted when
    void wait_for_turn(const WorkloadPtr &workload);
    void admit_soon();
    void admit();
    void count_places(const Look &look, const std::map<std::uint32_t, std::uint32_t> &live, const std::vector<WorkloadPtr> &all);
    void tell_turn_at(std::chrono::steady_clock::time_point when, const WorkloadPtr &workload);
    void tell_turns();
    void tell_turn(const WorkloadPtr &workload);
    bool turn_may_come(const WorkloadPtr &workload) const;  // so soon that waiting is no news
    std::string turn_message(const WorkloadPtr &workload) const;

    // controller.cc
    void post(const WorkloadPtr &workload, Event event);
    void act(const WorkloadPtr &workload, Action action);
    void submit(const WorkloadPtr &workload);
    Result<std::vector<std::uint32_t>> jobs_of(const std::string &ns, const std::string &kind, const std::string &name) const;
    void submitted(const WorkloadPtr &workload, const slurm::Submission &result);
    void give_up(const WorkloadPtr &workload, bool withdraw, std::string_view why);
    void cancel(std::uint32_t job, const std::string &key, bool withdraw, std::string_view why, std::function<void()> then = {});
    void end_job(std::uint32_t job, std::function<Result<void>()> how, const std::string &what, std::function<void()> then = {});
    void retry_later(const WorkloadPtr &workload, std::chrono::milliseconds at_least = std::chrono::milliseconds(0));
    std::uint16_t doorbell_port() const;

    // look.cc: what slurmctld says
    void look_soon(std::chrono::milliseconds delay);
    void look_now();
    void looked(Result<Look> answer);
    void apply(const WorkloadPtr &workload, const std::vector<Placing> &placings, const Look &look);
    void end_jobless(const WorkloadPtr &workload);
    bool ended_unseen(const WorkloadPtr &workload, const Look &look);
    void replace_if_unnoticed(const WorkloadPtr &workload);
    bool ended_by_slurm(const Workload &workload) const;
    void end_orphans(const std::vector<Placing> &orphans);
    void end_orphan(const slurm::Job &job);
    void reconcile();

    // ending.cc: how long a running job still has
    void watch_end(const WorkloadPtr &workload, const slurm::Job &job);
    void look_at(const WorkloadPtr &workload, std::time_t when);
    std::chrono::seconds warn_of(const Workload &workload) const;
    void tell_ending(const WorkloadPtr &workload, const std::string &reason, const std::string &message);
    void tell_extended(const WorkloadPtr &workload, const slurm::Job &job);
    void write_ending(const WorkloadPtr &workload, Member &member, const std::string &reason, const std::string &message);
    void leave_early(const WorkloadPtr &workload, const slurm::Job &job);

    // services.cc: pods that are meant to run on
    void renew(const WorkloadPtr &workload, const slurm::Job &job);
    void replace_in_turn(const WorkloadPtr &workload);
    const std::vector<WorkloadPtr> &services_of(const std::string &owner_uid);
    void evict(const WorkloadPtr &workload);

    // picture.cc
    void note_bound(const Workload &workload, const Member &member);
    void note_look(Look &look);
    bool unheard_of(const slurm::Job &job) const;  // it has ended, and nobody rang
    std::vector<web::NodeView> node_views();
    web::WorkloadView view(const Workload &workload) const;
    std::pair<std::string, std::string> wait_of(const Workload &workload) const;

    // report.cc: what people are told
    void tell_group(const Workload &workload, const std::string &reason, const std::string &message);
    void tell_waiting(const WorkloadPtr &workload);
    void tell_gathering(const WorkloadPtr &workload);
    void tell_refused(const WorkloadPtr &workload);
    void tell_notes(const WorkloadPtr &workload);
    void reject(const WorkloadPtr &workload);
    void tell_suspension(const WorkloadPtr &workload);
    void dismiss(const WorkloadPtr &workload);
    void dismiss_unbound(const WorkloadPtr &workload, Member &member, const kube::Event &event);
    void dismiss_member(const WorkloadPtr &workload, Member &member, const kube::Event &event);
    void force_if_lost(Member &member);
    void write_condition(Member &member, const std::string &reason, const std::string &message);

    Loop &loop_;
    const Config config_;
    const ClusterConfig cluster_;
    const Mandate mandate_;
    const IdentityLookup identities_;
    std::unique_ptr<kube::Http> http_;
    std::unique_ptr<kube::Api> api_;
    std::unique_ptr<Owners> owners_;
    std::unique_ptr<PodGroups> groups_;
    SiteNodes nodes_;
    std::unique_ptr<NodeMirror> mirror_;
    std::unique_ptr<kube::Watcher> pods_watch_, nodes_watch_;
    std::unique_ptr<Workers> submitters_, lookers_;
    Doorbell doorbell_;
    PlaceholderTable table_;
    Turnstile turnstile_;
    std::unique_ptr<Notices> notices_;
    std::multimap<std::chrono::steady_clock::time_point, std::weak_ptr<Workload>> untold_;  // when to say why it waits here
    SourcePtr admit_timer_, tell_timer_;
    bool admitting_ = false;
    std::uint32_t max_job_count_ = 0;  // slurmctld's MaxJobCount
    std::size_t refused_ = 0;          // workloads in that state, by the last look
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);

    std::unordered_map<std::string, kube::Pod> arriving_;      // by uid: pods whose owners are being read
    std::unordered_map<std::string, WorkloadPtr> by_pod_;      // by pod uid
    std::map<std::string, WorkloadPtr> open_;                  // by key: what a new pod of that key joins
    std::set<WorkloadPtr> closed_;                             // given up by Slurm or over, while pods or job remain
    std::unordered_map<std::string, std::unordered_set<WorkloadPtr>> interested_;  // by an owner's uid, or the name of one that is missing
    std::unordered_map<std::string, std::string> owner_words_;      // by uid: what of an owner matters to its pods, to compare
    std::unordered_map<std::string, std::string> ended_;       // pods that are over but still in the API -> their PodGroup's uid, if any
    std::map<std::uint32_t, SourcePtr> completing_;            // jobs whose completion is tried again; the workload may be forgotten by then
    std::set<std::uint32_t> ending_;                           // jobs whose end is under way
    std::set<std::string> unclaimed_;                          // keys of live jobs without a workload, by the last look
    std::multimap<std::string, std::uint32_t> job_names_;      // "ns/kind/name" -> jobs, by the last look
    std::map<std::uint32_t, std::chrono::steady_clock::time_point> orphans_;  // running jobs without a pod, since when
    bool pods_listed_ = false, owners_listed_ = false, jobs_listed_ = false;
    std::time_t boot_time_ = 0;
    std::string unheard_;  // why slurmctld has not heard of our term, as the log has it
    std::unordered_map<std::string, std::vector<WorkloadPtr>> services_;  // by owner's uid; empty: not gathered since the last look
    struct Replacing {
        std::size_t replicas;  // that are to run before the next turn
        std::time_t until;     // but no longer than this
    };
    std::map<std::string, Replacing> replacing_;  // by owner's uid
    std::time_t nodes_as_of_ = 0;  // slurmctld's clock when it last told of its nodes
    std::chrono::steady_clock::time_point nodes_asked_{};
    bool want_nodes_ = true;       // the mirror waits for them
    std::optional<std::chrono::steady_clock::time_point> slurmctld_changed_;  // when it was seen to have restarted
    bool looking_ = false, look_again_ = false, ask_boot_time_ = true;
    std::chrono::steady_clock::time_point next_look_ = std::chrono::steady_clock::time_point::max();
    std::chrono::steady_clock::time_point earliest_look_{};  // so that a storm of rings costs slurmctld little
    SourcePtr look_timer_, reconcile_timer_;
    std::time_t rang_ = 0;  // when a doorbell last did

    struct Shown {  // of the looks, for the status page
        std::chrono::steady_clock::time_point jobs{}, nodes{}, natives{};  // when each was last told; the epoch: never
        std::vector<slurm::QueueNode> node_list;
        slurm::NativeJobs native;
        std::deque<web::Landing> landings;
    } shown_;
};

}  // namespace berth
