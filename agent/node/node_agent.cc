#include "agent/node/node_agent.h"

#include <fmt/format.h>

#include <random>

#include "agent/keys.h"
#include "agent/log.h"
#include "agent/node/recovery.h"
#include "agent/translate/node_names.h"
#include "proto/seal.h"

namespace berth::node {

namespace {

constexpr unsigned slurm_threads = 2;
constexpr long keep_ended_seconds = 24 * 60 * 60;

}  // namespace

NodeAgent::NodeAgent(Loop &loop, const Config &config, const std::string &node_name)
    : loop_(loop), config_(config), cluster_(config.clusters.front()), node_(node_name),
      kube_node_(config.node.kube_name.empty() ? kube_name_of(node_name, config.nodes.map) : RunDir::expand(config.node.kube_name, node_name)),
      cgroup_root_(RunDir::expand(config.node.cgroup_root, node_name)),
      run_dir_(RunDir::expand(config.node.run_dir, node_name)), foreign_(cluster_.scheduler_name) {}

NodeAgent::~NodeAgent() {
    // Answers that are still on their way keep gangs alive; their watches must not outlive the Http.
    for (const auto &[key, gang] : gangs_)
        gang->watch.reset();
}

Result<void> NodeAgent::start() {
    std::string why;
    records_lost_ = !run_dir_.made();
    if (!run_dir_.make(why))
        return Error{why};
    auto key = read_key(config_.key_file, why);
    if (!key)
        return Error{why};
    key_ = std::move(*key);
    auto http = connect(loop_, cluster_, only_trusted);
    if (!http)
        return Error{http.error()};
    http_ = std::move(*http);
    slurm::start();
    workers_ = std::make_unique<Workers>(loop_, slurm_threads);
    api_ = std::make_unique<kube::Api>(*http_, "berth-node", node_);
    api_->server_version([this](int minor) { uid_precondition_ = minor >= kube::binding_uid_minor; });

    kube::WatchOptions pods;
    pods.path = "/api/v1/pods";
    pods.query = "fieldSelector=" + kube::url_escape("spec.nodeName=" + kube_node_);
    pods_ = kube::watch_pods(loop_, *http_, pods,
                             {[this](kube::Pod &&pod) { on_pod(std::move(pod)); },
                              [this](kube::Pod &&pod, bool last_state) { on_pod_removed(std::move(pod), last_state); },
                              [this] {
                                  records_lost_ = false;
                                  verify_all();
                              }});
    kube::WatchOptions nodes;
    nodes.path = "/api/v1/nodes";
    nodes.query = "fieldSelector=" + kube::url_escape("metadata.name=" + kube_node_);
    nodes_ = kube::watch_nodes(loop_, *http_, nodes,
                               {[this](kube::Node &&node) { on_node(node); },
                                // After a list one of the same name may be there already when its predecessor's end is told.
                                [this](kube::Node &&node, bool) { node_ready_ = node_ready_ && node.uid != node_uid_; }, [] {}});

    server_ = std::make_unique<EventServer>(loop_, run_dir_.socket_path(), slurm::slurm_user(),
                                            [this](ConnectionId c, const Message &m) { on_message(c, m); });
    recover_records();
    if (auto listening = server_->listen(); !listening)
        return listening;
    reconcile();
    log::info("node {} is served: {}", node_, run_dir_.socket_path());
    return {};
}

void NodeAgent::stop(std::function<void()> done) {
    // Nothing to say good-bye to: what must survive lies in the run directory.
    server_.reset();
    reconcile_timer_.reset();
    claimants_.clear();
    leftovers_.clear();
    berths_.clear();
    for (const auto &[key, gang] : gangs_)
        close(gang);
    gangs_.clear();
    pods_.reset();
    nodes_.reset();
    workers_.reset();
    done();
}

std::string NodeAgent::waits_for() const {
    if (!pods_ || !pods_->synced())
        return "the pods of this node are not listed yet";
    return node_uid_.empty() ? "the Kubernetes node " + kube_node_ + " is not there yet" : "";
}

// --- events -------------------------------------------------------------------------------------------------------

void NodeAgent::on_message(ConnectionId connection, const Message &message) {
    if (message.verb == "allocated")
        on_allocated(message);
    else if (message.verb == "ended")
        on_ended(connection, message);
    else if (message.verb == "check")
        verify_all();
    else
        log::warning("a message with the unknown verb \"{}\" is ignored: is the plugin newer than this agent?", message.verb);
}

std::optional<Ticket> NodeAgent::open_ticket(const Message &record, std::uint32_t &job) {
    const auto number = record.number("job");
    std::string why = "its seal is broken";
    const auto json = open_seal(key_, record.get("ticket"));
    auto ticket = json ? parse_ticket(*json, why) : std::nullopt;
    if (!number || !ticket || record.number("user") != ticket->user) {
        log::warning("an allocation is ignored: job {}: {}", record.get("job"), why);
        return std::nullopt;
    }
    job = static_cast<std::uint32_t>(*number);
    if (ticket->cluster != cluster_.name)
        return std::nullopt;  // another agent's
    return ticket;
}

void NodeAgent::on_allocated(const Message &message) {
    auto berth = std::make_shared<Berth>();
    berth->ticket = open_ticket(message, berth->job);
    if (!berth->ticket)
        return;
    berth->nonce = berth->ticket->nonce;
    if (run_dir_.exists(RunDir::ended, berth->job_key()))
        return;
    if (!berth->ticket->single())
        return on_gang(message, berth->job, std::move(*berth->ticket));
    if (known(berth->job_key()))
        return;
    // Either a ticket that was copied, or a second placeholder for the pod, which the controller will cancel.
    for (const auto &[key, other] : berths_)
        if (other->nonce == berth->nonce || other->pod.uid == berth->ticket->uid) {
            log::warning("job {} is for the pod of job {}, {}/{}: ignored", berth->job, other->job, other->pod.ns, other->pod.name);
            return;
        }
    berth->pod = {berth->ticket->ns, berth->ticket->name, berth->ticket->uid};
    berth->allocated = loop_.now();
    berths_[berth->key()] = berth;
    look(berth);
}

void NodeAgent::on_ended(ConnectionId connection, const Message &message) {
    const auto job = message.number("job");
    if (!job)
        return;
    const std::string key = RunDir::job_name(static_cast<std::uint32_t>(*job), message.get("nonce"));
    if (!known(key)) {
        server_->reply(connection, Message{"gone", message.fields});
        return;
    }
    epilogs_[key].push_back(connection);
    constexpr std::string_view why = "Slurm ended its job";
    if (const auto gang = gangs_.find(key); gang != gangs_.end())
        return end(GangPtr(gang->second), why);
    for (const BerthPtr &berth : berths_of(key))
        end(berth, why);
}

void NodeAgent::on_node(const kube::Node &node) {
    if (node.name != kube_node_)
        return;  // whatever the server answers, no other node is this one
    node_uid_ = node.uid;
    // A cordon of Berth's own shows a drain in Slurm, which lets the jobs run that it has started: their pods may still come.
    node_ready_ = node.ready && (!node.unschedulable || !kube::value_of(node.annotations, keys::cordoned).empty());
    capacity_.set_node(node);
    here_ = SiteNode{.slurm_name = node_, .in_kubernetes = true, .labels = node.labels, .taints = node.taints,
                     .unschedulable = node.unschedulable, .kube_name = kube_node_};
}

NodeAgent::BerthPtr NodeAgent::find_by_pod(const std::string &pod_uid) const {
    for (const auto &[key, berth] : berths_)
        if (berth->pod.uid == pod_uid)
            return berth;
    return nullptr;
}

std::vector<NodeAgent::BerthPtr> NodeAgent::berths_of(const std::string &job_key) const {
    std::vector<BerthPtr> out;
    const std::string prefix = job_key + "/";
    for (auto at = berths_.lower_bound(prefix); at != berths_.end() && at->first.starts_with(prefix); ++at)
        out.push_back(at->second);
    return out;
}

bool NodeAgent::known(const std::string &job_key) const {
    const std::string prefix = job_key + "/";
    const auto at = berths_.lower_bound(prefix);
    return gangs_.count(job_key) != 0 || (at != berths_.end() && at->first.starts_with(prefix));
}

void NodeAgent::load_job(std::uint32_t job, JobDone done) {
    std::vector<JobDone> &waiting = loads_[job];
    waiting.push_back(std::move(done));
    if (waiting.size() > 1)
        return;
    workers_->submit([job] { return slurm::load(job); },
                     [this, job](const Result<std::optional<slurm::Job>> &answer) {
                         const auto asked = loads_.extract(job);
                         for (const JobDone &each : asked.mapped())
                             each(answer);
                     });
}

void NodeAgent::tell_foreign() {
    log::warning("{}", foreign_.sentence());
    constexpr std::chrono::minutes spacing{10};  // each event is a write
    const auto now = loop_.now();
    if (foreign_told_ != std::chrono::steady_clock::time_point{} && now - foreign_told_ < spacing)
        return;
    foreign_told_ = now;
    kube::Node node;
    node.name = kube_node_;
    api_->post_node_event(node, {"Warning", "ForeignPods", "Watching", foreign_.sentence()});
}

void NodeAgent::on_pod(kube::Pod &&pod) {
    capacity_.saw(pod);
    if (foreign_.saw(pod))
        tell_foreign();
    const BerthPtr berth = find_by_pod(pod.uid);
    if (!berth)
        return adopt(pod);
    berth->pod_seen = std::move(pod);
    berth->watched = true;
    if (berth->stage == Stage::docked && berth->terminal()) {
        finish(berth);
    } else if (berth->stage == Stage::docked) {
        confine(berth);
        heed_condition(berth);
    } else if (berth->stage == Stage::ending) {
        hold_on(berth);
    }
}

void NodeAgent::on_pod_removed(kube::Pod &&pod, bool last_state) {
    finished_.erase(pod.uid);
    capacity_.forget(pod.uid);
    foreign_.forget(pod.uid);
    const BerthPtr berth = find_by_pod(pod.uid);
    if (!berth)
        return claimant_removed(pod.uid);
    if (last_state)
        berth->pod_seen = std::move(pod);
    berth->pod_absent = true;
    if (berth->stage == Stage::docked)
        finish(berth);
    else if (berth->stage == Stage::ending)
        hold_on(berth);
}

// --- recovery -----------------------------------------------------------------------------------------------------

// Before anything is heard: what lay here when the last agent stopped.
void NodeAgent::recover_records() {
    Held found = read_held(run_dir_);
    for (const std::string &name : found.unreadable)
        log::error("held/{} in {} is of another version: its pod counts as held, and no other job starts here before the record is removed",
                   name, RunDir::expand(config_.node.run_dir, node_));
    for (HeldPod &held : found.pods) {
        auto berth = std::make_shared<Berth>();
        berth->job = held.job;
        berth->nonce = std::move(held.nonce);
        berth->pod = std::move(held.pod);
        berth->held = true;
        berth->slot = held.slot;
        log::info("pod {}/{} of job {} is held here from before", berth->pod.ns, berth->pod.name, berth->job);
        berths_[berth->key()] = berth;
        if (held.allocation) {
            std::uint32_t ignored = 0;
            berth->ticket = open_ticket(*held.allocation, ignored);
            if (berth->ticket && !berth->ticket->single())
                on_allocated(*held.allocation);
        }
        if (const auto gang = gangs_.find(berth->job_key()); gang != gangs_.end() && berth->member()) {
            berth->gang = gang->second;
            berth->gang->started = true;
        }
        if (held.ended)
            end(berth, "its job ended while this agent was away");
        else
            look(berth);
    }
}

void NodeAgent::verify_all() {
    std::map<std::string, std::uint32_t> jobs;
    for (const auto &[key, berth] : berths_)
        if (berth->stage == Stage::docked)
            jobs[berth->job_key()] = berth->job;
    for (const auto &[key, gang] : gangs_)
        if (!gang->over)
            jobs[key] = gang->job;
    for (const auto &[key, job] : jobs)
        load_job(job, [this, key = key](const Result<std::optional<slurm::Job>> &answer) { verified(key, answer); });
}

void NodeAgent::verified(const std::string &job_key, const Result<std::optional<slurm::Job>> &answer) {
    if (!answer)
        return;  // slurmctld is away: nothing is concluded
    const std::optional<slurm::Job> &job = *answer;
    for (const BerthPtr &berth : berths_of(job_key)) {
        if (berth->stage != Stage::docked)
            continue;
        if (!job || !belongs(*job, *berth))
            lose(berth);
        else if (!job->active())
            end(berth, "its job has ended");
        else if (!job->has_node(node_))
            end(berth, "its job was shrunk and has left this node");
        else if ((job->state == slurm::JobState::suspended) != berth->suspended || berth->suspended != berth->frozen)
            ask_suspension(berth->job, berth->nonce);
        confine(berth, true);
    }
    if (const auto found = gangs_.find(job_key); found != gangs_.end() && !found->second->over) {
        const GangPtr gang = found->second;
        if (!job || job->ticket.nonce != gang->ticket.nonce || job->ticket.uid != gang->ticket.uid || !job->active() ||
            !job->has_node(node_))
            end(gang, "its job has ended, or has left this node");
    }
}

// slurmctld crashed before it had saved the job: nothing holds this room for the pod any more.
void NodeAgent::lose(const BerthPtr &berth) {
    metrics::healed(metrics::Healed::lost_job);
    api_->post_event(berth->pod, {"Warning", "SlurmJobLost", "Deleting",
                                  fmt::format("Slurm no longer knows job {}, which held this pod's place", berth->job)});
    end(berth, "slurmctld no longer knows its job");
}

void NodeAgent::reconcile() {
    const auto taken = [this](const std::string &name) { return known(name); };
    for (const Message &record : untaken_allocations(run_dir_, taken))
        on_allocated(record);
    drop_old_ends(run_dir_, taken, keep_ended_seconds);
    verify_all();
    // A thousand agents must not ask in step.
    thread_local std::minstd_rand random(std::random_device{}());
    const auto base = std::chrono::duration_cast<std::chrono::milliseconds>(config_.node.reconcile);
    reconcile_timer_ = loop_.after(base * 3 / 4 + base * static_cast<int>(random() % 512) / 1024, [this] { reconcile(); });
}

void NodeAgent::drop(const BerthPtr &berth) {
    berth->timer.reset();
    berths_.erase(berth->key());
    if (!berth->member())
        run_dir_.remove(RunDir::jobs, berth->job_key());
}

// One timer per berth, for the stage it is in: when that has changed, the call is void.
void NodeAgent::run_later(const BerthPtr &berth, std::chrono::milliseconds delay, void (NodeAgent::*next)(const BerthPtr &)) {
    berth->timer = loop_.after(delay, [this, weak = std::weak_ptr<Berth>(berth), stage = berth->stage, next] {
        if (const BerthPtr still = weak.lock(); still && still->stage == stage)
            (this->*next)(still);
    });
}

}  // namespace berth::node

namespace berth {

std::unique_ptr<Role> make_node(Loop &loop, const Config &config, const std::string &node_name) {
    return std::make_unique<node::NodeAgent>(loop, config, node_name);
}

}  // namespace berth
