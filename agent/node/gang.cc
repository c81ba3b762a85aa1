#include "agent/node/gang.h"

#include <algorithm>

#include "agent/keys.h"
#include "agent/translate/placeholder.h"

namespace berth::node {

namespace {

bool waits(const kube::Pod &pod) { return pod.node_name.empty() && !pod.terminal() && !pod.deleting && !pod.gated; }

}  // namespace

std::string Gang::query(const std::string &scheduler_name) const {
    std::string out = "fieldSelector=" + kube::url_escape("spec.schedulerName=" + scheduler_name);
    if (!ticket.selector.empty())
        out += "&labelSelector=" + kube::url_escape(ticket.selector);
    return out;
}

void Gang::saw(kube::Pod &&pod, const std::string &scheduler_name, const Config &config) {
    const bool ours = pod.ns == ticket.ns && pod.scheduler_name == scheduler_name &&
                      (!ticket.selector.empty() || pod.scheduling_group == ticket.scheduling_group) &&
                      (ticket.tenant.empty() || tenant_name(config, pod) == ticket.tenant);
    if (!ours) {
        members.erase(pod.uid);
        return;
    }
    Member member;
    member.rank = rank_key(pod);
    member.of_this_part = ticket.parts == 1 || shape_of(pod, config) == ticket.shape;
    member.outgrown = member.of_this_part && outgrows(pod, place_of(ticket), config);
    std::string uid = pod.uid;
    member.pod = std::move(pod);
    members[std::move(uid)] = std::move(member);
}

bool Gang::bound_by_us(const kube::Pod &pod) const {
    return !pod.node_name.empty() && pod.annotation(keys::nonce) == ticket.nonce;
}

bool Gang::whole() const {
    std::uint32_t waiting = 0;
    for (const auto &[uid, member] : members) {
        if (bound_by_us(member.pod))
            return true;  // some node has seen all of them
        waiting += waits(member.pod) && !member.outgrown ? 1 : 0;
    }
    return started || waiting >= ticket.gang;
}

std::vector<Gang::Seat> Gang::seats(const std::set<std::uint32_t> &taken, const std::set<std::string> &settled) const {
    std::set<std::uint32_t> busy = taken, strangers;  // strangers: slots of pods with another rank
    std::vector<const Member *> waiting;
    for (const auto &[uid, member] : members) {
        if (!member.of_this_part)
            continue;
        if (bound_by_us(member.pod)) {
            const auto name = parse_slot(member.pod.annotation(keys::slot));
            // A terminal pod of this node whose processes live on is in `taken`.
            if (name && name->part == ticket.part && !member.pod.terminal()) {
                busy.insert(name->slot);
                if (own_rank(member.pod) != name->slot)
                    strangers.insert(name->slot);
            }
        } else if (waits(member.pod) && !member.outgrown && settled.count(uid) == 0) {
            waiting.push_back(&member);
        }
    }
    std::sort(waiting.begin(), waiting.end(), [](const Member *a, const Member *b) { return a->rank < b->rank; });

    // Where pods of one kind count on from 0 over the whole gang, their own count is the slot: a retried pod gets its own again.
    const bool counted = ticket.parts == 1 && (ticket.kind == "Job" || ticket.kind == "LeaderWorkerSet");
    const std::uint32_t everywhere = slots ? slots->everywhere : 0;
    std::vector<Seat> out;
    std::vector<const kube::Pod *> others;
    for (const Member *member : waiting) {
        const auto own = counted ? own_rank(member->pod) : std::nullopt;
        if (own && *own < ticket.size && busy.insert(*own).second)
            out.push_back({&member->pod, *own});
        else if (!own || *own >= ticket.size || strangers.count(*own) != 0)
            others.push_back(&member->pod);
        // Else its own slot is still its predecessor's, or of two pods with one rank the other has it: it waits.
    }
    // Those that have no slot of their own take what is free: a gang that was begun again has fewer slots than its highest rank.
    std::uint32_t next = 0;
    for (const kube::Pod *pod : others) {
        while (next < everywhere && busy.count(next) != 0)
            ++next;
        if (next < everywhere)
            out.push_back({pod, next++});
    }
    return out;
}

bool Gang::full(const std::set<std::uint32_t> &taken) const {
    if (!slots)
        return false;
    std::uint32_t used = 0, used_spare = 0;
    for (const std::uint32_t slot : taken)
        if (slots->has(slot))
            ++(slot < ticket.size ? used : used_spare);
    // Other kinds than a PodGroup have as many pods as they say.
    return used >= slots->count && (ticket.kind != "PodGroup" || used_spare >= slots->spare);
}

}  // namespace berth::node
