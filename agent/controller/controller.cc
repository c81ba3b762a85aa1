#include "agent/controller/controller.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <random>
#include <utility>

#include "agent/cluster.h"
#include "agent/keys.h"
#include "agent/log.h"

namespace berth {

namespace {

constexpr std::chrono::milliseconds first_backoff{1'000}, most_backoff{60'000};
constexpr std::chrono::milliseconds fence_backoff{5'000};  // before what a closed fence held back is tried again

std::string fresh_nonce() {
    std::uint64_t value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value) {
    }
    return fmt::format("{:016x}", value);
}

}  // namespace

Controller::Controller(Loop &loop, const Config &config, const ClusterConfig &cluster, Mandate mandate)
    : loop_(loop), config_(config), cluster_(cluster), mandate_(std::move(mandate)), identities_(system_identities()), nodes_(config.nodes.map),
      doorbell_(loop, [this] {
          rang_ = std::time(nullptr);
          look_soon(std::chrono::milliseconds(0));
      }), table_(config.controller.placeholder_table),
      turnstile_(2 * config.controller.submit_threads, std::random_device{}()) {}

Controller::~Controller() = default;

Result<void> Controller::start() {
    auto http = connect(loop_, cluster_, only_trusted, {.user_agent = "berthd/" + mandate_.holder, .fence = mandate_.fence});
    if (!http)
        return Error{http.error()};
    http_ = std::move(*http);
    api_ = std::make_unique<kube::Api>(*http_, "berth-controller", cluster_.name);
    notices_ = std::make_unique<Notices>(loop_, *api_);
    slurm::start();
    if (auto opened = doorbell_.open(config_.controller.doorbell_port, config_.controller.notify_socket, slurm::slurm_user()); !opened)
        return opened;
    if (auto opened = table_.open(); !opened)
        return opened;
    submitters_ = std::make_unique<Workers>(loop_, config_.controller.submit_threads, mandate_.fence);
    lookers_ = std::make_unique<Workers>(loop_, 1);
    groups_ = std::make_unique<PodGroups>(loop_, *api_);
    owners_ = std::make_unique<Owners>(loop_, *http_,
                                       Owners::Handlers{[this](const ObjectPtr &object) { on_owner(object, false); },
                                                        [this](const ObjectPtr &object) { on_owner(object, true); },
                                                        [this] {
                                                            owners_listed_ = true;
                                                            all_arrived();
                                                        }});
    owners_->start();
    kube::WatchOptions pods;
    pods.path = "/api/v1/pods";
    pods.query = "fieldSelector=" + kube::url_escape("spec.schedulerName=" + cluster_.scheduler_name);
    pods_watch_ = kube::watch_pods(loop_, *http_, pods,
                                   {[this](kube::Pod &&pod) { on_pod(std::move(pod)); },
                                    [this](kube::Pod &&pod, bool) { on_pod_removed(pod); },
                                    [this] {
                                        pods_listed_ = true;
                                        all_arrived();
                                    }});
    kube::WatchOptions nodes;
    nodes.path = "/api/v1/nodes";
    mirror_ = std::make_unique<NodeMirror>(loop_, *api_, *submitters_, nodes_, config_.nodes,
                                           config_.nodes.taint ? config_.defaults.managed_taint : "",
                                           [this] {
                                               want_nodes_ = true;
                                               look_soon(std::chrono::milliseconds(0));
                                           });
    nodes_watch_ = kube::watch_nodes(loop_, *http_, nodes,
                                     {[this](kube::Node &&node) { on_node(std::move(node), false); },
                                      [this](kube::Node &&node, bool) { on_node(std::move(node), true); },
                                      [this] {
                                          nodes_.set_listed();
                                          mirror_->nodes_listed();
                                          all_arrived();
                                      }});
    reconcile();
    log::info("the controller of cluster {} serves pods with schedulerName {}; doorbell on port {}", cluster_.name,
              cluster_.scheduler_name, doorbell_.port());
    return {};
}

void Controller::stop(std::function<void()> done) {
    look_timer_.reset();
    reconcile_timer_.reset();
    admit_timer_.reset();
    tell_timer_.reset();
    alive_.reset();
    pods_watch_.reset();
    nodes_watch_.reset();
    owners_.reset();
    submitters_.reset();  // waits for answers to submissions: each is a job that must not be forgotten half-way
    lookers_.reset();
    mirror_.reset();
    groups_.reset();
    by_pod_.clear();
    interested_.clear();
    open_.clear();
    closed_.clear();
    done();
}

void Controller::post(const WorkloadPtr &workload, Event event) {
    const Move next = move(workload->state, event);
    if (next.next != workload->state)
        log::debug("{}: {} --{}--> {}", workload->full_name(), name(workload->state), name(event), name(next.next));
    workload->state = next.next;
    if (next.next != State::waiting)
        turnstile_.leave(workload);
    // What it was to be told while it waited is not true any more.
    if (next.next == State::berthed || next.next == State::docked || next.next == State::dismissing || next.next == State::over)
        for (const auto &[uid, member] : workload->members)
            notices_->drop(uid);
    if (next.next == State::over || next.next == State::docked || next.next == State::idle) {
        workload->timer.reset();
        workload->backoff = {};
    }
    if (next.next != State::submitting && next.next != State::unsure && next.next != State::queued)
        workload->deadline.reset();
    if (next.next == State::over || next.next == State::dismissing)
        close(workload);  // pods that come now belong to the next placeholder
    act(workload, next.action);
    if (workload->gang())
        groups_->on_state(workload->group, workload->state);
}

void Controller::act(const WorkloadPtr &workload, Action action) {
    switch (action) {
    case Action::none: return;
    case Action::wait: return wait_for_turn(workload);
    case Action::submit: return submit(workload);
    case Action::tell_refused: return tell_refused(workload);
    case Action::cancel_job: {
        const bool unnoticed = workload->state == State::unsure;
        return give_up(workload, unnoticed || workload->gang(), workload->title() + (unnoticed ? " gets another" : " is no more"));
    }
    case Action::withdraw_job: return give_up(workload, true, workload->title() + " lacks pods");
    case Action::reject: return reject(workload);
    case Action::complete_job: return complete(workload);
    case Action::dismiss: return dismiss(workload);
    }
}

void Controller::give_up(const WorkloadPtr &workload, bool withdraw, std::string_view why) {
    if (workload->job == 0)
        return;
    // Looks that begin before this is done say nothing about what comes next.
    workload->job_known = std::chrono::steady_clock::time_point::max();
    workload->nonce.clear();
    cancel(std::exchange(workload->job, 0), workload->who.key, withdraw, why, [this, workload] {
        workload->job_known = loop_.now();
        look_soon(std::chrono::milliseconds(0));
    });
}

// A submission may depend on another workload of its namespace, by name.
Result<std::vector<std::uint32_t>> Controller::jobs_of(const std::string &ns, const std::string &kind, const std::string &name) const {
    std::vector<std::uint32_t> jobs;
    const auto note = [&](const WorkloadPtr &workload) {
        const Membership &who = workload->who;
        const bool same = who.ns == ns && ((who.kind == kind && who.name == name) ||
                                           std::find(who.owners.begin(), who.owners.end(), kind + "/" + name) != who.owners.end());
        if (same && workload->job != 0)
            jobs.push_back(workload->job);
    };
    for (const auto &[key, workload] : open_)
        note(workload);
    for (const WorkloadPtr &workload : closed_)
        note(workload);
    const auto [from, to] = job_names_.equal_range(ns + "/" + kind + "/" + name);
    for (auto at = from; at != to; ++at)
        jobs.push_back(at->second);
    std::sort(jobs.begin(), jobs.end());
    jobs.erase(std::unique(jobs.begin(), jobs.end()), jobs.end());
    if (jobs.empty())
        return Error{fmt::format("{} {}/{} has no Slurm job yet", kind, ns, name)};
    return jobs;
}

void Controller::submit(const WorkloadPtr &workload) {
    Workload &w = *workload;
    w.job = 0;
    w.seen.reset();
    w.suspended = false;
    w.unbound_since = {};
    w.ends.clear();
    const auto refuse = [&](std::string problem) {
        w.problem = std::move(problem);
        turnstile_.answered(workload, Turnstile::Answer::unasked, loop_.now());
        admit_soon();
        post(workload, Event::submit_refused);
    };
    if (!w.obstacle.empty())
        return refuse(w.obstacle);
    const std::vector<const kube::Pod *> pods = w.ranked(&Member::ready);
    if (pods.size() < w.who.size || pods.empty())
        return refuse(fmt::format("{} has {} of {} pods", w.title(), pods.size(), w.who.size));
    const auto shapes = translate(w.who, pods,
                                  Site{config_, identities_, nodes_.for_translation(),
                                       [this](const auto &ns, const auto &kind, const auto &name) { return jobs_of(ns, kind, name); },
                                       std::time(nullptr)});
    if (!shapes)
        return refuse(shapes.error());
    Ticket ticket;
    ticket.cluster = cluster_.name;
    ticket.ns = w.who.ns;
    ticket.kind = w.gang() ? w.who.kind : "Pod";
    ticket.name = w.who.name;
    ticket.uid = w.who.key;
    ticket.nonce = w.nonce = fresh_nonce();
    ticket.term = mandate_.term;
    ticket.parts = static_cast<std::uint32_t>(shapes->size());
    ticket.gang = w.who.size;
    ticket.plain = !w.gang() && pods.front()->claims.empty() && pods.front()->placement == nullptr;
    if (w.gang()) {
        ticket.selector = w.who.selector;
        ticket.scheduling_group = w.who.scheduling_group;
        ticket.tenant = tenant_name(config_, *pods.front());
    }
    std::vector<Placeholder> parts;
    std::vector<Ticket> tickets;
    w.notes.clear();
    for (const Shape &shape : *shapes) {
        const Placeholder &part = shape.placeholder;
        ticket.part = static_cast<std::uint32_t>(parts.size());
        ticket.shape = shapes->size() > 1 ? shape.name : "";
        ticket.user = part.uid;
        ticket.group = part.gid;
        ticket.size = part.tasks;
        ticket.cpus = part.cpus_per_task;
        ticket.memory_mib = part.memory_mib;
        ticket.gres = gres_text(part.gres);
        ticket.per_node = w.gang() ? part.tasks_per_node : 0;
        parts.push_back(part);
        tickets.push_back(ticket);
        w.notes.insert(w.notes.end(), shape.notes.begin(), shape.notes.end());
    }
    w.tenant = parts.front().uid;
    w.parts = ticket.parts;
    w.placed = w.who.size;
    submitters_->submit([parts = std::move(parts), tickets = std::move(tickets),
                         port = doorbell_port()] { return slurm::submit(parts, tickets, port); },
                        [this, workload](const slurm::Submission &result) { submitted(workload, result); });
}

// Pings that nobody answers would end the job where slurmctld has an InactiveLimit.
std::uint16_t Controller::doorbell_port() const { return slurm::inactive_limit() == 0 ? doorbell_.port() : 0; }

void Controller::submitted(const WorkloadPtr &workload, const slurm::Submission &result) {
    using Outcome = slurm::Submission::Outcome;
    workload->job_known = loop_.now();
    workload->job = result.job;
    workload->queued = result.outcome != Outcome::running;
    const auto answer = [&](Turnstile::Answer how) { turnstile_.answered(workload, how, loop_.now(), result.problem); };
    admit_soon();
    switch (result.outcome) {
    case Outcome::queued:
    case Outcome::running:
        log::info("{} has job {}, {}", workload->title(), result.job, result.outcome == Outcome::running ? "allocated at once" : "queued");
        for (std::uint32_t part = 0; part < workload->parts; ++part)
            table_.set(result.job + part, workload->tenant);
        answer(Turnstile::Answer::taken);
        workload->backoff = {};
        workload->refusals = 0;
        tell_notes(workload);
        post(workload, result.outcome == Outcome::running ? Event::submit_running : Event::submit_queued);
        if (workload->state == State::queued) {
            watch_deadline(workload);
            look_soon(config_.controller.condition_delay);
        }
        // Members may have gone or come while the request was on its way; those of a gang that is over are the next one's.
        if (workload->state == State::over)
            hand_on(workload);
        else if (workload->gang())
            settle(workload);
        return;
    case Outcome::refused:
        answer(Turnstile::Answer::refused);
        workload->problem = "Slurm refuses the job: " + result.problem;
        return post(workload, Event::submit_refused);
    case Outcome::limit:
    case Outcome::full:
        answer(result.outcome == Outcome::full ? Turnstile::Answer::full : Turnstile::Answer::limit);
        log::info("{} waits: {}", workload->title(), result.problem);
        post(workload, Event::submit_deferred);
        if (workload->state == State::over)
            hand_on(workload);
        return;
    case Outcome::unsure:
        answer(Turnstile::Answer::full);
        log::warning("submitting for {}: {}; looking for the job before another try", workload->title(), result.problem);
        post(workload, Event::submit_unsure);
        return look_soon(mandate_.fence->open() ? first_backoff : fence_backoff);
    }
}

void Controller::cancel(std::uint32_t job, const std::string &key, bool withdraw, std::string_view why, std::function<void()> then) {
    end_job(job, [job, key, withdraw] { return withdraw ? slurm::withdraw(job, key) : slurm::cancel(job, key); },
            fmt::format("is {}: {}", withdraw ? "taken back" : "cancelled", why), std::move(then));
}

void Controller::end_job(std::uint32_t job, std::function<Result<void>()> how, const std::string &what, std::function<void()> then) {
    if (!ending_.insert(job).second) {
        if (then)
            then();
        return;
    }
    log::info("job {} {}", job, what);
    submitters_->submit(std::move(how), [this, job, then = std::move(then)](Result<void> done) {
        ending_.erase(job);
        if (done)
            table_.set(job, 0);
        else
            log::warning("{}; the next look tries again", done.error());
        if (then)
            then();
    });
}

void Controller::retry_later(const WorkloadPtr &workload, std::chrono::milliseconds at_least) {
    // However many are refused, slurmctld is asked no more than twenty times a second in all.
    const auto most = std::max<std::chrono::milliseconds>(most_backoff, refused_ * std::chrono::milliseconds(50));
    workload->backoff = std::max(at_least, workload->backoff.count() == 0 ? first_backoff : std::min(workload->backoff * 2, most));
    const std::chrono::milliseconds jitter(std::random_device{}() % static_cast<unsigned>(workload->backoff.count() / 8));
    workload->timer = loop_.after(workload->backoff + jitter, [this, weak = std::weak_ptr<Workload>(workload)] {
        const WorkloadPtr still = weak.lock();
        if (!still)
            return;
        const SourcePtr fired = std::move(still->timer);
        if (still->state == State::dismissing)
            return post(still, Event::retry);
        if (still->state != State::refused)
            return;
        // Its owners may have been mended where no watch tells us.
        reconsider(still, [this, still] {
            if (still->state == State::refused)
                post(still, Event::retry);
        });
    });
}

}  // namespace berth
