// A gang's way in: from "allocated here" to the berths of its pods on this node. slurmctld is asked once, the API is asked once for all
// members by one namespaced list, and a watch tells of the rest until every slot here has its pod. After that nothing is watched
// but the node's own pods; a slot that is freed opens the watch again.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/log.h"
#include "agent/node/node_agent.h"

namespace berth::node {

namespace {

constexpr std::chrono::seconds job_answer_good{2};
constexpr std::chrono::milliseconds first_retry{100}, most_retry{5'000};
// When pods end, mostly the whole gang does, and the controller then ends its job: waiting a little spares a list per node. A pod that
// succeeded is seldom replaced.
constexpr std::chrono::milliseconds reopen_after_loss{1'000}, reopen_after_success{10'000};

std::string describe(const Gang &gang) {
    return fmt::format("{} {}/{}", gang.ticket.kind, gang.ticket.ns, gang.ticket.name);
}

}  // namespace

bool NodeAgent::job_fresh(const Gang &gang) const {
    return gang.job_seen && loop_.now() - gang.job_seen_at < job_answer_good;
}

std::set<std::uint32_t> NodeAgent::taken_slots(const Gang &gang) const {
    std::set<std::uint32_t> out;
    for (const BerthPtr &berth : berths_of(gang.key()))
        if (berth->slot)
            out.insert(berth->slot->slot);
    return out;
}

void NodeAgent::on_gang(const Message &record, std::uint32_t job, Ticket ticket) {
    auto gang = std::make_shared<Gang>();
    gang->job = job;
    gang->ticket = std::move(ticket);
    gang->nodelist = record.get("nodelist");
    gang->cpus_per_node = record.get("cpus_per_node");
    gang->allocated = loop_.now();
    gang->allocated_at = std::time(nullptr);
    if (gangs_.count(gang->key()) != 0)
        return;
    for (const auto &[key, other] : gangs_)
        if (other->ticket.nonce == gang->ticket.nonce && other->ticket.part == gang->ticket.part) {
            log::warning("job {} carries the ticket of job {}, {}: ignored", job, other->job, describe(*other));
            return;
        }
    gangs_[gang->key()] = gang;
    for (const BerthPtr &berth : berths_of(gang->key()))
        if (berth->member()) {
            berth->gang = gang;
            gang->started = true;
        }
    check(gang);
    // What slurmctld and what the API server say is asked for at once; muster() waits for both.
    if (!gang->started)
        gather(gang);
}

void NodeAgent::check(const GangPtr &gang) {
    if (gang->over || gang->check_open)
        return;
    gang->timer.reset();
    gang->check_open = true;
    load_job(gang->job, [this, gang](const Result<std::optional<slurm::Job>> &answer) {
        gang->check_open = false;
        if (!gang->over)
            checked(gang, answer);
    });
}

void NodeAgent::checked(const GangPtr &gang, const Result<std::optional<slurm::Job>> &answer) {
    if (!answer) {
        gang->backoff = std::clamp(gang->backoff * 2, first_retry, most_retry);
        log::warning("{}; {} waits", answer.error(), describe(*gang));
        gang->timer = loop_.after(gang->backoff, [this, gang = std::weak_ptr<Gang>(gang)] {
            if (const GangPtr still = gang.lock())
                check(still);
        });
        return;
    }
    gang->backoff = {};
    const std::optional<slurm::Job> &job = *answer;
    const bool ours = job && job->active() && job->ticket.nonce == gang->ticket.nonce && job->ticket.uid == gang->ticket.uid &&
                      job->ticket.part == gang->ticket.part && job->has_node(node_);
    if (!ours || run_dir_.exists(RunDir::ended, gang->key())) {
        log::info("job {} of {} ended, or left this node", gang->job, describe(*gang));
        return end(gang, "its job has ended");
    }
    gang->job_seen = job;
    gang->job_seen_at = loop_.now();
    const bool by_cpu = job->memory_mib_per_cpu != 0;
    const Allocation allocation{slurm::expand_hosts(job->nodes), gang->cpus_per_node, job->gres_by_node, job->memory_mib_per_cpu,
                                by_cpu ? 0 : job->memory_mib_per_node};
    const bool slots_known = gang->slots.has_value();
    gang->refusal = shortage(*job, gang->ticket);
    if (gang->refusal.empty() && allocation.nodes != slurm::expand_hosts(gang->nodelist))
        gang->refusal = fmt::format("nodes {} instead of {}", job->nodes, gang->nodelist);
    if (gang->refusal.empty()) {
        const auto slots = slots_here(gang->ticket, allocation, node_);
        if (!slots)
            gang->refusal = slots.error();
        else
            gang->slots = *slots;
    }
    if (!gang->refusal.empty()) {
        const bool first = !allocation.nodes.empty() && allocation.nodes.front() == node_;
        return refuse(gang, first);
    }
    if (!slots_known)
        log::info("job {} of {} has slots {} to {} here, and {} to spare", gang->job, describe(*gang), gang->slots->first,
                  std::int64_t{gang->slots->first} + gang->slots->count - 1, gang->slots->spare);
    if (gang->watch)
        return muster(gang);
    gather(gang);
}

void NodeAgent::gather(const GangPtr &gang) {
    if (gang->over || gang->watch || (gang->refusal.empty() && gang->full(taken_slots(*gang))))
        return;
    gang->members.clear();
    kube::WatchOptions options;
    options.path = fmt::format("/api/v1/namespaces/{}/pods", kube::url_escape(gang->ticket.ns));
    options.query = gang->query(cluster_.scheduler_name);
    options.cached = true;  // look() and the Binding find out what is not so any more
    const std::weak_ptr<Gang> weak = gang;
    kube::WatchHandlers<kube::Pod> handlers;
    handlers.changed = [this, weak](kube::Pod &&pod) {
        if (const GangPtr still = weak.lock()) {
            still->saw(std::move(pod), cluster_.scheduler_name, config_);
            muster_soon(still);
        }
    };
    handlers.removed = [this, weak](kube::Pod &&pod, bool) {
        const GangPtr still = weak.lock();
        if (!still)
            return;
        still->members.erase(pod.uid);
        const BerthPtr berth = find_by_pod(pod.uid);
        if (berth && berth->gang == still && berth->stage == Stage::checking && !berth->request_open) {
            berth->pod_absent = true;
            finish(berth);
        }
        muster_soon(still);
    };
    handlers.synced = [this, weak] {
        if (const GangPtr still = weak.lock())
            muster_soon(still);
    };
    gang->watch = kube::watch_pods(loop_, *http_, options, std::move(handlers));
}

// Events come in heaps, and a muster may close the watch that reports them.
void NodeAgent::muster_soon(const GangPtr &gang) {
    if (gang->over || std::exchange(gang->muster_due, true))
        return;
    gang->muster_timer = loop_.after(std::chrono::milliseconds(0), [this, weak = std::weak_ptr<Gang>(gang)] {
        if (const GangPtr still = weak.lock()) {
            still->muster_due = false;
            muster(still);
        }
    });
}

void NodeAgent::muster(const GangPtr &gang) {
    if (gang->over || !gang->watch || !gang->watch->synced())
        return;
    if (!gang->refusal.empty()) {
        const auto first = std::min_element(gang->members.begin(), gang->members.end(),
                                            [](const auto &a, const auto &b) { return a.second.rank < b.second.rank; });
        if (first != gang->members.end())
            api_->post_event({first->second.pod.ns, first->second.pod.name, first->second.pod.uid},
                             {"Warning", "PlaceholderChanged", "Binding",
                              fmt::format("Slurm job {} was changed and has {}: nothing is bound to it", gang->job, gang->refusal)});
        gang->watch.reset();
        gang->members.clear();
        return cancel(gang);
    }
    if (!gang->slots || !gang->whole())
        return;
    std::set<std::string> settled = finished_;
    for (const auto &[key, berth] : berths_)
        settled.insert(berth->pod.uid);
    auto seats = gang->seats(taken_slots(*gang), settled);
    std::erase_if(seats, [&](const Gang::Seat &each) { return !gang->slots->has(each.slot); });
    if (!seats.empty() && !job_fresh(*gang))
        return check(gang);
    gang->started = gang->started || !seats.empty();
    for (const Gang::Seat &each : seats) {
        if (gang->over)
            return;
        seat(gang, *each.pod, each.slot);
    }
    if (gang->refusal.empty() && gang->full(taken_slots(*gang))) {
        gang->watch.reset();
        gang->members.clear();
    }
}

void NodeAgent::seat(const GangPtr &gang, const kube::Pod &pod, std::uint32_t slot) {
    auto berth = std::make_shared<Berth>();
    berth->job = gang->job;
    berth->nonce = gang->ticket.nonce;
    berth->ticket = gang->ticket;
    berth->gang = gang;
    berth->slot = SlotName{gang->ticket.part, slot};
    berth->pod = {pod.ns, pod.name, pod.uid};
    berth->pod_seen = pod;
    if (pod.created <= gang->allocated_at)
        berth->allocated = gang->allocated;
    berths_[berth->key()] = berth;
    look(berth);
}

// All nodes find the same. The first one tells a pod, for which it must know one, and then cancels the job; the others only
// see to it that somebody does.
void NodeAgent::refuse(const GangPtr &gang, bool first) {
    const bool bound = !berths_of(gang->key()).empty();
    log::error("job {} of {} has {}: {}", gang->job, describe(*gang), gang->refusal,
               bound ? "no more pods are bound to it" : "it is cancelled");
    if (bound)
        return;
    if (first) {
        gather(gang);
        muster_soon(gang);
    } else {
        gang->watch.reset();
        gang->members.clear();
    }
    gang->timer = loop_.after(most_retry, [this, weak = std::weak_ptr<Gang>(gang)] {
        if (const GangPtr still = weak.lock())
            cancel(still);
    });
}

// The job's end, when it comes, is heard as any other.
void NodeAgent::cancel(const GangPtr &gang) {
    if (gang->over)
        return;
    workers_->submit([job = gang->job, uid = gang->ticket.uid] { return slurm::cancel(job, uid); },
                     [this, gang](const Result<void> &done) {
                         if (done || gang->over)
                             return;
                         log::warning("{}; trying again", done.error());
                         gang->timer = loop_.after(most_retry, [this, weak = std::weak_ptr<Gang>(gang)] {
                             if (const GangPtr still = weak.lock())
                                 cancel(still);
                         });
                     });
}

void NodeAgent::leave(const BerthPtr &berth) {
    const GangPtr gang = berth->gang;
    const bool was_here = berth->pod_seen && berth->pod_seen->node_name == kube_node_;
    const bool succeeded = berth->pod_seen && berth->pod_seen->phase == kube::Phase::succeeded;
    drop(berth);
    log::info("slot {} of job {} is free: pod {}/{} has left it", to_text(*berth->slot), berth->job, berth->pod.ns, berth->pod.name);
    if (!gang || gang->over)
        return;
    if (!gang->refusal.empty())
        return refuse(gang, false);
    if (gang->watch) {
        // The watch may lag behind what is known here. A pod that another node took is there, only not for this node.
        if (berth->pod_absent && (was_here || !berth->pod_seen || berth->pod_seen->node_name.empty()))
            gang->members.erase(berth->pod.uid);
        else if (berth->pod_seen)
            gang->saw(kube::Pod(*berth->pod_seen), cluster_.scheduler_name, config_);
        return muster_soon(gang);
    }
    const std::chrono::milliseconds delay = !was_here ? std::chrono::milliseconds(0) : succeeded ? reopen_after_success : reopen_after_loss;
    if (gang->timer && gang->backoff <= delay)
        return;
    gang->backoff = delay;
    gang->timer = loop_.after(delay, [this, weak = std::weak_ptr<Gang>(gang)] {
        const GangPtr still = weak.lock();
        if (!still || still->over)
            return;
        const SourcePtr fired = std::move(still->timer);
        still->backoff = {};
        gather(still);
    });
}

void NodeAgent::close(const GangPtr &gang) {
    gang->over = true;
    gang->watch.reset();
    gang->timer.reset();
    gang->muster_timer.reset();
    gang->members.clear();
}

void NodeAgent::end(const GangPtr &gang, std::string_view why) {
    close(gang);
    for (const BerthPtr &berth : berths_of(gang->key()))
        end(berth, why);
    settle(gang->job, gang->ticket.nonce);
}

}  // namespace berth::node
