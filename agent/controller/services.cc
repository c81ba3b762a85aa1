// Pods that are meant to run on, of ReplicaSets and StatefulSets, in a partition with a time limit: their jobs are given more time while
// the site allows it; then they are replaced one after the other, and never cut off together.
#include <fmt/format.h>

#include <algorithm>

#include "agent/controller/controller.h"
#include "agent/lifecycle/ending.h"
#include "agent/log.h"
#include "agent/slurm/reason.h"

namespace berth {

namespace {

constexpr std::time_t ask_again = 10;    // seconds: for a budget that forbids an eviction
constexpr std::time_t replaced_within = 60;  // later the owner may want fewer, or none
constexpr std::time_t renew_again = 60;  // for a slurmctld that refused or did not answer

}  // namespace

void Controller::renew(const WorkloadPtr &workload, const slurm::Job &job) {
    Workload &w = *workload;
    if (w.renewing)
        return;
    w.renewing = true;
    struct Renewal {
        std::uint32_t minutes = 0;
        std::string problem;
    };
    submitters_->submit(
        [id = job.id, key = w.who.key, partition = job.partition, limit = job.time_limit_minutes, step = w.first_limit,
         up_to = config_.services.renew_up_to_minutes]() -> Renewal {
            const auto most = slurm::longest_time(partition);
            if (!most)
                return {0, most.error()};
            const std::uint32_t next = renewed_limit(limit, step, *most, up_to);
            if (next == limit)
                return {};
            const auto done = slurm::set_time_limit(id, key, limit, next);
            return {next, done ? "" : done.error()};
        },
        [this, workload, id = job.id](const Renewal &renewal) {
            workload->renewing = false;
            const bool failed = !renewal.problem.empty();
            workload->unrenewable = failed || renewal.minutes == 0;
            workload->renew_again = failed ? std::time(nullptr) + renew_again : 0;
            if (failed)
                log::warning("{}; until it can be renewed its pods are replaced in turn", renewal.problem);
            else if (!workload->unrenewable)
                log::info("job {} of {} has a time limit of {} minutes now", id, workload->title(), renewal.minutes);
            look_soon(std::chrono::milliseconds(0));
        });
}

// Gathered once for each look, for there may be thousands of pods.
const std::vector<WorkloadPtr> &Controller::services_of(const std::string &owner_uid) {
    if (services_.empty())
        for (const auto &[uid, workload] : by_pod_)
            if (!workload->gang() && !workload->members.empty() && !workload->only().pod.terminal())
                services_[workload->only().pod.owner.uid].push_back(workload);
    return services_[owner_uid];
}

// Whose turn it is among the pods of the same owner; every look at one of them that is near its end asks.
void Controller::replace_in_turn(const WorkloadPtr &workload) {
    const kube::OwnerRef &owner = workload->only().pod.owner;
    std::vector<Replica> replicas;
    for (const WorkloadPtr &other : services_of(owner.uid)) {
        const kube::Pod &pod = other->only().pod;
        Replica replica{pod.uid, 0, 0, !pod.node_name.empty() && pod.phase == kube::Phase::running && !pod.deleting && !other->evicting};
        // The clock of a suspended one stands still, and one that is preempted goes another way.
        const bool ends = other->seen && other->seen->time_limit_minutes != 0 && !other->suspended && !other->seen->preempting();
        if (ends && (other->unrenewable || !config_.services.renew)) {
            replica.start = other->seen->start_time;
            replica.end = other->seen->end_time;
        }
        replicas.push_back(std::move(replica));
    }
    const std::time_t now = std::time(nullptr);
    std::erase_if(replacing_, [now](const auto &entry) { return now >= entry.second.until; });
    const auto replacing = replacing_.find(owner.uid);
    const Turn turn = next_turn(replicas, replacing != replacing_.end() ? replacing->second.replicas : 0, warn_of(*workload), now);
    if (turn.uid != workload->only().pod.uid)
        return look_at(workload, turn.ask_at > now ? turn.ask_at : now + ask_again);
    replacing_[owner.uid] = {replicas.size(), now + replaced_within};
    evict(workload);
}

void Controller::evict(const WorkloadPtr &workload) {
    const kube::PodRef ref = workload->only().ref();
    const std::string message = fmt::format("Slurm job {} reaches its time limit at {}: the pod is replaced before, in its turn",
                                            workload->job, slurm::utc_text(workload->seen->end_time));
    workload->evicting = true;
    api_->evict(ref, [this, workload, ref, message](const kube::Response &response) {
        if (response.status == 404)
            return;
        if (response.ok()) {
            log::info("pod {}/{} is evicted: {}", ref.ns, ref.name, message);
            api_->post_event(ref, {"Normal", "Replacing", "Evicting", message});
            return;
        }
        workload->evicting = false;
        replacing_.erase(workload->only().pod.owner.uid);
        log::info("pod {}/{} may not be evicted yet: {}", ref.ns, ref.name, response.error);
        look_at(workload, std::time(nullptr) + ask_again);
    });
}

}  // namespace berth
