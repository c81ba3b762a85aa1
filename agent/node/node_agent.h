// NodeAgent: the node role of berthd. It binds the pods of placeholders that Slurm allocated here, and proves pods gone
// before Slurm may give their room away. One Berth per pod; a single pod's placeholder is one Berth, a gang's (gang.h) has one for
// each of its slots here that a pod has taken. A Berth's way:
//
//      allocated ─► checking ─► binding ─► docked ─► finishing ─► (single pod: job completed; berth dropped)
//                      │           │          │
//                      └───────────┴──────────┴────► ending ─► (pods gone, epilog answered, berth dropped)
//
//   checking   the job is read from slurmctld and the pod from the API: both must still be what the ticket says
//   binding    held/ is written, ended/ is not there, the Binding is on its way
//   docked     the pod is bound here
//   finishing  the pod ended by itself or was deleted by its user; once gone, a single pod's job is completed with its exit code, and
//              a gang's slot is free again (the controller ends a gang's job)
//   ending     Slurm ended the job: the pod is deleted, killed if need be, and the epilog waits for the proof of all the job's pods
//
// What survives a crash: the files of proto/records.h, the jobs in Slurm and the pods in the API. start() rebuilds
// everything from them. All on the loop's thread. adoption.cc says whose a pod without a record is, bind.cc holds the way in
// (claims.cc the volumes' part of it), muster.cc a gang's, share.cc what bounds a bound pod, suspension.cc what a suspended job means, hold.cc the way out.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/cluster.h"
#include "agent/kube/api.h"
#include "agent/kube/watch.h"
#include "agent/node/adoption.h"
#include "agent/node/capacity.h"
#include "agent/node/event_server.h"
#include "agent/node/foreign_pods.h"
#include "agent/node/gang.h"
#include "agent/node/pod_cgroup.h"
#include "agent/role.h"
#include "agent/slurm/client.h"
#include "agent/slurm/workers.h"
#include "agent/translate/placeholder.h"
#include "proto/records.h"
#include "proto/ticket.h"

namespace berth::node {

enum class Stage { checking, binding, docked, finishing, ending };

struct Berth {
    std::uint32_t job = 0;
    std::string nonce;
    std::optional<Ticket> ticket;  // absent when only held/ survived: such a berth binds nothing
    kube::PodRef pod;
    std::optional<SlotName> slot;  // of a gang's pod
    GangPtr gang;                  // likewise; absent when its record was lost: such a gang binds nothing more
    Stage stage = Stage::checking;
    std::chrono::steady_clock::time_point allocated{};  // when the prolog told of it; the epoch: it was not heard

    bool held = false;           // held/ names the pod: it is or may be bound here
    bool request_open = false;   // a Binding or a look before it is on its way
    std::optional<slurm::Job> job_seen;   // answers collected while checking
    bool pod_looked = false;
    std::optional<kube::Pod> pod_seen;    // the newest state known of the pod
    bool pod_absent = false;     // the API said that this pod is no more

    SourcePtr timer;             // the next try or look
    std::chrono::milliseconds backoff{0};

    std::string told;            // why it waits, as the last event on the pod says
    bool claims_bound = false;   // its volumes are there

    bool memory_bounded = false, cpus_bounded = false;  // docked: its cgroup is bounded as far as it should be (share.cc)
    bool bounding = false;       // its memory is being bounded
    bool cpus_missed = false;    // that there is nothing to bound it by is told
    bool suspended = false;      // docked: slurmctld said so, and the pod is or will be frozen
    bool frozen = false;         // its cgroup was there to be frozen
    bool suspended_seen = false; // the condition berth.dev/Suspended when it was last heeded

    bool by_itself = false;      // finishing: the pod ended, rather than was deleted

    // While ending.
    bool end_untold = false;     // the pod is not told yet that Slurm ended its job
    std::chrono::steady_clock::time_point ending_since{};
    std::chrono::steady_clock::duration api_away{};
    std::chrono::steady_clock::time_point last_look{};
    bool look_open = false;
    std::chrono::steady_clock::time_point last_asked{};
    bool watched = false;        // the watch has told of it, and so will tell when it goes
    bool delete_accepted = false, delete_open = false, forced = false;
    bool outlived_force = false; // the API had it still after it accepted its deletion by force
    std::chrono::steady_clock::time_point delete_again{};  // no deletion is sent before
    std::optional<std::chrono::steady_clock::duration> killed_after;  // of the hold: what it waits for the kill counts from there
    bool stuck = false;

    std::string job_key() const { return RunDir::job_name(job, nonce); }  // names its records, and its siblings'
    std::string key() const { return job_key() + "/" + pod.uid; }
    bool member() const { return slot.has_value(); }  // of a gang
    bool terminal() const { return pod_seen && pod_seen->terminal(); }
    // An answer of the API, which may be older than what the watch has told since.
    void saw(kube::Pod &&answer) {
        if (!pod_seen || !is_older(answer, *pod_seen))
            pod_seen = std::move(answer);
    }
};

class NodeAgent : public Role {
  public:
    NodeAgent(Loop &loop, const Config &config, const std::string &node_name);
    ~NodeAgent() override;

    Result<void> start() override;
    void stop(std::function<void()> done) override;
    std::string waits_for() const override;

  private:
    using BerthPtr = std::shared_ptr<Berth>;

    // node_agent.cc: events and recovery
    void on_message(ConnectionId connection, const Message &message);
    void on_allocated(const Message &message);
    void on_ended(ConnectionId connection, const Message &message);
    void on_node(const kube::Node &node);
    void tell_foreign();  // that pods are here which Slurm does not know of
    void on_pod(kube::Pod &&pod);
    void on_pod_removed(kube::Pod &&pod, bool last_state);
    void recover_records();
    void verify_all();        // asks slurmctld for every job here; what it no longer knows is ended
    void verified(const std::string &job_key, const Result<std::optional<slurm::Job>> &answer);
    void lose(const BerthPtr &berth);
    void reconcile();
    std::optional<Ticket> open_ticket(const Message &record, std::uint32_t &job);
    BerthPtr find_by_pod(const std::string &pod_uid) const;
    std::vector<BerthPtr> berths_of(const std::string &job_key) const;
    bool known(const std::string &job_key) const;  // some berth or gang has this name
    void drop(const BerthPtr &berth);  // forgets it and its timer, and with a single pod's the jobs/ record
    // One question to slurmctld for all that ask for a job at a time; `done` is not called from inside.
    using JobDone = std::function<void(const Result<std::optional<slurm::Job>> &)>;
    void load_job(std::uint32_t job, JobDone done);
    void run_later(const BerthPtr &berth, std::chrono::milliseconds delay, void (NodeAgent::*next)(const BerthPtr &));

    // adoption.cc: pods that say they are ours, without a record
    void adopt(const kube::Pod &pod);
    void ask_claim(const std::string &uid);
    void judged(const std::string &uid, const std::optional<slurm::Job> &job);
    void turn_away(const std::string &uid, Claim claim);
    void claimant_removed(const std::string &uid);

    // bind.cc: the way in
    void look(const BerthPtr &berth);
    void decide(const BerthPtr &berth);
    void bind(const BerthPtr &berth);
    void bound(const BerthPtr &berth);
    void try_again(const BerthPtr &berth);
    bool hold_pod(const BerthPtr &berth);  // writes held/; false when it cannot
    static std::string shortage(const slurm::Job &job, const Ticket &ticket);
    bool belongs(const slurm::Job &job, const Berth &berth) const;  // whether the job is this pod's placeholder
    bool room_here(const BerthPtr &berth, const Ticket &ticket);  // false: the kubelet would refuse it; it waits
    // `key`: what makes it news, where that is not the sentence.
    void wait_and_tell(const BerthPtr &berth, const std::string &reason, const std::string &why, const std::string &key = {});

    // claims.cc: the volumes that a pod needs on this node
    bool claims_ready(const BerthPtr &berth);  // false: it waits, and is looked at again

    // muster.cc: a gang's pods, from the placeholder to their berths
    void on_gang(const Message &record, std::uint32_t job, Ticket ticket);
    void check(const GangPtr &gang);   // asks slurmctld
    void checked(const GangPtr &gang, const Result<std::optional<slurm::Job>> &answer);
    void gather(const GangPtr &gang);  // opens the watch of its members
    void muster_soon(const GangPtr &gang);
    void muster(const GangPtr &gang);  // seats whoever can be
    void seat(const GangPtr &gang, const kube::Pod &pod, std::uint32_t slot);
    void refuse(const GangPtr &gang, bool first);  // its job is not what the ticket says; `first`: of the job's nodes
    void cancel(const GangPtr &gang);
    void leave(const BerthPtr &berth); // a member is gone, its slot is free
    void close(const GangPtr &gang);   // nothing is bound any more
    void end(const GangPtr &gang, std::string_view why);
    std::set<std::uint32_t> taken_slots(const Gang &gang) const;
    bool job_fresh(const Gang &gang) const;

    // share.cc: what the kubelet does not bound
    void confine(const BerthPtr &berth, bool again = false);
    void bound_memory(const BerthPtr &berth);
    void bound_cpus(const BerthPtr &berth);

    // suspension.cc: pods of suspended jobs are frozen
    void heed_condition(const BerthPtr &berth);
    void ask_suspension(std::uint32_t job, const std::string &nonce);
    void follow_job(const BerthPtr &berth, const slurm::Job &job);
    void follow_unseen(const BerthPtr &berth);
    void freeze(const BerthPtr &berth);
    void thaw(const BerthPtr &berth);

    // hold.cc: the way out
    void end(const BerthPtr &berth, std::string_view why);
    void hold_on(const BerthPtr &berth);   // one look while ending
    void tell_ended(const BerthPtr &berth);
    void look_later(const BerthPtr &berth, void (NodeAgent::*next)(const BerthPtr &));
    void remove_pod(const BerthPtr &berth, std::int64_t grace);
    void clear_away(const kube::PodRef &pod, std::chrono::milliseconds wait);
    void ask_api(const BerthPtr &berth);   // whether the pod is still there
    void finish(const BerthPtr &berth);
    void complete_job(const BerthPtr &berth);
    PodCgroup cgroup_of(const Berth &berth) const;
    bool processes_gone(const Berth &berth) const;
    std::string why_stuck(const Berth &berth) const;
    void release(const BerthPtr &berth);   // the pod is gone: held/ goes
    void settle(std::uint32_t job, const std::string &nonce);  // once no berth of the job is left: records, epilogs
    void answer(const std::string &job_key, const Message &message);

    Loop &loop_;
    const Config config_;
    const ClusterConfig cluster_;
    const std::string node_;       // Slurm's name
    const std::string kube_node_;  // Kubernetes' name
    const std::string cgroup_root_;
    const RunDir run_dir_;
    std::string key_;
    std::unique_ptr<kube::Http> http_;
    std::unique_ptr<kube::Api> api_;
    std::unique_ptr<kube::Watcher> pods_, nodes_;
    std::unique_ptr<EventServer> server_;
    std::unique_ptr<Workers> workers_;
    std::map<std::string, BerthPtr> berths_;  // by Berth::key(), so those of one job stand together
    std::map<std::string, GangPtr> gangs_;    // by Gang::key()
    struct Claimant {
        BerthPtr berth;             // absent: it claims nothing, and was told of
        bool records_lost = false;  // when it was first seen
        SourcePtr timer;
    };
    std::map<std::string, Claimant> claimants_;  // by pod uid: not berths, for they may be anybody's
    std::map<std::string, std::vector<ConnectionId>> epilogs_;  // that wait, by job key
    std::map<std::uint32_t, std::vector<JobDone>> loads_;       // under way, by job
    std::map<std::string, bool> suspensions_asked_;             // likewise, by job key: whether to ask once more
    std::map<std::string, SourcePtr> leftovers_;  // killed pods whose deletion is tried again, by uid
    std::set<std::string> finished_;  // uids of pods that are settled here while the watch, which lags, may still show them alive
    bool records_lost_ = false;      // there was no run directory when this agent started; until the pods are listed
    bool node_ready_ = false;
    std::string node_uid_;  // of the Kubernetes node as last seen
    SiteNode here_;                  // what Kubernetes says of this node
    Capacity capacity_;              // and what it has left
    ForeignPods foreign_;
    std::chrono::steady_clock::time_point foreign_told_{};  // never: the epoch
    bool uid_precondition_ = false;  // the server honours a Binding's uid
    SourcePtr reconcile_timer_;
};

}  // namespace berth::node
