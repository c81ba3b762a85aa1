// How a bound pod shares its node with native jobs. The kubelet bounds a pod by its own limits; what it leaves open is bounded here by what
// Slurm allotted. The kubelet makes the pod's cgroup some time after the bind, and each change of the pod's status is an occasion to look:
// nothing is asked for in between, and the reconcile finds what was missed.
#include "agent/log.h"
#include "agent/node/confinement.h"
#include "agent/node/node_agent.h"

namespace berth::node {

namespace {

// Of a gang's pods several may share the job's memory on this node; each has its own part of it.
std::uint64_t allotted_mib(const slurm::Job &job, bool member) { return member ? job.ticket.memory_mib : job.memory_mib_per_node; }

}  // namespace

// `again`: also what was done before, for others write to these files, too (systemd when it reloads).
void NodeAgent::confine(const BerthPtr &berth, bool again) {
    if (berth->stage != Stage::docked || !berth->pod_seen || !berth->job_seen)
        return;
    if (!berth->memory_bounded || again)
        bound_memory(berth);
    if ((!berth->cpus_bounded || again) && config_.node.isolation == Isolation::cores)
        bound_cpus(berth);
}

void NodeAgent::bound_memory(const BerthPtr &berth) {
    const std::uint64_t mib = allotted_mib(*berth->job_seen, berth->member());
    if (berth->pod_seen->memory_limited || mib == 0 || berth->bounding)
        return;
    berth->bounding = true;
    workers_->submit([cgroup = cgroup_of(*berth), mib] { return limit_memory(cgroup, mib << 20); },
                     [berth, mib](const Result<bool> &done) {
                         berth->bounding = false;
                         if (!done)
                             log::error("pod {}/{} may use more memory than Slurm allotted: {}", berth->pod.ns, berth->pod.name, done.error());
                         else if (*done && !berth->memory_bounded)
                             log::info("pod {}/{} has no memory limit of its own: it gets the {} MiB that Slurm allotted", berth->pod.ns,
                                       berth->pod.name, mib);
                         berth->memory_bounded = !done || *done;  // the reconcile tries again
                     });
}

void NodeAgent::bound_cpus(const BerthPtr &berth) {
    const std::string name = berth->pod.ns + "/" + berth->pod.name;
    const PodCgroup cgroup = cgroup_of(*berth);
    const std::string cpus = job_cpus(config_.node.cgroup_mount, node_, berth->job, berth->job_seen->uid);
    const Result<bool> done = cpus.empty() ? Result<bool>(false) : confine_cpus(cgroup, cpus);
    if (!done)
        log::error("pod {} may use other cores than Slurm allotted: {}", name, done.error());
    else if (*done && !berth->cpus_bounded)
        log::info("pod {} is confined to CPUs {}", name, cpus);
    else if (cpus.empty() && cgroup.populated() && !std::exchange(berth->cpus_missed, true))
        log::warning("pod {} may use other cores than Slurm allotted: job {} has no extern step with a cpuset; node.isolation: cores needs "
                     "TaskPlugin=task/cgroup, ConstrainCores and PrologFlags=Contain",
                     name, berth->job);
    berth->cpus_bounded = !done || *done;
}

}  // namespace berth::node
