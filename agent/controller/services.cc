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

constexpr std::time_t ask_again = 10;  // seconds: for a budget that forbids an eviction, or a slurmctld that does not answer

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
            const auto done = slurm::set_time_limit(id, key, next);
            return {next, done ? "" : done.error()};
        },
        [this, workload, id = job.id](const Renewal &renewal) {
            workload->renewing = false;
            if (!renewal.problem.empty()) {
                log::warning("{}; trying again", renewal.problem);
                return look_at(workload, std::time(nullptr) + ask_again);
            }
            workload->unrenewable = renewal.minutes == 0;
            if (!workload->unrenewable)
                log::info("job {} of {} has a time limit of {} minutes now", id, workload->title(), renewal.minutes);
            look_soon(std::chrono::milliseconds(0));
        });
}

// Whose turn it is among the pods of the same owner; every look at one of them that is near its end asks.
void Controller::replace_in_turn(const WorkloadPtr &workload) {
    const kube::OwnerRef &owner = workload->only().pod.owner;
    std::vector<Replica> replicas;
    for (const auto &[uid, other] : by_pod_) {
        const auto found = other->members.find(uid);
        if (other->gang() || found == other->members.end() || found->second.pod.owner.uid != owner.uid || found->second.pod.terminal())
            continue;
        const kube::Pod &pod = found->second.pod;
        Replica replica{uid, 0, 0, !pod.node_name.empty() && pod.phase == kube::Phase::running && !pod.deleting && !other->evicting};
        if (other->seen && other->seen->time_limit_minutes != 0 && (other->unrenewable || !config_.services.renew)) {
            replica.start = other->seen->start_time;
            replica.end = other->seen->end_time;
        }
        replicas.push_back(std::move(replica));
    }
    const std::chrono::seconds warn = warn_of(*workload);
    const std::time_t now = std::time(nullptr);
    const Turn turn = next_turn(replicas, warn, now);
    if (turn.uid == workload->only().pod.uid)
        return evict(workload);
    look_at(workload, turn.ask_at > now ? turn.ask_at : now + ask_again);
}

void Controller::evict(const WorkloadPtr &workload) {
    const kube::PodRef ref = workload->only().ref();
    const std::string message = fmt::format("Slurm job {} reaches its time limit at {}: the pod is replaced before, in its turn",
                                            workload->job, slurm::utc_text(workload->seen->end_time));
    workload->evicting = true;
    api_->evict(ref, [this, workload, ref, message](const kube::Response &response) {
        if (response.ok() || response.status == 404 || response.status == 409) {
            log::info("pod {}/{} is evicted: {}", ref.ns, ref.name, message);
            api_->post_event(ref, {"Normal", "Replacing", "Evicting", message});
            return;
        }
        workload->evicting = false;
        log::info("pod {}/{} may not be evicted yet: {}", ref.ns, ref.name, response.error);
        look_at(workload, std::time(nullptr) + ask_again);
    });
}

}  // namespace berth
