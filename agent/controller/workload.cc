#include "agent/controller/workload.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>

#include "agent/keys.h"
#include "agent/slurm/reason.h"

namespace berth {

namespace {

bool ended(const slurm::Job &job) { return job.state == slurm::JobState::ended || job.completing; }

// Whether a verdict on this placing is one on the workload. A gang's key outlives its placeholders: pods that came after the end of one
// belong to the next. Both times are whole seconds: within one, the pods are taken for new, for they may be nobody's to make again.
bool concerns(const Workload &workload, const Placing &placing) {
    const slurm::Job &job = placing.first();
    if (job.ticket.over)
        return false;
    // What Slurm lets run on for a preemption's grace is over for everybody but the pods that it has.
    const bool leaving = placing.soonest().preempting();
    if (!workload.gang() || (placing.lives() && !leaving) || job.ticket.nonce == workload.nonce)
        return true;
    return std::any_of(workload.members.begin(), workload.members.end(), [&](const auto &entry) {
        const kube::Pod &pod = entry.second.pod;
        return (entry.second.live() && pod.annotation(keys::nonce) == job.ticket.nonce) ||
               (!leaving && !entry.second.bound() && pod.created < job.end_time);
    });
}

}  // namespace

bool Workload::service() const {
    if (gang() || members.size() != 1)
        return false;
    const std::string &kind = only().pod.owner.kind;
    return kind == "ReplicaSet" || kind == "StatefulSet";
}

std::vector<const kube::Pod *> Workload::ranked(bool (Member::*which)() const) const {
    std::vector<std::pair<RankKey, const kube::Pod *>> order;
    for (const auto &[uid, member] : members)
        if ((member.*which)())
            order.emplace_back(rank_key(member.pod), &member.pod);
    std::sort(order.begin(), order.end());
    std::vector<const kube::Pod *> pods;
    for (const auto &[key, pod] : order)
        pods.push_back(pod);
    return pods;
}

std::size_t Workload::count(bool (Member::*which)() const) const {
    return static_cast<std::size_t>(
        std::count_if(members.begin(), members.end(), [&](const auto &entry) { return (entry.second.*which)(); }));
}

std::size_t Workload::docked() const {
    // No placeholder is known, and all that were bound are over: they were another's, whose record is gone.
    if (nonce.empty() && count(&Member::docked) == 0)
        return 0;
    return static_cast<std::size_t>(std::count_if(members.begin(), members.end(), [&](const auto &entry) {
        return entry.second.bound() && (nonce.empty() || entry.second.pod.annotation(keys::nonce) == nonce);
    }));
}

std::uint32_t Workload::bound_by() const {
    for (const auto &[uid, member] : members) {
        const std::string_view text = member.pod.annotation(keys::job_id);
        std::uint32_t named = 0;
        if (member.docked() && !member.pod.annotation(keys::nonce).empty() &&
            std::from_chars(text.data(), text.data() + text.size(), named).ec == std::errc())
            return named;
    }
    return 0;
}

std::uint32_t Workload::told_to_wait_for() const {
    std::uint32_t told = 0;
    for (const auto &[uid, member] : members) {
        if (!member.ready())
            continue;
        const std::uint32_t named = slurm::job_of_sentence(member.pod.scheduled_message);
        if (named == 0 || (told != 0 && told != named))
            return 0;
        told = named;
    }
    return told;
}

std::int64_t Workload::oldest() const {
    std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
    for (const auto &[uid, member] : members)
        oldest = std::min(oldest, member.pod.created);
    return oldest;
}

void Workload::note_end(const kube::Pod &pod) {
    // A pod that is being deleted did not end by itself, whatever its containers say.
    if (!pod.terminal() || pod.deleting || pod.node_name.empty() || (!nonce.empty() && pod.annotation(keys::nonce) != nonce))
        return;
    const std::string_view slot = pod.annotation(keys::slot);
    ends[std::string(slot.empty() ? std::string_view(pod.uid) : slot)] = kube::wait_status(pod);
}

std::optional<std::uint32_t> Workload::exit_status() const {
    if (ends.empty())
        return std::nullopt;
    // An owner that counts its pods as a success knows better than the sum of them.
    if (who.finished && !who.failed && !who.deleted)
        return 0;
    for (const auto &[slot, status] : ends)
        if (status != 0)
            return status;
    // Pods that were deleted with their owner did not succeed, though others may have before. Those of a PodGroup may outlive it.
    const bool all_by_themselves = placed != 0 && ends.size() >= placed;
    return who.deleted && !all_by_themselves ? std::nullopt : std::optional<std::uint32_t>(0);
}

const slurm::Job &Placing::soonest() const {
    return **std::min_element(parts.begin(), parts.end(),
                              [](const slurm::Job *a, const slurm::Job *b) { return a->end_time < b->end_time; });
}

bool Placing::lives() const {
    return std::none_of(parts.begin(), parts.end(), [](const slurm::Job *job) { return ended(*job); });
}

bool Placing::pending() const {
    return std::any_of(parts.begin(), parts.end(), [](const slurm::Job *job) { return job->state == slurm::JobState::pending; });
}

bool Placing::running() const { return lives() && !pending(); }

const Placing *choose(const Workload &workload, const std::vector<Placing> &placings) {
    const Placing *best = nullptr;
    for (const Placing &placing : placings) {
        if (!concerns(workload, placing))
            continue;
        const bool bound_by = std::any_of(workload.members.begin(), workload.members.end(), [&](const auto &entry) {
            return entry.second.docked() && entry.second.pod.annotation(keys::nonce) == placing.first().ticket.nonce;
        });
        if (bound_by)
            return &placing;
        // Live ones first, the lowest of them; of ended ones the highest.
        const auto order = [](const Placing &p) {
            return std::make_tuple(!p.lives(), p.lives() ? p.first().id : ~p.first().id);
        };
        if (best == nullptr || order(placing) < order(*best))
            best = &placing;
    }
    return best;
}

}  // namespace berth
