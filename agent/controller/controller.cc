#include "agent/controller/controller.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "agent/cluster.h"
#include "agent/log.h"

namespace berth {

namespace {

constexpr std::chrono::milliseconds first_backoff{1'000}, most_backoff{60'000};

std::string fresh_nonce() {
    std::uint64_t value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value) {
    }
    return fmt::format("{:016x}", value);
}

// The pod's part of what a workload's life turns on.
Event event_of(const kube::Pod &pod) {
    if (!pod.node_name.empty())
        return pod.terminal() ? Event::pod_ended : Event::pod_bound;
    return pod.deleting || pod.terminal() ? Event::pod_withdrawn : Event::pod_ready;
}

// Whether a change of the pod can change what would be submitted; our own writes to its status cannot.
bool same_request(const kube::Pod &a, const kube::Pod &b) {
    return a.annotations == b.annotations && a.gated == b.gated && a.need.cpu_milli == b.need.cpu_milli &&
           a.need.memory_bytes == b.need.memory_bytes && a.need.extended == b.need.extended &&
           a.active_deadline_seconds == b.active_deadline_seconds;
}

}  // namespace

Controller::Controller(Loop &loop, const Config &config, const ClusterConfig &cluster)
    : loop_(loop), config_(config), cluster_(cluster), identities_(system_identities()),
      doorbell_(loop, [this] { look_soon(std::chrono::milliseconds(0)); }), table_(config.controller.placeholder_table) {}

Controller::~Controller() = default;

Result<void> Controller::start() {
    auto http = connect(loop_, cluster_);
    if (!http)
        return Error{http.error()};
    http_ = std::move(*http);
    api_ = std::make_unique<kube::Api>(*http_, "berth-controller", cluster_.name);
    slurm::start();
    if (auto opened = doorbell_.open(config_.controller.doorbell_port, config_.controller.notify_socket, slurm::slurm_user()); !opened)
        return opened;
    if (auto opened = table_.open(); !opened)
        return opened;
    submitters_ = std::make_unique<Workers>(loop_, config_.controller.submit_threads);
    lookers_ = std::make_unique<Workers>(loop_, 1);
    kube::WatchOptions options;
    options.path = "/api/v1/pods";
    options.query = "fieldSelector=" + kube::url_escape("spec.schedulerName=" + cluster_.scheduler_name);
    pods_ = kube::watch_pods(loop_, *http_, options,
                             {[this](kube::Pod &&pod) { on_pod(std::move(pod)); },
                              [this](kube::Pod &&pod, bool) { on_pod_removed(pod); },
                              [this] {
                                  pods_listed_ = true;
                                  look_now();
                              }});
    reconcile();
    log::info("the controller of cluster {} serves pods with schedulerName {}; doorbell on port {}", cluster_.name,
              cluster_.scheduler_name, doorbell_.port());
    return {};
}

void Controller::stop(std::function<void()> done) {
    look_timer_.reset();
    reconcile_timer_.reset();
    pods_.reset();
    submitters_.reset();  // waits for answers to submissions: each is a job that must not be forgotten half-way
    lookers_.reset();
    workloads_.clear();
    done();
}

void Controller::on_pod(kube::Pod &&pod) {
    auto &workload = workloads_[pod.uid];
    if (!workload) {
        if (pod.terminal() && pod.node_name.empty()) {
            workloads_.erase(pod.uid);
            return;
        }
        workload = std::make_shared<Workload>();
        workload->pod = std::move(pod);
    } else {
        const bool news = !same_request(workload->pod, pod);
        workload->pod = std::move(pod);
        if (workload->state == State::refused && !news && event_of(workload->pod) == Event::pod_ready)
            return;
    }
    const WorkloadPtr keep = workload;
    if (keep->pod.gated && !keep->pod.deleting)
        return;  // not ours yet: gates are there from the start, and the pod comes again when they are lifted
    const Event event = event_of(keep->pod);
    // Until slurmctld's jobs are known, a waiting pod may have its placeholder already.
    if (event == Event::pod_ready && !jobs_listed_)
        return;
    // A pod that is being dismissed goes when it has ended or is removed, whatever else happens to it.
    if (keep->state == State::dismissing && !keep->pod.terminal())
        return;
    post(keep, event);
}

void Controller::on_pod_removed(const kube::Pod &pod) {
    const auto found = workloads_.find(pod.uid);
    if (found == workloads_.end())
        return;
    const WorkloadPtr workload = found->second;
    workload->removed = true;
    const bool bound = !workload->pod.node_name.empty() || !pod.node_name.empty();
    post(workload, bound ? Event::pod_ended : Event::pod_withdrawn);
}

void Controller::post(const WorkloadPtr &workload, Event event) {
    const Move next = move(workload->state, event);
    if (next.next != workload->state)
        log::debug("{}: {} --{}--> {}", workload->pod.full_name(), name(workload->state), name(event), name(next.next));
    workload->state = next.next;
    act(workload, next.action);
    if (workload->state == State::over || workload->state == State::docked) {
        workload->timer.reset();
        workload->backoff = {};
    }
    if (workload->state == State::over && workload->removed)
        workloads_.erase(workload->pod.uid);
}

void Controller::act(const WorkloadPtr &workload, Action action) {
    switch (action) {
    case Action::none: return;
    case Action::submit: return submit(workload);
    case Action::tell_refused: return tell_refused(workload);
    case Action::cancel_job: {
        const bool unnoticed = workload->state == State::unsure;
        // Looks that begin before this is done say nothing about what comes next.
        workload->job_known = std::chrono::steady_clock::time_point::max();
        return cancel(std::exchange(workload->job, 0), workload->pod.uid,
                      "its pod " + workload->pod.full_name() + (unnoticed ? " gets another" : " is no more"), [this, workload] {
                          workload->job_known = loop_.now();
                          look_soon(std::chrono::milliseconds(0));
                      });
    }
    case Action::dismiss_pod: return dismiss(workload);
    }
}

void Controller::submit(const WorkloadPtr &workload) {
    workload->job = 0;
    workload->seen.reset();
    workload->unbound_since = {};
    const kube::Pod &pod = workload->pod;
    const auto shapes = translate(Membership{}, {&pod}, Site{config_, identities_, {}, {}, 0});
    if (!shapes) {
        workload->problem = shapes.error();
        return post(workload, Event::submit_refused);
    }
    const Placeholder *placeholder = &shapes->front().placeholder;
    Ticket ticket;
    ticket.cluster = cluster_.name;
    ticket.ns = pod.ns;
    ticket.kind = "Pod";
    ticket.name = pod.name;
    ticket.uid = pod.uid;
    ticket.nonce = fresh_nonce();
    ticket.user = placeholder->uid;
    ticket.group = placeholder->gid;
    ticket.size = placeholder->tasks;
    ticket.cpus = placeholder->cpus_per_task;
    ticket.memory_mib = placeholder->memory_mib;
    workload->owner = placeholder->uid;
    submitters_->submit([p = *placeholder, ticket, port = doorbell_port()] { return slurm::submit({p}, {ticket}, port); },
                        [this, workload](const slurm::Submission &result) { submitted(workload, result); });
}

// Pings that nobody answers would end the job where slurmctld has an InactiveLimit.
std::uint16_t Controller::doorbell_port() const { return slurm::inactive_limit() == 0 ? doorbell_.port() : 0; }

void Controller::submitted(const WorkloadPtr &workload, const slurm::Submission &result) {
    using Outcome = slurm::Submission::Outcome;
    const std::string pod = workload->pod.full_name();
    workload->job_known = loop_.now();
    workload->job = result.job;
    switch (result.outcome) {
    case Outcome::queued:
    case Outcome::running:
        log::info("pod {} has job {}, {}", pod, result.job, result.outcome == Outcome::running ? "allocated at once" : "queued");
        table_.set(result.job, workload->owner);
        workload->backoff = {};
        post(workload, result.outcome == Outcome::running ? Event::submit_running : Event::submit_queued);
        if (workload->state == State::queued)
            look_soon(config_.controller.condition_delay);
        return;
    case Outcome::refused:
        workload->problem = "Slurm refuses the job: " + result.problem;
        return post(workload, Event::submit_refused);
    case Outcome::unsure:
        log::warning("submitting for pod {}: {}; looking for the job before another try", pod, result.problem);
        post(workload, Event::submit_unsure);
        return look_soon(first_backoff);
    }
}

void Controller::cancel(std::uint32_t job, const std::string &pod_uid, std::string_view why, std::function<void()> then) {
    if (job == 0)
        return;
    log::info("job {} is cancelled: {}", job, why);
    submitters_->submit([job, pod_uid] { return slurm::cancel(job, pod_uid); },
                        [this, job, then = std::move(then)](Result<void> done) {
                            if (done)
                                table_.set(job, 0);
                            else
                                log::warning("{}; the next look tries again", done.error());
                            if (then)
                                then();
                        });
}

void Controller::retry_later(const WorkloadPtr &workload) {
    workload->backoff = workload->backoff.count() == 0 ? first_backoff : std::min(workload->backoff * 2, most_backoff);
    workload->timer = loop_.after(workload->backoff, [this, weak = std::weak_ptr<Workload>(workload)] {
        if (const WorkloadPtr still = weak.lock())
            post(still, Event::retry);
    });
}

std::unique_ptr<Role> make_controller(Loop &loop, const Config &config) {
    return std::make_unique<Controller>(loop, config, config.clusters.front());
}

}  // namespace berth
