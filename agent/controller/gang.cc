// Who is there, who is missing, who is too many: what the members of a workload mean for it.
#include <fmt/format.h>

#include <algorithm>

#include "agent/controller/controller.h"
#include "agent/keys.h"
#include "agent/log.h"

namespace berth {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
// An owner replaces a pod that failed or was deleted within seconds; a gang that lacks one keeps its place for so long.
constexpr seconds replacement_patience{30};
// A gang that has a place but not all its pods holds nodes that do nothing.
constexpr seconds member_patience{60};
// A late member that has room in the gang's own allocation is bound by that node's agent.
constexpr seconds join_patience{15};
constexpr milliseconds first_backoff{500}, most_backoff{10'000};

// The pod's part of what a single pod's life turns on.
Event event_of(const Member &member) {
    if (member.bound())
        return member.pod.terminal() ? Event::pod_ended : Event::pods_bound;
    return member.live() ? Event::pods_ready : Event::pod_withdrawn;
}

}  // namespace

void Controller::settle(const WorkloadPtr &workload) {
    if (workload->gang())
        return settle_gang(workload);
    if (workload->members.empty())
        return;
    const Member &member = workload->only();
    if (member.pod.gated && !member.pod.deleting)
        return;  // not ours yet: gates are there from the start, and the pod comes again when they are lifted
    const Event event = event_of(member);
    // Until slurmctld's jobs are known, a waiting pod may have its placeholder already.
    if (event == Event::pods_ready && (!jobs_listed_ || workload->who.suspended))
        return;
    // A pod that is being dismissed goes when it has ended or is removed, whatever else happens to it.
    if (workload->state == State::dismissing && !member.pod.terminal())
        return;
    post(workload, event);
}

void Controller::settle_gang(const WorkloadPtr &workload) {
    Workload &w = *workload;
    if (!jobs_listed_ || w.state == State::over)
        return;
    const std::size_t live = w.count(&Member::live);
    const bool waits = w.state == State::idle || w.state == State::refused || w.state == State::waiting;
    const std::size_t size = waits || w.placed == 0 ? w.who.size : w.placed;
    if (live == 0) {
        const bool succeeded = w.ends.size() >= size &&
                               std::all_of(w.ends.begin(), w.ends.end(), [](const auto &end) { return end.second == 0; });
        if (waits || w.state == State::dismissing || w.who.finished || w.who.suspended || succeeded)
            return post(workload, Event::gang_over);
        return be_patient(workload, Event::gang_over, replacement_patience);
    }
    if (w.state == State::dismissing)
        return;
    if (w.docked() >= size && w.state != State::docked)
        post(workload, Event::pods_bound);
    const bool lacks_pods = live < size && w.docked() == 0;
    if (w.state == State::docked || waits || !lacks_pods)
        be_patient(workload, std::nullopt);
    if (w.state == State::docked)
        return settle_late_members(workload);
    if (waits) {
        if (w.who.suspended)
            return;
        if (unclaimed_.count(w.who.key) != 0)
            return look_now();  // its placeholder is there already
        if (w.count(&Member::ready) >= w.who.size)
            return post(workload, Event::pods_ready);
        post(workload, Event::gang_short);
        return tell_gathering(workload);
    }
    // Pods that came in the place of others may be larger than the place: it is asked for anew.
    if (w.docked() == 0 && w.seen && w.parts == 1 && std::any_of(w.members.begin(), w.members.end(), [&](const auto &entry) {
            return entry.second.ready() && outgrows(entry.second.pod, place_of(w.seen->ticket), config_);
        })) {
        post(workload, Event::gang_short);
        return settle_gang(workload);
    }
    if (lacks_pods)
        be_patient(workload, Event::gang_short, member_patience);
}

// Pods beyond what the gang must have. The gang's nodes bind them where a slot is free; the others get a placeholder of their own.
void Controller::settle_late_members(const WorkloadPtr &workload) {
    Workload &w = *workload;
    const std::vector<const kube::Pod *> ready = w.ranked(&Member::ready);
    if (ready.empty())
        return;
    // The slot of a pod that is on its way out is free for the one that replaces it, once its node has proven it gone.
    const auto docked_live = static_cast<std::size_t>(std::count_if(w.members.begin(), w.members.end(), [](const auto &entry) {
        return entry.second.docked() && !entry.second.pod.deleting;
    }));
    // How much room Slurm really gave is known from the first look at the running job on.
    if (!w.seen || w.seen->state == slurm::JobState::pending)
        return look_soon(milliseconds(0));
    const std::size_t placed = w.placed != 0 ? w.placed : w.who.size;
    std::size_t slots = placed;
    // Whole nodes, and cores that are not halved, leave room for more pods of the same shape.
    if (w.parts == 1 && w.seen->ticket.cpus > 0 && w.seen->node_count > 0)
        slots = std::max<std::size_t>(slots, w.seen->cpus / w.seen->node_count / w.seen->ticket.cpus * w.seen->node_count);
    const std::size_t free = slots > docked_live ? slots - docked_live : 0;
    std::vector<std::string> extra;
    std::size_t seated = 0;
    for (const kube::Pod *pod : ready) {
        // The gang's place is its tenant's: a pod of another one only carries the same label.
        const bool stranger = !w.seen->ticket.tenant.empty() && tenant_name(config_, *pod) != w.seen->ticket.tenant;
        const bool larger = w.parts == 1 && outgrows(*pod, place_of(w.seen->ticket), config_);
        if (stranger || larger || seated == free)
            extra.push_back(pod->uid);
        else
            ++seated;
    }
    for (const std::string &uid : extra)
        if (const WorkloadPtr single = split_off(workload, uid))
            settle(single);
    // The sum above may promise room that no node has; and a slot may be of another shape. A pod in whose slot the old one is still dying
    // waits as long as that may take.
    const std::chrono::seconds patience = slots > placed ? join_patience : config_.hold.limit + config_.hold.kill_wait + join_patience;
    if (seated > 0 && !w.patience)
        w.patience = loop_.after(patience, [this, weak = std::weak_ptr<Workload>(workload)] {
            const WorkloadPtr still = weak.lock();
            if (!still)
                return;
            still->patience.reset();
            for (const kube::Pod *pod : still->ranked(&Member::ready))
                if (const WorkloadPtr single = split_off(still, std::string(pod->uid)))
                    settle(single);
        });
}

WorkloadPtr Controller::split_off(const WorkloadPtr &gang, const std::string &pod_uid) {
    auto member = gang->members.extract(pod_uid);
    if (member.empty())
        return nullptr;
    auto single = std::make_shared<Workload>();
    single->who = gang->who;
    single->group = gang->group;
    single->late = true;
    single->who.key = single->who.owner_uid = pod_uid;
    single->who.kind = "Pod";
    single->who.name = member.mapped().pod.name;
    single->who.gang = single->who.finished = false;
    single->who.size = 1;
    single->who.schedule_timeout_seconds = 0;
    single->who.min_resources.reset();
    single->who.selector.clear();
    log::info("pod {} gets a place of its own besides {}", member.mapped().pod.full_name(), gang->title());
    single->members.insert(std::move(member));
    by_pod_[pod_uid] = single;
    open_[pod_uid] = single;
    return single;
}

// Posts the event unless the workload's state of affairs changes before the patience is over; nothing: it has changed.
void Controller::be_patient(const WorkloadPtr &workload, std::optional<Event> awaited, milliseconds patience) {
    if (workload->patient_for == awaited)
        return;
    workload->patient_for = awaited;
    workload->patience.reset();
    if (!awaited)
        return;
    workload->patience = loop_.after(patience, [this, weak = std::weak_ptr<Workload>(workload), event = *awaited] {
        const WorkloadPtr still = weak.lock();
        if (!still)
            return;
        still->patience.reset();
        still->patient_for.reset();
        log::info("{} has {} of {} pods: {}", still->title(), still->count(&Member::live), still->who.size, name(event));
        post(still, event);
        forget_if_empty(still);
    });
}

// scheduleTimeoutSeconds counts from the submission; after a restart of the controller from when the group says that it began.
void Controller::watch_deadline(const WorkloadPtr &workload) {
    if (workload->who.schedule_timeout_seconds <= 0 || workload->deadline)
        return;
    const std::time_t now = std::time(nullptr);
    if (workload->started_scheduling == 0)
        workload->started_scheduling = groups_->started(workload->group);
    if (workload->started_scheduling == 0)
        workload->started_scheduling = now;
    const seconds left(std::max<std::int64_t>(0, workload->started_scheduling + workload->who.schedule_timeout_seconds - now));
    workload->deadline = loop_.after(left, [this, weak = std::weak_ptr<Workload>(workload)] {
        if (const WorkloadPtr still = weak.lock()) {
            still->deadline.reset();
            post(still, Event::gang_late);
        }
    });
}

// A gang's job ends with the exit code of its pods, or is cancelled when none ended by itself. Tried until slurmctld has taken it.
void Controller::complete(const WorkloadPtr &workload) {
    const std::uint32_t job = workload->job;
    if (job == 0)
        return;
    const std::optional<std::uint32_t> status = workload->exit_status();
    submitters_->submit([job, key = workload->who.key, status] { return status ? slurm::complete(job, key, *status) : slurm::withdraw(job, key); },
                        [this, workload, job, status](Result<void> done) {
                            if (done) {
                                log::info("job {} of {} {}", job, workload->title(),
                                          status ? fmt::format("completed with {}:{}", *status >> 8, *status & 0x7f) : "cancelled");
                                for (std::uint32_t part = 0; part < workload->parts; ++part)
                                    table_.set(job + part, 0);
                                return;
                            }
                            log::warning("{}; trying again", done.error());
                            workload->backoff = std::clamp(workload->backoff * 2, first_backoff, most_backoff);
                            completing_[job] = loop_.after(workload->backoff, [this, workload, job] {
                                const auto fired = completing_.extract(job);
                                complete(workload);
                            });
                        });
}

}  // namespace berth
