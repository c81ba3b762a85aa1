// The way out: a pod is gone when the API says that it is absent or terminal, no Binding of ours is under way, and its
// cgroup has no process. Only then does held/ go, and only then may Slurm give the room to somebody else.
#include <fmt/format.h>

#include <algorithm>

#include "agent/log.h"
#include "agent/metrics.h"
#include "agent/node/node_agent.h"

namespace berth::node {

namespace {

using std::chrono::steady_clock;
constexpr std::chrono::milliseconds look_often{50}, look_seldom{250};
constexpr std::chrono::seconds often_for{3};      // most pods are gone by then
constexpr std::chrono::milliseconds first_retry{250}, most_retry{5'000};  // of a deletion that the API did not take
constexpr std::chrono::minutes longest_retry{2};  // of one for which nothing waits
// Besides the watch, which does not know a pod that was not bound after all, and may lag.
constexpr std::chrono::seconds ask_again{1}, ask_watched_again{10};

}  // namespace

PodCgroup NodeAgent::cgroup_of(const Berth &berth) const { return PodCgroup(config_.node.cgroup_mount, cgroup_root_, berth.pod.uid); }

bool NodeAgent::processes_gone(const Berth &berth) const { return !cgroup_of(berth).populated(); }

void NodeAgent::release(const BerthPtr &berth) {
    run_dir_.remove(RunDir::held, berth->pod.uid);
    berth->held = false;
    capacity_.forget(berth->pod.uid);
    if (berth->terminal() && !berth->pod_absent)
        finished_.insert(berth->pod.uid);
}

void NodeAgent::answer(const std::string &job_key, const Message &message) {
    const auto waiting = epilogs_.extract(job_key);
    if (waiting.empty())
        return;
    for (const ConnectionId connection : waiting.mapped())
        server_->reply(connection, message);
}

void NodeAgent::settle(std::uint32_t job, const std::string &nonce) {
    const std::string key = RunDir::job_name(job, nonce);
    const auto gang = gangs_.find(key);
    if (!berths_of(key).empty() || (gang != gangs_.end() && !gang->second->over))
        return;
    if (gang != gangs_.end())
        gangs_.erase(gang);
    run_dir_.remove(RunDir::jobs, key);
    Message gone{"gone", {}};
    answer(key, gone.set("job", job).set("nonce", nonce));
}

void NodeAgent::end(const BerthPtr &berth, std::string_view why) {
    if (berth->stage == Stage::ending) {
        berth->stuck = false;  // each epilog that asks is told
        return;
    }
    log::info("pod {}/{} of job {} goes: {}", berth->pod.ns, berth->pod.name, berth->job, why);
    berth->end_untold = berth->held && berth->stage != Stage::finishing;
    berth->stage = Stage::ending;
    berth->ending_since = berth->last_look = berth->last_asked = loop_.now();
    berth->backoff = {};
    berth->timer.reset();
    thaw(berth);
    // After a restart: a pod that has ended by itself stays, for people to read how.
    if (berth->held && !berth->pod_seen && !berth->pod_absent)
        ask_api(berth);
    hold_on(berth);
}

// Only here is it known for certain that the job ended before the pod; how it ended, slurmctld knows.
void NodeAgent::tell_ended(const BerthPtr &berth) {
    load_job(berth->job, [this, berth](const Result<std::optional<slurm::Job>> &answer) {
        if (answer && *answer && (*answer)->ticket.nonce == berth->nonce)
            api_->post_event(berth->pod, {"Warning", (*answer)->end_word(), "Deleting", (*answer)->end_sentence()});
    });
}

void NodeAgent::remove_pod(const BerthPtr &berth, std::int64_t grace) {
    berth->delete_open = true;
    berth->delete_accepted = false;
    api_->remove(berth->pod, grace, [this, berth](kube::Response response) {
        berth->delete_open = false;
        berth->delete_accepted = response.ok();
        // 409: another pod has the name by now.
        if (response.status == 404 || response.status == 409) {
            berth->pod_absent = true;
        } else if (!response.ok()) {
            berth->backoff = std::clamp(berth->backoff * 2, first_retry, most_retry);
            berth->delete_again = loop_.now() + berth->backoff;
            log::warning("deleting pod {}/{}: {}; trying again", berth->pod.ns, berth->pod.name, response.error);
        }
        // The watch may be late, and after a deletion by force the hold is over: the server is asked itself.
        if (berth->stage == Stage::ending && response.ok() && berth->forced && !berth->look_open)
            ask_api(berth);
        else if (berth->stage == Stage::ending)
            hold_on(berth);
    });
}

// Deletes what is left of a pod in the API. Nothing waits for it, so it is given up when the server refuses it for long.
void NodeAgent::clear_away(const kube::PodRef &pod, std::chrono::milliseconds wait) {
    leftovers_.erase(pod.uid);
    api_->remove(pod, 0, [this, pod, wait](const kube::Response &response) {
        if (response.ok() || response.status == 404 || response.status == 409)
            return;
        log::warning("deleting pod {}/{}, which was killed: {}{}", pod.ns, pod.name, response.error, wait > longest_retry ? "" : "; trying again");
        if (wait <= longest_retry)
            leftovers_[pod.uid] = loop_.after(wait, [this, pod, wait] { clear_away(kube::PodRef(pod), wait * 2); });
    });
}

void NodeAgent::ask_api(const BerthPtr &berth) {
    berth->look_open = true;
    berth->last_asked = loop_.now();
    const bool after_force = berth->forced && berth->delete_accepted;
    api_->get_pod(berth->pod, [this, berth, after_force](kube::Response response, std::optional<kube::Pod> pod) {
        berth->look_open = false;
        if (pod && pod->uid == berth->pod.uid) {
            berth->outlived_force = berth->outlived_force || after_force;
            berth->saw(std::move(*pod));
        } else if (pod || response.status == 404) {
            berth->pod_absent = true;
        }
        if (berth->stage == Stage::ending)
            hold_on(berth);
    });
}

// What an administrator has to see to before the node can be used again.
std::string NodeAgent::why_stuck(const Berth &berth) const {
    if (!processes_gone(berth))
        return "cannot be killed";
    if (!http_->reachable())
        return "was killed, but is not proven gone: the API server cannot be reached, and its kubelet may start it again";
    if (!berth.delete_accepted)
        return "was killed, but is not proven gone: the API server has not taken its deletion";
    return "was killed, but is not proven gone: the API server keeps it after its deletion by force, perhaps for a finalizer";
}

void NodeAgent::hold_on(const BerthPtr &berth) {
    if (const auto found = berths_.find(berth->key()); found == berths_.end() || found->second != berth)
        return;  // proven gone while an answer was on its way
    const auto now = loop_.now();
    const bool settled = !berth->held || berth->pod_absent || berth->terminal();
    if (settled && !berth->request_open && processes_gone(*berth)) {
        const BerthPtr keep = berth;
        // Its kubelet said that it ended before the API took its deletion; but it was killed here, and goes like any pod of an ended job.
        if (keep->killed_after && keep->terminal() && !keep->pod_absent && !keep->pod_seen->deleting)
            clear_away(keep->pod, first_retry);
        release(keep);
        drop(keep);
        metrics::hold_after_job.observe(now - keep->ending_since);
        log::info("pod {}/{} of job {} is gone", keep->pod.ns, keep->pod.name, keep->job);
        return settle(keep->job, keep->nonce);
    }
    if (!http_->reachable())
        berth->api_away += now - berth->last_look;
    berth->last_look = now;
    const auto stood_still = std::min<steady_clock::duration>(berth->api_away, config_.hold.api_down);
    const auto elapsed = now - berth->ending_since - stood_still;
    const bool over = elapsed >= config_.hold.limit;

    if (over) {
        if (!berth->killed_after)
            log::warning("pod {}/{} of job {} outlived the hold of {} s: it is killed", berth->pod.ns, berth->pod.name, berth->job,
                         config_.hold.limit.count());
        cgroup_of(*berth).kill();
    }
    // What is not held was not bound by this berth, or is proven gone already: such a pod is not ours to delete.
    const bool ask = berth->held && (berth->pod_seen || over) && (!berth->delete_accepted || (over && !berth->forced));
    if (ask && !berth->pod_absent && !berth->terminal() && !berth->delete_open && now >= berth->delete_again) {
        if (std::exchange(berth->end_untold, false))
            tell_ended(berth);
        berth->forced = over;
        const std::int64_t own = berth->pod_seen ? berth->pod_seen->grace_seconds : 30;
        remove_pod(berth, over ? 0 : std::min<std::int64_t>(own, config_.hold.max_grace.count()));
    }
    if (over && !berth->killed_after)
        berth->killed_after = elapsed;  // later than the limit when this agent itself stood still
    if ((berth->delete_accepted || !berth->pod_seen) && !settled && !berth->look_open &&
        now - berth->last_asked >= (berth->watched && !over ? ask_watched_again : ask_again))
        ask_api(berth);
    // A deletion that the API server took is believed to have failed on its word alone, not because nobody asked.
    const bool answer_due = processes_gone(*berth) && http_->reachable() && berth->delete_accepted && !berth->outlived_force;
    const bool outlived = berth->killed_after && elapsed >= *berth->killed_after + config_.hold.kill_wait && !answer_due;
    if (outlived && !berth->stuck && epilogs_.count(berth->job_key()) != 0) {
        berth->stuck = true;
        Message stuck{"stuck", {}};
        const std::string reason = fmt::format("pod {}/{} (uid {}) of job {} {}", berth->pod.ns, berth->pod.name, berth->pod.uid, berth->job,
                                               why_stuck(*berth));
        log::error("{}: the node is drained", reason);
        metrics::drained(metrics::Drain::pod);
        answer(berth->job_key(), stuck.set("reason", reason));
    }
    look_later(berth, &NodeAgent::hold_on);
}

// The next look at a pod that is on its way out.
void NodeAgent::look_later(const BerthPtr &berth, void (NodeAgent::*next)(const BerthPtr &)) {
    const bool often = loop_.now() - berth->ending_since < often_for;
    run_later(berth, often ? look_often : look_seldom, next);
}

void NodeAgent::finish(const BerthPtr &berth) {
    if (berth->stage != Stage::finishing) {
        berth->stage = Stage::finishing;
        berth->by_itself = berth->terminal() && !berth->pod_seen->deleting;
        berth->ending_since = loop_.now();
        berth->backoff = {};
        thaw(berth);
    }
    if (!processes_gone(*berth)) {
        if (loop_.now() - berth->ending_since >= config_.hold.limit)
            cgroup_of(*berth).kill();
        return look_later(berth, &NodeAgent::finish);
    }
    release(berth);
    metrics::hold_after_pod.observe(loop_.now() - berth->ending_since);
    if (berth->member())
        return leave(berth);
    complete_job(berth);
}

// A pod that ended by itself gives its job an exit code; one that its user deleted cancels it.
void NodeAgent::complete_job(const BerthPtr &berth) {
    const bool by_itself = berth->by_itself;
    const std::uint32_t status = by_itself ? kube::wait_status(*berth->pod_seen) : 0;
    workers_->submit([job = berth->job, uid = berth->pod.uid, by_itself, status] {
                         return by_itself ? slurm::complete(job, uid, status) : slurm::give_back(job, uid);
                     },
                     [this, berth, by_itself, status](Result<void> done) {
                         if (berth->stage != Stage::finishing)
                             return;
                         if (done) {
                             log::info("job {} of pod {}/{} {}", berth->job, berth->pod.ns, berth->pod.name,
                                       by_itself ? fmt::format("completed with {}:{}", status >> 8, status & 0x7f) : "cancelled");
                             return drop(berth);
                         }
                         log::warning("{}; trying again", done.error());
                         berth->backoff = std::clamp(berth->backoff * 2, std::chrono::milliseconds(500), std::chrono::milliseconds(10'000));
                         run_later(berth, berth->backoff, &NodeAgent::complete_job);
                     });
}

}  // namespace berth::node
