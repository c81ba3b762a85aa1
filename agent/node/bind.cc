// The way in: from "allocated here" to a bound pod, with one write.
#include <fmt/format.h>

#include "agent/keys.h"
#include "agent/log.h"
#include "agent/metrics.h"
#include "agent/node/freezer.h"
#include "agent/node/node_agent.h"

namespace berth::node {

namespace {

constexpr std::chrono::milliseconds first_backoff{100}, most_backoff{5'000};

}  // namespace

// What the allocation lacks for its pods, empty when it has room. Its owner may have changed the job while it waited.
std::string NodeAgent::shortage(const slurm::Job &job, const Ticket &ticket) {
    const std::uint64_t cpus = std::uint64_t{ticket.cpus} * ticket.size;
    if (job.tasks < ticket.size)
        return fmt::format("{} tasks instead of {}", job.tasks, ticket.size);
    if (job.cpus < cpus)
        return fmt::format("{} CPUs instead of {}", job.cpus, cpus);
    if (job.memory_mib_per_node != 0 && job.memory_mib_per_node < ticket.memory_mib)
        return fmt::format("{} MiB of memory instead of {}", job.memory_mib_per_node, ticket.memory_mib);
    if (const std::string lack = device_shortage(ticket, job.gres_by_node); !lack.empty())
        return lack;
    if (job.uid != ticket.user)
        return fmt::format("owner {} instead of {}", job.uid, ticket.user);
    return {};
}

// Asks slurmctld for the job and the API for the pod, both at once; decide() goes on when both have answered.
void NodeAgent::look(const BerthPtr &berth) {
    berth->timer.reset();
    berth->stage = Stage::checking;
    berth->request_open = true;
    berth->job_seen.reset();
    berth->pod_looked = false;
    const auto answers = std::make_shared<int>(2);
    const auto arrived = [this, berth, answers] {
        if (--*answers > 0)
            return;
        berth->request_open = false;
        if (berth->stage == Stage::checking)
            decide(berth);
        else if (berth->stage == Stage::ending)
            hold_on(berth);
    };
    if (berth->gang && job_fresh(*berth->gang)) {
        berth->job_seen = berth->gang->job_seen;
        arrived();
    } else {
        load_job(berth->job, [berth, arrived](const Result<std::optional<slurm::Job>> &answer) {
            if (answer)
                berth->job_seen = *answer ? **answer : slurm::Job{};
            else
                log::warning("{}; the pod waits", answer.error());
            arrived();
        });
    }
    // A server that honours the Binding's uid does this look itself; and a gang's pod was just seen by its watch.
    // Devices are counted by Kubernetes' names, which the ticket does not have.
    const bool seen_enough = berth->member() || (berth->ticket && berth->ticket->plain && berth->ticket->gres.empty());
    if (uid_precondition_ && !berth->held && berth->backoff.count() == 0 && seen_enough) {
        berth->pod_looked = true;
        return arrived();
    }
    api_->get_pod(berth->pod, [berth, arrived](kube::Response response, std::optional<kube::Pod> pod) {
        berth->pod_looked = pod.has_value() || response.status == 404;
        if (pod && pod->uid == berth->pod.uid)
            berth->saw(std::move(*pod));
        else if (berth->pod_looked)
            berth->pod_absent = true;
        arrived();
    });
}

bool NodeAgent::belongs(const slurm::Job &job, const Berth &berth) const {
    if (job.ticket.nonce != berth.nonce)
        return false;
    if (!berth.member())
        return job.ticket.uid == berth.pod.uid;
    return !job.ticket.single() && job.ticket.ns == berth.pod.ns && job.ticket.part == berth.slot->part &&
           (!berth.gang || job.ticket.uid == berth.gang->ticket.uid);
}

// Said once, not at every look.
void NodeAgent::wait_and_tell(const BerthPtr &berth, const std::string &reason, const std::string &why, const std::string &key) {
    if (const std::string &news = key.empty() ? why : key; berth->told != news) {
        log::info("pod {}/{} of job {} waits: {}", berth->pod.ns, berth->pod.name, berth->job, why);
        api_->post_event(berth->pod, {"Warning", reason, "Binding", why});
        berth->told = news;
    }
    try_again(berth);
}

void NodeAgent::decide(const BerthPtr &berth) {
    if (!berth->job_seen || !berth->pod_looked) {
        follow_unseen(berth);
        return try_again(berth);
    }
    const slurm::Job &job = *berth->job_seen;
    // The node too: an event that was carried here from another one, or a job that was shrunk, gives no room on this one.
    const bool ours = job.active() && belongs(job, *berth) && job.has_node(node_);
    if (!ours || run_dir_.exists(RunDir::ended, berth->job_key())) {
        if (berth->gang)
            return end(GangPtr(berth->gang), "its job has ended");
        if (berth->held)
            return end(berth, "its job has ended");
        log::info("job {} ended, or left this node, before its pod {}/{} was bound", berth->job, berth->pod.ns, berth->pod.name);
        return drop(berth);
    }
    if (berth->pod_absent)
        return finish(berth);
    const std::string name = berth->pod.ns + "/" + berth->pod.name;
    if (berth->pod_seen) {
        const kube::Pod &pod = *berth->pod_seen;
        // Its user may have taken the annotations away; the record says who bound it.
        if (pod.node_name == kube_node_ && (berth->held || pod.annotation(keys::nonce) == berth->nonce))
            return bound(berth);
        if (!pod.node_name.empty()) {
            // Nodes that saw different members of a gang may want the same one; that is settled by the first Binding.
            if (berth->member() && pod.annotation(keys::nonce) == berth->nonce)
                log::info("pod {} of job {} has a slot on {}", name, berth->job, pod.node_name);
            else
                log::error("pod {} of job {} is bound to {} by somebody else{}", name, berth->job, pod.node_name,
                           berth->member() ? "" : "; its job is cancelled");
            berth->pod_absent = true;  // as far as this node is concerned
            return finish(berth);
        }
        if (pod.deleting || pod.gated || pod.terminal()) {
            if (berth->member() && !berth->held)
                return leave(berth);
            return try_again(berth);
        }
    }
    // What was bound now would be stopped soon. Another node binds the pod, for its next job.
    if (job.preempting())
        return try_again(berth);
    const Ticket *ticket = berth->gang ? &berth->gang->ticket : berth->ticket ? &*berth->ticket : nullptr;
    if (ticket == nullptr)
        return try_again(berth);
    if (const std::string lack = shortage(job, *ticket); !lack.empty()) {
        log::error("job {} has {} for pod {}: it is {}", berth->job, lack, name, berth->gang ? "not bound" : "cancelled");
        api_->post_event(berth->pod, {"Warning", "PlaceholderChanged", "Binding",
                                      fmt::format("Slurm job {} was changed and has {}: nothing is bound to it", berth->job, lack)});
        berth->pod_absent = true;
        if (berth->gang)
            berth->gang->refusal = lack;
        return finish(berth);
    }
    if (job.state == slurm::JobState::suspended)
        return wait_and_tell(berth, "SlurmSuspended",
                             fmt::format("Slurm job {0} is suspended, and its pod waits: scontrol resume {0}", berth->job));
    if (!node_ready_) {
        log::info("pod {} waits: Kubernetes node {} is not ready or not schedulable", name, kube_node_);
        return try_again(berth);
    }
    // One that was not looked at has no wishes (Ticket::plain), but the node may have its own.
    if (const std::string why = mismatch(berth->pod_seen ? *berth->pod_seen : kube::Pod{}, here_, config_); !why.empty())
        return wait_and_tell(berth, "NodeMismatch",
                             fmt::format("Slurm job {} is on node {}, where the pod may not run: {}", berth->job, kube_node_, why));
    if (!room_here(berth, *ticket) || !claims_ready(berth))
        return;
    bind(berth);
}

// Slurm and the kubelet may believe in different sizes of the node, and pods that Slurm knows nothing of use some of it.
bool NodeAgent::room_here(const BerthPtr &berth, const Ticket &ticket) {
    if (!pods_->synced()) {
        try_again(berth);
        return false;
    }
    // One that was not looked at asks for no more than its ticket.
    const kube::Resources asked = berth->pod_seen ? berth->pod_seen->requested()
                                                  : kube::Resources{std::int64_t{ticket.cpus} * 1000,
                                                                    static_cast<std::int64_t>(ticket.memory_mib << 20), {}};
    const Lack lack = capacity_.lack(berth->pod.uid, asked);
    if (lack.empty()) {
        capacity_.reserve(berth->pod.uid, asked);
        return true;
    }
    if (berth->pod_seen)
        wait_and_tell(berth, "NodeFull",
                      fmt::format("Slurm job {} is on node {}, where the kubelet would refuse the pod: {}", berth->job, kube_node_,
                                  lack.sentence),
                      "NodeFull " + lack.resource);
    else
        try_again(berth);  // and then looks
    return false;
}

bool NodeAgent::hold_pod(const BerthPtr &berth) {
    if (berth->held)
        return true;
    Message record{"held", {}};
    record.set("job", berth->job)
        .set("nonce", berth->nonce)
        .set("ns", berth->pod.ns)
        .set("name", berth->pod.name)
        .set("uid", berth->pod.uid);
    if (berth->slot)
        record.set("slot", to_text(*berth->slot));
    std::string why;
    berth->held = run_dir_.write(RunDir::held, berth->pod.uid, record, why);
    if (!berth->held)
        log::error("pod {}/{} is not bound, because it cannot be recorded: {}", berth->pod.ns, berth->pod.name, why);
    return berth->held;
}

void NodeAgent::bind(const BerthPtr &berth) {
    const bool held_before = berth->held;
    if (!hold_pod(berth))
        return try_again(berth);
    // held/ is written, so an epilog that comes now waits for us; one that came before left its mark.
    if (run_dir_.exists(RunDir::ended, berth->job_key())) {
        if (held_before)
            return end(berth, "its job has ended");
        release(berth);
        drop(berth);
        if (berth->gang)
            end(GangPtr(berth->gang), "its job has ended");
        return;
    }
    berth->stage = Stage::binding;
    berth->request_open = true;
    kube::KeyValues annotations{{keys::nonce, berth->nonce}, {keys::job_id, std::to_string(berth->job)}, {keys::slurm_node, node_}};
    if (berth->slot)
        annotations.emplace_back(keys::slot, to_text(*berth->slot));
    api_->bind(berth->pod, kube_node_, annotations, [this, berth](kube::Response response) {
        berth->request_open = false;
        if (berth->stage == Stage::ending)
            return hold_on(berth);
        if (response.ok())
            return bound(berth);
        log::warning("binding pod {}/{} for job {}: {}; looking again", berth->pod.ns, berth->pod.name, berth->job, response.error);
        try_again(berth);
    });
}

void NodeAgent::bound(const BerthPtr &berth) {
    hold_pod(berth);
    if (berth->stage == Stage::binding) {
        if (berth->allocated != std::chrono::steady_clock::time_point{})
            metrics::allocated_to_bound.observe(loop_.now() - berth->allocated);
        log::info("pod {}/{} is bound to {} for job {}", berth->pod.ns, berth->pod.name, kube_node_, berth->job);
        api_->post_event(berth->pod, {"Normal", "Scheduled", "Binding",
                                      fmt::format("Successfully assigned {}/{} to {}: Slurm job {}", berth->pod.ns, berth->pod.name,
                                                  kube_node_, berth->job),
                                      true});
    }
    berth->stage = Stage::docked;
    berth->backoff = {};
    if (berth->pod_absent || berth->terminal())
        return finish(berth);
    confine(berth);
    // An agent before this one may have frozen it.
    berth->frozen = berth->suspended = frozen(cgroup_of(*berth));
    const bool suspended = berth->job_seen && berth->job_seen->state == slurm::JobState::suspended;
    if (suspended != berth->suspended)
        ask_suspension(berth->job, berth->nonce);
    else if (berth->pod_seen)
        heed_condition(berth);
}

void NodeAgent::try_again(const BerthPtr &berth) {
    berth->stage = Stage::checking;
    if (!berth->pod_seen || berth->pod_seen->node_name != kube_node_)
        capacity_.forget(berth->pod.uid);
    berth->backoff = std::min(berth->backoff.count() == 0 ? first_backoff : berth->backoff * 2, most_backoff);
    run_later(berth, berth->backoff, &NodeAgent::look);
}

}  // namespace berth::node
