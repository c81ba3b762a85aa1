// How long a running job still has: its pods are warned before the time limit, and leave in good order before a preemption's grace is
// over. What is said here was just read from slurmctld: the timers only ask for a look.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "agent/controller/controller.h"
#include "agent/keys.h"
#include "agent/lifecycle/ending.h"
#include "agent/log.h"
#include "agent/slurm/reason.h"
#include "agent/translate/annotations.h"

namespace berth {

namespace {

constexpr const char *time_limit_reason = "SlurmTimeLimit", *preempted_reason = "SlurmPreempted";

bool stays(const Member &member) { return member.live() && member.bound() && !member.pod.deleting; }

}  // namespace

std::chrono::seconds Controller::warn_of(const Workload &workload) const {
    for (const kube::KeyValues &layer : workload.who.layers)
        if (const std::string_view said = kube::value_of(layer, keys::warn); !said.empty())
            if (const auto warn = parse_warn(said))
                return *warn;
    return config_.controller.warn;
}

// One timer per workload, moved when the end moves.
void Controller::look_at(const WorkloadPtr &workload, std::time_t when) {
    if (workload->ending_at == when)
        return;
    workload->ending_at = when;
    workload->ending.reset();
    if (when == 0)
        return;
    const std::chrono::seconds left(std::max<std::time_t>(0, when - std::time(nullptr)));
    workload->ending = loop_.after(left, [this, weak = std::weak_ptr<Workload>(workload)] {
        const WorkloadPtr still = weak.lock();
        if (!still)
            return;
        const SourcePtr fired = std::move(still->ending);
        still->ending_at = 0;
        look_soon(std::chrono::milliseconds(0));
    });
}

void Controller::watch_end(const WorkloadPtr &workload, const slurm::Job &job) {
    Workload &w = *workload;
    if (w.state != State::berthed && w.state != State::docked)
        return look_at(workload, 0);
    if (job.preempting())
        return leave_early(workload, job);
    if (job.state == slurm::JobState::suspended)
        return look_at(workload, 0);  // its clock stands still
    if (w.first_limit == 0)
        w.first_limit = job.time_limit_minutes;
    const std::time_t now = std::time(nullptr);
    const std::time_t due = job.time_limit_minutes == 0 ? 0 : warn_at(job.start_time, job.end_time, warn_of(w));
    if (due == 0 || now < due) {
        w.unrenewable = false;
        tell_extended(workload, job);
        return look_at(workload, due);
    }
    look_at(workload, 0);
    if (w.unrenewable && w.renew_again != 0 && now >= w.renew_again)
        w.unrenewable = false;
    // Slurm gives no more time to a job that it once wanted to preempt.
    if (job.preempt_time != 0)
        w.unrenewable = true;
    if (w.service() && config_.services.renew && !w.unrenewable)
        return renew(workload, job);
    tell_ending(workload, time_limit_reason,
                fmt::format("Slurm job {} reaches its time limit at {}; an operator gives it more with: "
                            "scontrol update JobId={} TimeLimit=+60",
                            job.id, slurm::utc_text(job.end_time), job.id));
    if (w.service())
        replace_in_turn(workload);
}

// One write at a time for a pod. What could not be written is written by a later look.
void Controller::write_ending(const WorkloadPtr &workload, Member &member, const std::string &reason, const std::string &message) {
    const bool ends = !reason.empty();
    const kube::Condition condition{keys::ending, ends ? "True" : "False", ends ? reason : time_limit_reason, message,
                                    ends == member.ending_reason.empty()};
    member.ending_open = true;
    auto before = std::make_pair(std::exchange(member.ending_reason, reason), std::exchange(member.ending_message, message));
    api_->set_condition(member.ref(), condition, [workload, uid = member.pod.uid, before = std::move(before)](const kube::Response &response) {
        const auto still = workload->members.find(uid);
        if (still == workload->members.end())
            return;
        still->second.ending_open = false;
        if (response.ok() || response.status == 404 || response.status == 409)
            return;
        log::warning("writing a condition: {}", response.error);
        std::tie(still->second.ending_reason, still->second.ending_message) = before;
    });
}

void Controller::tell_ending(const WorkloadPtr &workload, const std::string &reason, const std::string &message) {
    for (auto &[uid, member] : workload->members) {
        if (!stays(member) || member.ending_open || (member.ending_reason == reason && member.ending_message == message))
            continue;
        const bool news = member.ending_reason != reason;
        write_ending(workload, member, reason, message);
        if (!news)
            continue;
        log::info("pod {} is warned: {}", member.pod.full_name(), message);
        api_->post_event(member.ref(), {"Warning", reason, "Warning", message});
    }
}

void Controller::tell_extended(const WorkloadPtr &workload, const slurm::Job &job) {
    for (auto &[uid, member] : workload->members) {
        if (!stays(member) || member.ending_open || member.ending_reason.empty())
            continue;
        write_ending(workload, member, "",
                     job.time_limit_minutes == 0 ? fmt::format("Slurm job {} has no time limit any more", job.id)
                                                 : fmt::format("Slurm job {} runs on until {}", job.id, slurm::utc_text(job.end_time)));
    }
}

// Slurm lets a preempted job run on for its GraceTime and then ends it. Its pods are told, and deleted, all at once, so early that they
// are gone by then with the grace that they ask for themselves. The job's end is left to Slurm.
void Controller::leave_early(const WorkloadPtr &workload, const slurm::Job &job) {
    Workload &w = *workload;
    if (w.docked() == 0)
        return;  // nothing runs: the end says it all
    std::int64_t grace = 0;
    bool leaving = true;  // all of them, by an earlier controller
    for (const auto &[uid, member] : w.members)
        if (stays(member)) {
            grace = std::max(grace, member.pod.grace_seconds);
            leaving = false;
        }
    const std::time_t stop = leaving ? 0 : stop_at(job.end_time, std::chrono::seconds(grace));
    for (auto &[uid, member] : w.members)
        if (stays(member) && !member.dismissal_told) {
            member.dismissal_told = true;
            const kube::Condition condition{"DisruptionTarget", "True", preempted_reason, job.end_sentence()};
            api_->set_condition(member.ref(), condition, [](const kube::Response &) {});
        }
    tell_ending(workload, preempted_reason, job.end_sentence());
    if (std::time(nullptr) < stop)
        return look_at(workload, stop);
    look_at(workload, 0);
    w.seen = job;
    post(workload, Event::job_ended);
}

}  // namespace berth
