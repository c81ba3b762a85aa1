#include "agent/tool/placeholder_search.h"

#include <algorithm>

#include "agent/keys.h"

namespace berth::tool {

using slurm::QueuedJob;

namespace {

bool is_member(const kube::Pod &pod, const Ticket &ticket) {
    if (ticket.ns != pod.ns)
        return false;
    if (ticket.single())
        return pod.uid.empty() ? ticket.name == pod.name : ticket.uid == pod.uid;
    if (pod.uid.empty())
        return false;
    if (ticket.selector.empty())
        return !ticket.scheduling_group.empty() && ticket.scheduling_group == pod.scheduling_group;
    std::string_view rest = ticket.selector;
    while (!rest.empty()) {
        const std::string_view one = rest.substr(0, rest.find(','));
        const std::size_t equals = one.find('=');
        if (equals == std::string_view::npos || pod.label(one.substr(0, equals)) != one.substr(equals + 1))
            return false;
        rest.remove_prefix(std::min(one.size() + 1, rest.size()));
    }
    return true;
}

}  // namespace

std::vector<QueuedJob> placeholder_of(const kube::Pod &pod, const std::string &cluster, const std::vector<QueuedJob> &queue) {
    const std::string_view nonce = pod.annotation(keys::nonce);
    const QueuedJob *best = nullptr;
    const auto better = [nonce](const QueuedJob &one, const QueuedJob &than) {
        if (!nonce.empty() && (one.ticket->nonce == nonce) != (than.ticket->nonce == nonce))
            return one.ticket->nonce == nonce;
        if (one.lives() != than.lives())
            return one.lives();
        return one.lives() ? one.id < than.id : one.id > than.id;
    };
    for (const QueuedJob &job : queue) {
        if (!job.ticket || (!cluster.empty() && job.ticket->cluster != cluster) || !is_member(pod, *job.ticket))
            continue;
        if (!job.lives() && job.ticket->nonce != nonce && (job.ticket->over || no_verdict(job) || job.end_time < pod.created))
            continue;
        if (best == nullptr || better(job, *best))
            best = &job;
    }
    std::vector<QueuedJob> parts;
    for (const QueuedJob &job : queue)
        if (best != nullptr && job.ticket && job.ticket->nonce == best->ticket->nonce)
            parts.push_back(job);
    std::sort(parts.begin(), parts.end(), [](const QueuedJob &one, const QueuedJob &other) { return one.id < other.id; });
    return parts;
}

}  // namespace berth::tool
