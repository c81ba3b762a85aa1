// What slurmctld says: one load of all placeholders, however many doorbells rang, compared with the workloads.
#include <algorithm>
#include <csignal>

#include "agent/controller/controller.h"
#include "agent/keys.h"
#include "agent/log.h"

namespace berth {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds look_failed{1'000};
constexpr milliseconds look_spacing{20};
constexpr int look_share = 3;  // between two looks, three times as long as one took: slurmctld has other things to do
// A pod that is removed leaves its job to the node's agent, which completes it once the processes are gone.
constexpr std::chrono::seconds orphan_patience{60};
constexpr std::chrono::minutes ids_are_reused_for{10};  // after slurmctld's restart

bool lives(const slurm::Job &job) { return job.state != slurm::JobState::ended && !job.completing; }

// slurmctld could not deliver its answer to a submission and killed the job again: nobody decided anything about the pod.
bool unanswered(const slurm::Job &job) {
    return job.state == slurm::JobState::ended && job.state_name == "FAILED" && job.exit_status == SIGTERM;
}

// Of several placeholders for one pod: the one it is bound by, else the lowest live id, else the one that ended last.
const slurm::Job *choose(const kube::Pod &pod, const std::vector<const slurm::Job *> &jobs) {
    const slurm::Job *best = nullptr;
    for (const slurm::Job *job : jobs) {
        if (!pod.node_name.empty() && pod.annotation(keys::nonce) == job->ticket.nonce)
            return job;
        if (best == nullptr || (lives(*job) && !lives(*best)) ||
            (lives(*job) == lives(*best) && (lives(*job) ? job->id < best->id : job->id > best->id)))
            best = job;
    }
    return best;
}

}  // namespace

void Controller::look_soon(milliseconds delay) {
    if (looking_) {
        look_again_ = true;
        return;
    }
    const auto now = loop_.now();
    const auto when = std::max(now + delay, earliest_look_);
    if (when >= next_look_)
        return;
    next_look_ = when;
    look_timer_ = loop_.after(std::chrono::ceil<milliseconds>(when - now), [this] { look_now(); });
}

void Controller::look_now() {
    if (looking_) {
        look_again_ = true;
        return;
    }
    looking_ = true;
    look_again_ = false;
    ask_boot_time_ = ask_boot_time_ || boot_time_ == 0;
    next_look_ = std::chrono::steady_clock::time_point::max();
    look_timer_.reset();
    lookers_->submit(
        [cluster = cluster_.name, began = loop_.now(), ask = ask_boot_time_]() -> Result<Look> {
            auto jobs = slurm::load_all(cluster);
            if (!jobs)
                return Error{jobs.error()};
            return Look{began, std::move(*jobs), ask ? slurm::boot_time() : 0};
        },
        [this, began = loop_.now()](Result<Look> answer) {
            looking_ = false;
            const auto now = loop_.now();
            earliest_look_ = now + std::max<std::chrono::steady_clock::duration>(look_spacing, look_share * (now - began));
            looked(std::move(answer));
            if (look_again_)
                look_soon(milliseconds(0));
        });
}

void Controller::looked(Result<Look> answer) {
    if (!answer) {
        log::warning("{}; trying again", answer.error());
        return look_soon(look_failed);
    }
    std::map<std::uint32_t, std::uint32_t> live;
    if (!pods_listed_) {
        // The list of pods calls for a look of its own; but the placeholders are guarded although the API server is away.
        for (const slurm::Job &job : answer->jobs)
            if (lives(job))
                live[job.id] = job.uid;
        return table_.replace(live);
    }
    const bool first = !jobs_listed_;
    jobs_listed_ = true;

    std::map<std::string, std::vector<const slurm::Job *>> by_pod;
    std::vector<const slurm::Job *> orphans;
    for (const slurm::Job &job : answer->jobs) {
        if (lives(job))
            live[job.id] = job.uid;
        if (unanswered(job))
            continue;
        if (workloads_.count(job.ticket.uid) != 0)
            by_pod[job.ticket.uid].push_back(&job);
        else if (lives(job))
            orphans.push_back(&job);
    }
    // Jobs that were answered after the look began are not in it.
    for (const auto &[uid, workload] : workloads_)
        if (workload->job != 0 && workload->job_known > answer->began)
            live[workload->job] = workload->owner;
    table_.replace(live);

    const auto all = workloads_;
    for (const auto &[uid, workload] : all)
        apply(workload, by_pod[uid], *answer);
    end_orphans(orphans);
    if (answer->boot_time != 0) {
        if (boot_time_ != 0 && boot_time_ != answer->boot_time)
            slurmctld_changed_ = loop_.now();
        boot_time_ = answer->boot_time;
        ask_boot_time_ = false;
    }
    if (first)
        log::info("{} pods and {} placeholders are known", workloads_.size(), answer->jobs.size());
    std::erase_if(workloads_, [](const auto &entry) {
        return entry.second->state == State::over && entry.second->pod.terminal();
    });
}

void Controller::apply(const WorkloadPtr &workload, const std::vector<const slurm::Job *> &jobs, const Look &look) {
    const slurm::Job *mine = choose(workload->pod, jobs);
    for (const slurm::Job *job : jobs)
        if (job != mine && lives(*job) && lives(*mine))
            cancel(job->id, job->ticket.uid, "job " + std::to_string(mine->id) + " holds the same pod's place");

    const bool settled = workload->job_known < look.began;
    if (mine != nullptr && (mine->id == workload->job || settled)) {
        workload->job = mine->id;
        workload->seen = *mine;
        switch (mine->state) {
        case slurm::JobState::pending:
            post(workload, Event::job_pending);
            return tell_waiting(workload);
        case slurm::JobState::running:
        case slurm::JobState::suspended:
            post(workload, Event::job_running);
            return replace_if_unnoticed(workload);
        case slurm::JobState::ended:
            if (ended_by_slurm(*workload))
                post(workload, Event::job_ended);
            return;
        }
    }
    const bool expected = workload->state == State::queued || workload->state == State::berthed || workload->state == State::unsure;
    if (mine == nullptr && expected && settled) {
        if (look.boot_time == 0) {
            ask_boot_time_ = true;
            return look_soon(milliseconds(0));
        }
        // The record is gone. While slurmctld is the one we knew, the job ended long ago; a new one has lost it.
        const bool same_slurmctld = boot_time_ != 0 && boot_time_ == look.boot_time && workload->state != State::unsure;
        log::warning("job {} of pod {} is unknown to slurmctld: {}", workload->job, workload->pod.full_name(),
                     same_slurmctld ? "it has ended" : "it is submitted again");
        workload->seen.reset();
        return post(workload, same_slurmctld ? Event::job_ended : Event::job_lost);
    }
    // A pod that waited for the first look.
    if (mine == nullptr && workload->state == State::idle && workload->pod.node_name.empty() && !workload->pod.gated)
        post(workload, workload->pod.deleting ? Event::pod_withdrawn : Event::pod_ready);
}

// A slurmctld that crashed gives the ids of the jobs it lost to the next ones, and a slurmd that knows the id may run no prolog:
// then nobody on the node hears of the job. Once for a pod such a job is given up for one with a fresh id. An agent that is
// merely away looks the same, and a pod that is bound in that very moment is lost: so only after slurmctld was seen to restart, only
// after a patience that counts from when the API could last not be reached, and only if the API itself says that nothing is bound.
void Controller::replace_if_unnoticed(const WorkloadPtr &workload) {
    if (workload->state != State::berthed || workload->replaced || !slurmctld_changed_)
        return;
    const auto now = loop_.now();
    if (workload->unbound_since == std::chrono::steady_clock::time_point{} || !http_->reachable())
        workload->unbound_since = now;
    const bool may_be_reused = workload->seen->start_time >= boot_time_ && now - *slurmctld_changed_ < ids_are_reused_for;
    if (!may_be_reused || now - workload->unbound_since < 2 * config_.controller.reconcile)
        return;
    workload->replaced = true;
    api_->get_pod(workload->ref(), [this, workload](const kube::Response &, const std::optional<kube::Pod> &pod) {
        if (workload->state != State::berthed)
            return;
        if (!pod || pod->uid != workload->pod.uid || !pod->node_name.empty()) {
            workload->replaced = false;
            workload->unbound_since = {};
            return;
        }
        log::warning("job {} of pod {} runs, but nothing is bound: its id may be a lost job's; it is replaced", workload->job,
                     workload->pod.full_name());
        post(workload, Event::job_unnoticed);
    });
}

// A job that its own pod ended is no news to the pod.
bool Controller::ended_by_slurm(const Workload &workload) const {
    if (workload.pod.terminal())
        return false;
    const std::string &state = workload.seen->state_name;
    return workload.pod.node_name.empty() || (state != "COMPLETED" && state != "FAILED");
}

void Controller::end_orphans(const std::vector<const slurm::Job *> &orphans) {
    // Without the API nobody can end them in a better way: their time has not begun.
    if (!http_->reachable())
        return orphans_.clear();
    const auto now = loop_.now();
    std::map<std::uint32_t, std::chrono::steady_clock::time_point> still;
    for (const slurm::Job *job : orphans) {
        const auto since = orphans_.count(job->id) != 0 ? orphans_[job->id] : now;
        still[job->id] = since;
        if (job->state == slurm::JobState::pending || now - since >= orphan_patience)
            cancel(job->id, job->ticket.uid, "its pod " + job->ticket.ns + "/" + job->ticket.name + " is no more");
    }
    orphans_ = std::move(still);
}

void Controller::reconcile() {
    ask_boot_time_ = true;
    look_soon(milliseconds(0));
    reconcile_timer_ = loop_.after(config_.controller.reconcile, [this] { reconcile(); });
}

}  // namespace berth
