// Suspended jobs. `scontrol suspend` gives a job's CPUs to others at once and tells nobody on the node: the processes of its pods must stand
// still, or they would run on CPUs that are somebody else's. The controller, whom slurmctld rings, writes the condition
// berth.dev/Suspended on the pods; that only says "ask". What slurmctld answers counts, and whether a pod is frozen can be read from its
// cgroup: so nothing is lost when either agent restarts.
//
// A pod that is to end is thawed first, for good: it must hear its SIGTERM, and on cgroup v1 also SIGKILL.
#include "agent/log.h"
#include "agent/node/freezer.h"
#include "agent/node/node_agent.h"

namespace berth::node {

// The pod is docked, and its newest state was just seen.
void NodeAgent::heed_condition(const BerthPtr &berth) {
    const kube::Pod &pod = *berth->pod_seen;
    if (pod.deleting)
        return thaw(berth);
    const bool news = pod.suspended != berth->suspended_seen;
    berth->suspended_seen = pod.suspended;
    if (news || pod.suspended != berth->suspended)
        ask_suspension(berth->job, berth->nonce);
    else if (berth->suspended && !berth->frozen)
        freeze(berth);  // the kubelet may have begun meanwhile
}

// Not by load_job(), whose answer may be older than what made us ask; and only one question at a time, so that answers come in order.
void NodeAgent::ask_suspension(std::uint32_t job, const std::string &nonce) {
    const std::string key = RunDir::job_name(job, nonce);
    if (const auto [open, first] = suspensions_asked_.try_emplace(key, false); !first) {
        open->second = true;
        return;
    }
    workers_->submit([job] { return slurm::load(job); },
                     [this, job, nonce, key](const Result<std::optional<slurm::Job>> &answer) {
                         const bool again = suspensions_asked_.extract(key).mapped();
                         if (answer && *answer)
                             for (const BerthPtr &berth : berths_of(key))
                                 follow_job(berth, **answer);
                         else if (!answer)
                             log::warning("{}; the next reconcile asks again whether it is suspended", answer.error());
                         if (again)
                             ask_suspension(job, nonce);
                     });
}

void NodeAgent::follow_job(const BerthPtr &berth, const slurm::Job &job) {
    if (berth->stage != Stage::docked || !belongs(job, *berth) || (berth->pod_seen && berth->pod_seen->deleting))
        return;
    const bool suspended = job.state == slurm::JobState::suspended;
    if (suspended != berth->suspended)
        log::info("job {} of pod {}/{} is {}", berth->job, berth->pod.ns, berth->pod.name, suspended ? "suspended" : "no longer suspended");
    if (!suspended)
        return thaw(berth);
    berth->suspended = true;
    freeze(berth);
}

// A pod that an agent before this one bound, while the API cannot be asked: its job may be suspended or resumed all the same.
void NodeAgent::follow_unseen(const BerthPtr &berth) {
    if (!berth->held || !berth->job_seen || !berth->job_seen->active() || !belongs(*berth->job_seen, *berth))
        return;
    if (berth->job_seen->state == slurm::JobState::suspended)
        freeze(berth);
    else if (frozen(cgroup_of(*berth)))
        thaw(berth);
}

void NodeAgent::freeze(const BerthPtr &berth) {
    const auto done = node::freeze(cgroup_of(*berth));
    if (!done)
        log::error("pod {}/{} of suspended job {} runs on: {}", berth->pod.ns, berth->pod.name, berth->job, done.error());
    else if (*done && !berth->frozen)
        log::info("pod {}/{} of job {} is frozen", berth->pod.ns, berth->pod.name, berth->job);
    berth->frozen = done && *done;
}

void NodeAgent::thaw(const BerthPtr &berth) {
    berth->suspended = false;
    if (const auto done = node::thaw(cgroup_of(*berth)); !done) {
        log::error("pod {}/{} of job {} stays frozen: {}", berth->pod.ns, berth->pod.name, berth->job, done.error());
        return;
    }
    if (std::exchange(berth->frozen, false))
        log::info("pod {}/{} of job {} goes on", berth->pod.ns, berth->pod.name, berth->job);
}

}  // namespace berth::node
