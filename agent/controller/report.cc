// What people are told, where they look: the pod's conditions and events. Written only when there is something new.
#include <fmt/format.h>

#include "agent/controller/controller.h"
#include "agent/log.h"

namespace berth {

namespace {

constexpr std::chrono::seconds tell_again{10};             // a reason that flickers is written at most this often
constexpr std::chrono::milliseconds reason_unknown{2'000};  // when slurmctld has not looked at the job yet

}  // namespace

void Controller::write_condition(const WorkloadPtr &workload, const std::string &reason, const std::string &message) {
    if (workload->told == message || workload->pod.scheduled_message == message) {
        workload->told = message;
        return;
    }
    workload->told = message;
    workload->told_at = loop_.now();
    api_->set_condition(workload->ref(), {"PodScheduled", "False", reason, message}, [workload](kube::Response response) {
        if (response.ok() || response.status == 404 || response.status == 409)
            return;
        log::warning("writing the condition of pod {}: {}", workload->pod.full_name(), response.error);
        workload->told.clear();  // the next look writes it
    });
}

void Controller::tell_waiting(const WorkloadPtr &workload) {
    if (workload->state != State::queued || !workload->seen)
        return;
    const auto waited = loop_.now() - workload->job_known;
    if (waited < config_.controller.condition_delay)
        return look_soon(std::chrono::duration_cast<std::chrono::milliseconds>(config_.controller.condition_delay - waited));
    if (workload->seen->reason == "None")
        return look_soon(reason_unknown);
    const std::string message = fmt::format("Slurm job {} is pending: {}", workload->job, workload->seen->reason);
    const auto since_told = loop_.now() - workload->told_at;
    if (!workload->told.empty() && message != workload->told && since_told < tell_again)
        return look_soon(std::chrono::ceil<std::chrono::milliseconds>(tell_again - since_told));
    write_condition(workload, "Unschedulable", message);
}

void Controller::tell_refused(const WorkloadPtr &workload) {
    if (workload->told != workload->problem) {
        log::info("pod {} is refused: {}", workload->pod.full_name(), workload->problem);
        if (workload->pod.scheduled_message != workload->problem)
            api_->post_event(workload->ref(), {"Warning", "FailedScheduling", "Submitting", workload->problem});
    }
    write_condition(workload, "Unschedulable", workload->problem);
    retry_later(workload);  // a partition may open, an account may come
}

// Slurm's decision is final: the pod is told why and goes. A bound one is told and deleted by its node's agent, which knows
// whether the pod or the job ended first; what is done for it here is for the case that this agent is away.
void Controller::dismiss(const WorkloadPtr &workload) {
    slurm::Job job = workload->seen.value_or(slurm::Job{});
    job.id = workload->job;
    if (job.state_name.empty())
        job.state_name = "ENDED";
    const kube::Event event{"Warning", job.end_word(), "Deleting", job.end_sentence()};
    const bool bound = !workload->pod.node_name.empty();
    table_.set(workload->job, 0);
    if (!workload->dismissal_told) {
        workload->dismissal_told = true;
        log::info("pod {} is dismissed: {}", workload->pod.full_name(), event.message);
        if (!bound)
            api_->post_event(workload->ref(), event);
        const WorkloadPtr keep = workload;
        const kube::Condition condition{"DisruptionTarget", "True", event.reason, event.message};
        api_->set_condition(workload->ref(), condition, [this, keep, bound](kube::Response) {
            if (keep->state == State::dismissing && !bound)
                api_->remove(keep->ref(), 0, [](kube::Response) {});
        });
    } else if (!workload->pod.deleting || !bound) {
        if (bound)
            api_->post_event(workload->ref(), event);
        api_->remove(workload->ref(), -1, [](kube::Response) {});
    }
    retry_later(workload);
}

}  // namespace berth
