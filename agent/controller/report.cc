// What people are told, where they look: the conditions and events of pods and PodGroups. Written only when there is something new.
#include <fmt/format.h>

#include "agent/controller/controller.h"
#include "agent/keys.h"
#include "agent/lifecycle/lost_node.h"
#include "agent/log.h"
#include "agent/slurm/reason.h"

namespace berth {

namespace {

using std::chrono::milliseconds;
constexpr std::chrono::seconds tell_again{10};  // a reason that flickers is written at most this often
constexpr milliseconds reason_unknown{2'000};   // when slurmctld has not looked at the job yet
constexpr std::chrono::seconds rejected_for{10};  // a gang that did not start in time, at least

}  // namespace

void Controller::write_condition(Member &member, const std::string &reason, const std::string &message) {
    if (member.told == message || member.pod.scheduled_message == message) {
        member.told = message;
        return;
    }
    member.told = message;
    member.told_at = loop_.now();
    notices_->write(member.ref(), {"PodScheduled", "False", reason, message});
}

// A pod that has a job of its own besides the gang, or in a group that is no gang, says nothing about the group.
void Controller::tell_group(const Workload &workload, const std::string &reason, const std::string &message) {
    if (workload.gang() || !workload.obstacle.empty())
        groups_->tell_condition(workload.group, false, reason, message);
}

void Controller::tell_waiting(const WorkloadPtr &workload) {
    if (workload->state != State::queued || !workload->seen)
        return;
    const auto waited = loop_.now() - workload->job_known;
    if (waited < config_.controller.condition_delay)
        return look_soon(std::chrono::duration_cast<milliseconds>(config_.controller.condition_delay - waited));
    if (workload->seen->reason == "None")
        return look_soon(reason_unknown);
    const bool never = slurm::can_never_start(workload->seen->reason);
    const bool held = workload->seen->reason.starts_with("JobHeld");
    workload->told_start = held || never ? 0 : slurm::start_to_tell(workload->told_start, workload->seen->start_time, std::time(nullptr));
    const std::string message = slurm::pending_sentence(workload->job, workload->seen->reason, workload->told_start);
    for (auto &[uid, member] : workload->members) {
        if (!member.ready())
            continue;
        const auto since_told = loop_.now() - member.told_at;
        if (!member.told.empty() && message != member.told && since_told < tell_again) {
            look_soon(std::chrono::ceil<milliseconds>(tell_again - since_told));
        } else {
            if (never && member.told != message && member.pod.scheduled_message != message)
                api_->post_event(member.ref(), {"Warning", "FailedScheduling", "Submitting", message});
            write_condition(member, "Unschedulable", message);
        }
    }
    tell_group(*workload, "Unschedulable", message);
}

// A gang that waits for its own pods. Most are complete before anybody could read it.
void Controller::tell_gathering(const WorkloadPtr &workload) {
    if (workload->timer)
        return;
    workload->timer = loop_.after(config_.controller.condition_delay, [this, weak = std::weak_ptr<Workload>(workload)] {
        const WorkloadPtr still = weak.lock();
        if (!still)
            return;
        still->timer.reset();
        if (still->state != State::idle)
            return;
        const std::string message =
            fmt::format("{} waits for its pods: {} of {} are there", still->title(), still->count(&Member::ready), still->who.size);
        for (auto &[uid, member] : still->members)
            if (member.ready())
                write_condition(member, "WaitingForGang", message);
        tell_group(*still, "WaitingForGang", message);
    });
}

void Controller::tell_refused(const WorkloadPtr &workload) {
    for (auto &[uid, member] : workload->members) {
        if (!member.ready())
            continue;
        if (member.told != workload->problem) {
            log::info("pod {} is refused: {}", member.pod.full_name(), workload->problem);
            if (member.pod.scheduled_message != workload->problem)
                api_->post_event(member.ref(), {"Warning", "FailedScheduling", "Submitting", workload->problem});
        }
        write_condition(member, "Unschedulable", workload->problem);
    }
    tell_group(*workload, "Unschedulable", workload->problem);
    ++workload->refusals;
    retry_later(workload);  // a partition may open, an account may come, an owner may be mended
}

// What the site has chosen to ignore is ignored, but not in silence.
void Controller::tell_notes(const WorkloadPtr &workload) {
    for (const std::string &note : workload->notes)
        for (const auto &[uid, member] : workload->members)
            api_->post_event(member.ref(), {"Warning", "IgnoredRequest", "Submitting", note});
    workload->notes.clear();
}

// A gang that did not start in time gives its place back, whole, and comes again later.
void Controller::reject(const WorkloadPtr &workload) {
    workload->problem = fmt::format("{} did not start within {} s (Slurm job {}{}); its place is given back and it is tried again later",
                                    workload->title(), workload->who.schedule_timeout_seconds, workload->job,
                                    workload->seen ? ": " + workload->seen->reason : "");
    workload->started_scheduling = 0;
    groups_->post_event(workload->group, {"Warning", "ScheduleTimeout", "Submitting", workload->problem});
    give_up(workload, true, "its time to start is over");
    tell_refused(workload);
    workload->backoff /= 2;  // of which tell_refused() has made the next step
    retry_later(workload, rejected_for);
}

// The nodes' agents hear of a suspended job by this condition and freeze its pods, as slurmctld confirms; pods of jobs that end are theirs.
void Controller::tell_suspension(const WorkloadPtr &workload) {
    if (!workload->seen || !workload->seen->active())
        return;
    const bool suspended = workload->suspended;
    for (auto &[uid, member] : workload->members) {
        const kube::Pod &pod = member.pod;
        const bool concerned = member.bound() && member.live() && !pod.deleting && pod.annotation(keys::nonce) == workload->nonce;
        if (!concerned || member.suspension_open || member.suspension_told.value_or(pod.suspended) == suspended)
            continue;
        member.suspension_open = true;
        member.suspension_told = suspended;
        const std::string message =
            suspended ? fmt::format("Slurm job {0} is suspended, and the pod's processes are frozen: scontrol resume {0}", workload->job)
                      : fmt::format("Slurm job {} was resumed, and the pod's processes go on", workload->job);
        const kube::Event event{suspended ? "Warning" : "Normal", suspended ? "SlurmSuspended" : "SlurmResumed",
                                suspended ? "Suspending" : "Resuming", message};
        log::info("pod {}: {}", pod.full_name(), message);
        api_->set_condition(member.ref(), {keys::suspended, suspended ? "True" : "False", event.reason, message},
                            [this, workload, ref = member.ref(), event](const kube::Response &response) {
                                const auto still = workload->members.find(ref.uid);
                                if (still == workload->members.end())
                                    return;
                                still->second.suspension_open = false;
                                if (response.ok()) {
                                    api_->post_event(ref, event);
                                    return tell_suspension(workload);  // the job may have been resumed meanwhile
                                }
                                still->second.suspension_told.reset();  // the next look writes it
                                if (response.status != 404 && response.status != 409)
                                    log::warning("writing the condition of pod {}/{}: {}", ref.ns, ref.name, response.error);
                            });
    }
}

// Slurm's decision is final: the pods are told why and go. A bound one is told and deleted by its node's agent, which knows
// whether the pod or the job ended first; what is done for it here is for the case that this agent is away.
void Controller::dismiss(const WorkloadPtr &workload) {
    slurm::Job job = workload->seen.value_or(slurm::Job{});
    job.id = workload->job;
    if (job.state_name.empty())
        job.state_name = "ENDED";
    const kube::Event event{"Warning", job.end_word(), "Deleting", job.end_sentence()};
    for (std::uint32_t part = 0; part < workload->parts; ++part)
        table_.set(workload->job + part, 0);
    // Pods of a docked gang that are not bound were made to replace others, after the end: they are the next gang's.
    if (workload->gang() && (workload->docked() >= workload->placed || job.preempting()))
        hand_on(workload);
    for (auto &[uid, member] : workload->members)
        if (member.live())
            dismiss_member(workload, member, event);
    retry_later(workload);
}

void Controller::dismiss_member(const WorkloadPtr &workload, Member &member, const kube::Event &event) {
    if (!member.bound())
        return dismiss_unbound(workload, member, event);
    if (!member.dismissal_told) {
        member.dismissal_told = true;
        log::info("pod {} is dismissed: {}", member.pod.full_name(), event.message);
        const kube::Condition condition{"DisruptionTarget", "True", event.reason, event.message};
        api_->set_condition(member.ref(), condition, [](const kube::Response &) {});
    } else if (!member.pod.deleting) {
        if (member.ending_reason != event.reason)
            api_->post_event(member.ref(), event);
        api_->remove(member.ref(), -1, [](const kube::Response &) {});
    } else {
        force_if_lost(member);
    }
}

// Its kubelet, which would report the end of it, may be gone.
void Controller::force_if_lost(Member &member) {
    const std::string &name = member.pod.node_name;
    const kube::Node *node = nodes_.kube(name);
    const std::string slurm_name(member.pod.annotation(keys::slurm_node));  // the Kubernetes node may be deleted by now
    const std::time_t now = std::time(nullptr);
    if (!nodes_.known() || slurm_name.empty() || !node_is_lost(nodes_.slurm(slurm_name), node != nullptr && node->ready))
        member.lost_since = 0;
    else if (member.lost_since == 0)
        member.lost_since = now;
    if (!may_force(config_.nodes.lost, member.lost_since, member.pod.grace_seconds, now))
        return;
    const std::string message = fmt::format("node {} is down in Slurm and not ready in Kubernetes: the pod is deleted by force", name);
    log::warning("pod {}: {}", member.pod.full_name(), message);
    api_->post_event(member.ref(), {"Warning", "NodeLost", "Deleting", message});
    api_->remove(member.ref(), 0, [](const kube::Response &) {});
}

// The watch may lag: a pod that was bound meanwhile is its node's to end, and one that has ended is nobody's.
void Controller::dismiss_unbound(const WorkloadPtr &workload, Member &member, const kube::Event &event) {
    const kube::PodRef ref = member.ref();
    api_->get_pod(ref, [this, workload, ref, event](const kube::Response &, const std::optional<kube::Pod> &now) {
        const auto still = workload->members.find(ref.uid);
        if (workload->state != State::dismissing || still == workload->members.end() || !now || now->uid != ref.uid)
            return;
        if (!now->node_name.empty() || now->terminal())
            return on_pod(kube::Pod(*now));
        const auto remove = [this, ref](const kube::Response &) { api_->remove(ref, 0, [](const kube::Response &) {}); };
        if (still->second.dismissal_told)
            return remove({});
        still->second.dismissal_told = true;
        log::info("pod {} is dismissed: {}", now->full_name(), event.message);
        api_->post_event(ref, event);
        api_->set_condition(ref, {"DisruptionTarget", "True", event.reason, event.message}, remove);
    });
}

}  // namespace berth
