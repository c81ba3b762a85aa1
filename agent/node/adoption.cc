#include "agent/node/adoption.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "agent/keys.h"
#include "agent/log.h"
#include "agent/node/node_agent.h"

namespace berth::node {

namespace {

constexpr std::chrono::seconds ask_again{1}, delete_again{5};

std::optional<std::uint32_t> to_job_id(std::string_view text) {
    std::uint32_t job = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), job);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return job;
}

// As far as a pod shows it: the members of a gang are found by a selector, which is the server's affair.
bool may_be_member(const kube::Pod &pod, const Ticket &ticket, const Config &config) {
    const auto slot = parse_slot(pod.annotation(keys::slot));
    return slot && slot->part == ticket.part && pod.ns == ticket.ns &&
           (!ticket.selector.empty() || pod.scheduling_group == ticket.scheduling_group) &&
           (ticket.tenant.empty() || tenant_name(config, pod) == ticket.tenant);
}

}  // namespace

std::optional<ClaimedPlace> claimed_place(const kube::Pod &pod) {
    const auto job = to_job_id(pod.annotation(keys::job_id));
    const std::string_view nonce = pod.annotation(keys::nonce);
    if (!job || nonce.empty())
        return std::nullopt;
    return ClaimedPlace{*job, std::string(nonce)};
}

Claim judge(const kube::Pod &pod, const std::string &node, const std::optional<slurm::Job> &job, const Config &config) {
    const auto place = claimed_place(pod);
    if (!place || !job || job->ticket.nonce != place->nonce)
        return Claim::unknown;
    const Ticket &ticket = job->ticket;
    if (ticket.single() ? ticket.uid != pod.uid : !may_be_member(pod, ticket, config))
        return Claim::forged;
    if (job->state == slurm::JobState::pending)
        return Claim::forged;
    return job->active() && job->has_node(node) ? Claim::good : Claim::over;
}

// --- the agent's part: ask slurmctld, then take the pod over or turn it away. Nothing is held for a pod that is not proven ours, else a
// made-up pod would keep other jobs off the node; but where the records were lost every pod is, until slurmctld has answered.

void NodeAgent::adopt(const kube::Pod &pod) {
    // Of pods that are over or going only those whose job was not completed are of interest, and such have a record unless it was lost. The
    // watch lags: it may still show one that this agent has proven gone.
    const bool leaving = pod.terminal() || pod.deleting;
    if (pod.scheduler_name != cluster_.scheduler_name || (leaving && !records_lost_) || finished_.count(pod.uid) != 0)
        return;
    if (const auto known = claimants_.find(pod.uid); known != claimants_.end()) {
        if (known->second.berth)
            known->second.berth->pod_seen = pod;
        return;
    }
    const auto place = claimed_place(pod);
    if (!place) {
        claimants_[pod.uid];  // told once
        const std::string why = "it was put on this node past Slurm, which knows nothing of what it uses";
        log::warning("pod {}: {}", pod.full_name(), why);
        api_->post_event({pod.ns, pod.name, pod.uid}, {"Warning", "PastSlurm", "Watching", "The pod names Berth's scheduler, but " + why});
        return;
    }
    auto berth = std::make_shared<Berth>();
    berth->job = place->job;
    berth->nonce = place->nonce;
    berth->pod = {pod.ns, pod.name, pod.uid};
    berth->pod_seen = pod;
    berth->slot = parse_slot(pod.annotation(keys::slot));
    claimants_[pod.uid] = Claimant{berth, records_lost_, nullptr};
    if (records_lost_)
        hold_pod(berth);
    ask_claim(pod.uid);
}

void NodeAgent::ask_claim(const std::string &uid) {
    const auto found = claimants_.find(uid);
    if (found == claimants_.end() || !found->second.berth)
        return;
    load_job(found->second.berth->job, [this, uid](const Result<std::optional<slurm::Job>> &answer) {
        const auto still = claimants_.find(uid);
        if (still == claimants_.end() || !still->second.berth)
            return;
        if (!answer) {
            log::warning("{}; pod {} is not taken over yet", answer.error(), still->second.berth->pod_seen->full_name());
            still->second.timer = loop_.after(ask_again, [this, uid] { ask_claim(uid); });
            return;
        }
        judged(uid, *answer);
    });
}

void NodeAgent::judged(const std::string &uid, const std::optional<slurm::Job> &job) {
    Claimant &claimant = claimants_.at(uid);
    const BerthPtr berth = claimant.berth;
    Claim claim = judge(*berth->pod_seen, node_, job, config_);
    // Pods of one gang share the job's name, but no two a slot; and no pod shares a single pod's.
    for (const BerthPtr &sibling : berths_of(berth->job_key()))
        if (!berth->member() || !sibling->member() || sibling->slot == berth->slot)
            claim = Claim::forged;
    // A pod that its job's ticket names is the one, whenever it comes; members are as many as anybody likes to make.
    const bool certain = claim == Claim::good || (claim == Claim::over && !berth->member());
    if (claim == Claim::forged || (!certain && !claimant.records_lost))
        return turn_away(uid, claim);
    claimants_.erase(uid);
    if (const auto gang = gangs_.find(berth->job_key()); gang != gangs_.end() && berth->member()) {
        berth->gang = gang->second;
        berth->gang->started = true;
    }
    log::warning("pod {}/{} of job {} is bound here without a record: taken over", berth->pod.ns, berth->pod.name, berth->job);
    berths_[berth->key()] = berth;
    hold_pod(berth);
    look(berth);
}

void NodeAgent::turn_away(const std::string &uid, Claim claim) {
    const BerthPtr berth = claimants_.at(uid).berth;
    if (berth->held)
        release(berth);
    const std::string why = claim == Claim::unknown ? "which Slurm does not know" : "whose place is not this pod's";
    log::error("pod {}/{} says that it belongs to job {}, {}: it is deleted", berth->pod.ns, berth->pod.name, berth->job, why);
    api_->post_event(berth->pod, {"Warning", "PastSlurm", "Deleting",
                                  fmt::format("The pod was put on this node past Slurm: it names job {}, {}", berth->job, why)});
    const std::int64_t grace = std::min<std::int64_t>(berth->pod_seen->grace_seconds, config_.hold.max_grace.count());
    api_->remove(berth->pod, grace, [this, uid](const kube::Response &response) {
        const auto still = claimants_.find(uid);
        if (still == claimants_.end() || response.ok() || response.status == 404 || response.status == 409)
            return;
        log::warning("deleting pod {}: {}; trying again", still->second.berth->pod_seen->full_name(), response.error);
        still->second.timer = loop_.after(delete_again, [this, uid] { ask_claim(uid); });
    });
}

// Its object is gone. A pod that is held all the same, until slurmctld has answered, is proven gone like any other.
void NodeAgent::claimant_removed(const std::string &uid) {
    const auto found = claimants_.find(uid);
    if (found == claimants_.end())
        return;
    if (const BerthPtr berth = found->second.berth; berth && berth->held)
        berth->pod_absent = true;
    else
        claimants_.erase(found);
}

}  // namespace berth::node
