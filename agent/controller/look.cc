// What slurmctld says: one load of all placeholders, however many doorbells rang, compared with the workloads.
#include <fmt/format.h>

#include <algorithm>

#include "agent/controller/controller.h"
#include "agent/keys.h"
#include "agent/log.h"
#include "agent/metrics.h"

namespace berth {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds look_failed{1'000};
constexpr milliseconds look_spacing{20};
constexpr milliseconds node_spacing{5'000};
constexpr milliseconds native_spacing{2'000};  // the jobs of others are only shown
constexpr int look_share = 3;  // between two looks, three times as long as one took: slurmctld has other things to do
// A pod that is over leaves its job to the node's agent, which ends it once the processes are gone. So many reconciles it has for that.
constexpr int orphan_patience = 2;
constexpr std::chrono::minutes ids_are_reused_for{10};  // after slurmctld's restart

// Jobs of one nonce are one submission.
std::map<std::string, std::vector<Placing>> placings_by_key(const std::vector<slurm::Job> &jobs) {
    std::map<std::pair<std::string, std::string>, Placing> by_nonce;
    for (const slurm::Job &job : jobs)
        if (!no_verdict(job))
            by_nonce[{job.ticket.uid, job.ticket.nonce}].parts.push_back(&job);
    std::map<std::string, std::vector<Placing>> by_key;
    for (auto &[name, placing] : by_nonce) {
        std::sort(placing.parts.begin(), placing.parts.end(),
                  [](const slurm::Job *a, const slurm::Job *b) { return a->ticket.part < b->ticket.part; });
        by_key[name.first].push_back(std::move(placing));
    }
    return by_key;
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
    // The table of nodes is large, and changes whenever a job starts or ends.
    const bool ask_nodes = ask_boot_time_ || want_nodes_ || loop_.now() - nodes_asked_ >= node_spacing;
    if (ask_nodes) {
        want_nodes_ = false;
        nodes_asked_ = loop_.now();
    }
    const bool show_native = config_.web.listen != "off" && loop_.now() - shown_.natives >= native_spacing;
    lookers_->submit(
        [cluster = cluster_.name, began = loop_.now(), ask = ask_boot_time_, ask_nodes, since = nodes_as_of_,
         term = mandate_.term, show_native]() -> Result<Look> {
            Look look{began, ask_nodes, {}, 0, 0, 0, {}, {}, {}};
            if (show_native)
                look.native.emplace();
            // The slow question is asked at the reconcile alone. Once slurmctld knows our term, what a leader before us still sends is refused:
            // whatever it submitted is among the jobs that are loaded after this. A slurmctld that was restarted is told again.
            if (ask) {
                std::tie(look.boot_time, look.max_job_count) = slurm::boot_time();
                look.unheard = slurm::announce_term(cluster, term);
            }
            if (ask_nodes) {
                auto nodes = slurm::load_nodes(since);
                if (!nodes)
                    return Error{nodes.error()};
                look.nodes = std::move(*nodes);
            }
            auto jobs = slurm::load_all(cluster, look.records, show_native ? &*look.native : nullptr);
            if (!jobs)
                return Error{jobs.error()};
            look.jobs = std::move(*jobs);
            return look;
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
        want_nodes_ = true;
        return look_soon(look_failed);
    }
    // Not worth a standstill: our own submissions carry the term, too.
    if (answer->unheard && *answer->unheard != unheard_) {
        unheard_ = *answer->unheard;
        if (!unheard_.empty())
            log::warning("job_submit_berth.so has not heard that this controller leads: {}; what an earlier leader may still send is taken until "
                         "it does. Name berth first in JobSubmitPlugins",
                         unheard_);
    }
    note_look(*answer);
    if (answer->nodes) {
        nodes_as_of_ = answer->nodes->as_of;
        nodes_.set_slurm(std::move(answer->nodes->nodes));
    }
    if (answer->nodes_asked)
        mirror_->slurm_looked(answer->began, answer->nodes.has_value());
    services_.clear();
    std::map<std::uint32_t, std::uint32_t> live;
    for (const slurm::Job &job : answer->jobs)
        if (job.lives())
            live[job.id] = job.uid;
    // Until everybody has arrived nothing is compared, but the placeholders are guarded although the API server is away.
    if (!jobs_listed_ && (!pods_listed_ || !owners_listed_ || !nodes_.listed() || !arriving_.empty()))
        return table_.replace(live);
    const bool first = !jobs_listed_;
    jobs_listed_ = true;

    std::vector<WorkloadPtr> all(closed_.begin(), closed_.end());
    for (const auto &[key, workload] : open_)
        all.push_back(workload);
    // Who came first is submitted first, and the older job is the one that Slurm prefers among equals.
    if (first)
        std::sort(all.begin(), all.end(), [](const WorkloadPtr &a, const WorkloadPtr &b) { return a->who.created < b->who.created; });
    // Jobs that were answered after the look began are not in it.
    for (const WorkloadPtr &workload : all)
        for (std::uint32_t part = 0; workload->job != 0 && workload->job_known > answer->began && part < workload->parts; ++part)
            live[workload->job + part] = workload->tenant;
    table_.replace(live);
    count_places(*answer, live, all);

    std::unordered_set<std::string_view> known;
    for (const WorkloadPtr &workload : all)
        known.insert(workload->who.key);
    const auto placings = placings_by_key(answer->jobs);
    job_names_.clear();
    unclaimed_.clear();
    std::vector<Placing> orphans;
    for (const auto &[key, list] : placings)
        for (const Placing &placing : list) {
            const Ticket &ticket = placing.first().ticket;
            job_names_.emplace(ticket.ns + "/" + ticket.kind + "/" + ticket.name, placing.first().id);
            // A gang's late member has a placeholder of its own.
            if (const auto pod = by_pod_.find(key); ticket.single() && pod != by_pod_.end() && pod->second->gang()) {
                const WorkloadPtr gang = pod->second;
                all.push_back(split_off(gang, key));  // apply() finds its job
                known.insert(key);
            }
            if (known.count(key) == 0 && placing.lives()) {
                orphans.push_back(placing);
                unclaimed_.insert(key);
            }
        }
    const std::vector<Placing> none;  // most of thousands that wait in the controller have none
    for (const WorkloadPtr &workload : all) {
        const auto found = placings.find(workload->who.key);
        apply(workload, found != placings.end() ? found->second : none, *answer);
    }
    end_orphans(orphans);
    if (answer->boot_time != 0) {
        if (boot_time_ != 0 && boot_time_ != answer->boot_time) {
            slurmctld_changed_ = loop_.now();
            // What befell a workload's job with the last restart can befall its next one with this.
            for (const WorkloadPtr &workload : all)
                if (std::exchange(workload->replaced, false))
                    workload->unbound_since = {};
        }
        boot_time_ = answer->boot_time;
        ask_boot_time_ = false;
    }
    if (first)
        log::info("{} pods in {} workloads and {} placeholders are known", by_pod_.size(), all.size(), answer->jobs.size());
    // Pods that have ended may stay in the API for days.
    for (auto at = closed_.begin(); at != closed_.end();) {
        const WorkloadPtr workload = *at++;
        if (workload->state != State::over || workload->count(&Member::live) != 0)
            continue;
        for (const auto &[uid, member] : workload->members) {
            by_pod_.erase(uid);
            owners_->forget(member.pod);
            ended_[uid] = workload->group;
        }
        closed_.erase(workload);
    }
}

void Controller::apply(const WorkloadPtr &workload, const std::vector<Placing> &placings, const Look &look) {
    Workload &w = *workload;
    const Placing *mine = choose(w, placings);
    for (const Placing &other : placings)
        if (mine != nullptr && &other != mine && other.lives() && mine->lives() && !mine->soonest().preempting() &&
            !other.soonest().preempting())
            cancel(other.first().id, w.who.key, true, fmt::format("job {} holds the place of {}", mine->first().id, w.title()));

    const bool settled = w.job_known < look.began;
    if (mine != nullptr)
        w.jobless_since = {};
    if (mine != nullptr && (mine->first().id == w.job || settled)) {
        w.job = mine->first().id;
        w.parts = static_cast<std::uint32_t>(mine->parts.size());
        w.nonce = mine->first().ticket.nonce;
        w.placed = mine->first().ticket.gang;
        w.seen = mine->first();
        if (mine->pending() && mine->lives()) {
            post(workload, Event::job_pending);
            watch_deadline(workload);
            tell_waiting(workload);
        } else if (mine->running()) {
            w.suspended = std::any_of(mine->parts.begin(), mine->parts.end(),
                                      [](const slurm::Job *part) { return part->state == slurm::JobState::suspended; });
            post(workload, Event::job_running);
            tell_suspension(workload);
            replace_if_unnoticed(workload);
            watch_end(workload, mine->soonest());
        } else {
            for (const slurm::Job *part : mine->parts)
                if (part->state == slurm::JobState::ended && w.seen->state != slurm::JobState::ended)
                    w.seen = *part;  // the part whose end took the others along says why
            if (w.seen->state == slurm::JobState::ended && ended_by_slurm(w) && w.state != State::dismissing && unheard_of(*w.seen))
                metrics::healed(metrics::Healed::missed_end);
            if (w.seen->state == slurm::JobState::ended && ended_by_slurm(w))
                post(workload, Event::job_ended);
        }
        if (w.gang() && mine->lives())
            settle(workload);
        return;
    }
    const bool expected = w.state == State::queued || w.state == State::berthed || w.state == State::unsure;
    if (mine == nullptr && expected && settled) {
        // It was there for a moment, before slurmctld found that nobody took its answer and killed it: nobody decided anything (no_verdict).
        const bool killed_unheard = std::any_of(look.jobs.begin(), look.jobs.end(), [&](const slurm::Job &job) {
            return job.id == w.job && job.ticket.nonce == w.nonce;
        });
        if (killed_unheard) {
            log::info("job {} of {} was killed because its answer was lost: it is submitted again", w.job, w.title());
            w.seen.reset();
            return post(workload, Event::job_lost);
        }
        if (look.boot_time == 0) {
            ask_boot_time_ = true;
            return look_soon(milliseconds(0));
        }
        // The record is gone. While slurmctld is the one we knew, the job ended long ago; a new one has lost it.
        const bool same_slurmctld = boot_time_ != 0 && boot_time_ == look.boot_time && w.state != State::unsure;
        log::warning("job {} of {} is unknown to slurmctld: {}", w.job, w.title(), same_slurmctld ? "it has ended" : "it is submitted again");
        w.seen.reset();
        metrics::healed(metrics::Healed::unknown_job);
        return post(workload, same_slurmctld ? Event::job_ended : Event::job_lost);
    }
    if (mine == nullptr && w.state == State::docked && settled)
        return end_jobless(workload);
    // Pods that waited for the first look.
    if (mine == nullptr && w.state == State::idle && !ended_unseen(workload, look))
        settle(workload);
    if (w.state == State::waiting && loop_.now() - w.waiting_since >= config_.controller.condition_delay)
        tell_turn(workload);
}

// Bound pods whose job slurmctld does not know: it ended while no controller looked and its record was dropped, or it was lost. Their node's
// agent ends them; but it may be away for good, with its node. The patience is for the watch, which may not have told yet that they ended.
// Once they are gone, pods of the gang that waited for a slot of theirs begin anew.
void Controller::end_jobless(const WorkloadPtr &workload) {
    const auto now = loop_.now();
    const std::uint32_t job = workload->bound_by();
    const bool waits_for_nothing = workload->gang() && workload->count(&Member::docked) == 0 && workload->count(&Member::ready) > 0;
    if ((job == 0 && !waits_for_nothing) || !http_->reachable() || workload->jobless_since == std::chrono::steady_clock::time_point{})
        workload->jobless_since = now;
    if (now - workload->jobless_since < orphan_patience * config_.controller.reconcile)
        return;
    workload->jobless_since = {};
    workload->seen.reset();
    metrics::healed(metrics::Healed::jobless_pods);
    workload->job = job;
    if (job == 0) {
        log::warning("{} has no job any more, and pods that wait for it: they get another", workload->title());
        post(workload, Event::gang_over);
        return hand_on(workload);
    }
    log::warning("job {} of {} is unknown to slurmctld, and its pods are still bound: they are dismissed", job, workload->title());
    post(workload, Event::job_ended);
}

// Pods that an earlier controller told to wait for a job, which slurmctld has forgotten since, although it has run all the time: the job has
// ended. A slurmctld that was restarted meanwhile may have lost it, and a gang that lacks pods may have been taken back by the earlier
// controller itself: those are submitted again.
bool Controller::ended_unseen(const WorkloadPtr &workload, const Look &look) {
    const std::uint32_t told = workload->told_to_wait_for();
    const std::time_t booted = look.boot_time != 0 ? look.boot_time : boot_time_;
    const bool known = std::any_of(look.jobs.begin(), look.jobs.end(), [&](const slurm::Job &job) { return job.id == told; });
    if (told == 0 || known || booted == 0 || workload->oldest() < booted || !workload->nonce.empty() ||
        workload->count(&Member::ready) < workload->who.size)
        return false;
    log::warning("job {} of {} ended while no controller looked, and slurmctld has forgotten it", told, workload->title());
    metrics::healed(metrics::Healed::unknown_job);
    workload->job = told;
    workload->placed = workload->who.size;  // none of them came later than the job
    post(workload, Event::job_ended);
    return true;
}

// A slurmctld that crashed gives the ids of the jobs it lost to the next ones, and a slurmd that knows the id may run no prolog; and
// one that reads its configuration anew may lose its call for the prolog. Then nobody on the node hears of the job. Once for a workload
// and a life of slurmctld such a job is given up for another. An agent that is merely away looks the same, and a pod that is bound in that very moment is lost:
// so only after a patience that counts from when the API could last not be reached, longer where slurmctld was not seen to restart, and
// only if the API itself says that nothing is bound. A pod that waits for its volumes is left alone: they are made for this node.
void Controller::replace_if_unnoticed(const WorkloadPtr &workload) {
    if (workload->state != State::berthed || workload->replaced || workload->members.empty() || workload->docked() != 0 ||
        !workload->only().pod.claims.empty())
        return;
    const auto now = loop_.now();
    // Nothing is bound for a job that is suspended or about to be ended.
    if (workload->unbound_since == std::chrono::steady_clock::time_point{} || !http_->reachable() || workload->suspended ||
        workload->seen->preempting())
        workload->unbound_since = now;
    const bool may_be_reused =
        slurmctld_changed_ && workload->seen->start_time >= boot_time_ && now - *slurmctld_changed_ < ids_are_reused_for;
    if (now - workload->unbound_since < (may_be_reused ? 2 : 8) * config_.controller.reconcile)
        return;
    workload->replaced = true;
    const kube::PodRef ref = workload->only().ref();
    api_->get_pod(ref, [this, workload, ref](const kube::Response &, const std::optional<kube::Pod> &pod) {
        if (workload->state != State::berthed)
            return;
        if (!pod || pod->uid != ref.uid || !pod->node_name.empty()) {
            workload->replaced = false;
            workload->unbound_since = {};
            return;
        }
        log::warning("job {} of {} runs, but nothing is bound: its node may not have heard of it, or does not take the pod; it is replaced", workload->job,
                     workload->title());
        metrics::healed(metrics::Healed::unnoticed_job);
        post(workload, Event::job_unnoticed);
    });
}

// A job that its own pods ended is no news to them.
bool Controller::ended_by_slurm(const Workload &workload) const {
    if (workload.count(&Member::live) == 0)
        return false;
    const std::string &state = workload.seen->state_name;
    return workload.docked() == 0 || (state != "COMPLETED" && state != "FAILED");
}

void Controller::end_orphans(const std::vector<Placing> &orphans) {
    // Without the API nobody can end them in a better way: their time has not begun. Nor has it while a pod's owners are being read.
    if (!http_->reachable() || !arriving_.empty())
        return orphans_.clear();
    const auto now = loop_.now();
    std::map<std::uint32_t, std::chrono::steady_clock::time_point> still;
    for (const Placing &orphan : orphans) {
        const slurm::Job &job = orphan.first();
        const auto since = orphans_.count(job.id) != 0 ? orphans_[job.id] : now;
        still[job.id] = since;
        if ((orphan.pending() || now - since >= orphan_patience * config_.controller.reconcile) && !orphan.soonest().preempting()) {
            if (ending_.count(job.id) == 0)
                metrics::healed(metrics::Healed::orphan_job);
            end_orphan(job);
        }
    }
    orphans_ = std::move(still);
}

// A pod that has ended may still be in the API, and its exit code with it: the agent of its node is away, or has lost its records.
void Controller::end_orphan(const slurm::Job &job) {
    const Ticket &ticket = job.ticket;
    const std::string why = fmt::format("its {} {}/{} is no more", ticket.kind, ticket.ns, ticket.name);
    if (job.state == slurm::JobState::pending || !ticket.single())
        return cancel(job.id, ticket.uid, false, why);
    api_->get_pod({ticket.ns, ticket.name, ticket.uid},
                  [this, id = job.id, ticket, why](const kube::Response &answer, const std::optional<kube::Pod> &pod) {
                      if (!pod && answer.status != 404)
                          return;  // the next look asks again
                      if (!pod || pod->uid != ticket.uid || !pod->terminal())
                          return cancel(id, ticket.uid, false, why);
                      const std::uint32_t status = kube::wait_status(*pod);
                      end_job(id, [id, uid = ticket.uid, status] { return slurm::complete(id, uid, status); },
                              fmt::format("is completed: {}, and its node's agent is silent", why));
                  });
}

void Controller::reconcile() {
    ask_boot_time_ = true;
    look_soon(milliseconds(0));
    reconcile_timer_ = loop_.after(config_.controller.reconcile, [this] { reconcile(); });
}

}  // namespace berth
