// Who is submitted when: what waits in the controller because Slurm has no room for it, or because it is others' turn (turnstile.h).
#include <fmt/format.h>

#include <algorithm>

#include "agent/controller/controller.h"
#include "agent/translate/annotations.h"

namespace berth {

namespace {

using std::chrono::milliseconds;
constexpr int most_turns = 64;  // then the loop has other things to do: those that cannot be translated are answered at once, and there may be thousands
constexpr std::chrono::seconds turn_comes{10};     // others' turn is no news before that
constexpr std::chrono::seconds tell_turn_again{60};  // there may be tens of thousands to be told

// What Slurm counts submissions by, as far as the pod has a say in it.
std::string allowance_of(const Workload &workload) {
    const kube::Pod &pod = workload.members.begin()->second.pod;
    const kube::KeyValues said = merge_layers(workload.who.layers);
    std::string out = pod.service_account + "\n" + pod.priority_class;
    for (const char *key : {"account", "partition", "qos", "reservation"})
        out.append("\n").append(kube::value_of(said, std::string(kAnnotationPrefix) + key));
    return out;
}

}  // namespace

void Controller::wait_for_turn(const WorkloadPtr &workload) {
    if (workload->members.empty() || turnstile_.waits(workload))
        return;
    workload->waiting_since = loop_.now();
    turnstile_.join(workload, {workload->who.ns, allowance_of(*workload), workload->refusals, workload->who.created,
                               std::max(1U, workload->parts)});
    tell_turn_at(loop_.now() + config_.controller.condition_delay, workload);
    admit_soon();
}

// Later in this turn of the loop: whoever comes with the same news takes part.
void Controller::admit_soon() {
    if (std::exchange(admitting_, true))
        return;
    loop_.post([this, alive = std::weak_ptr<bool>(alive_)] {
        if (!alive.lock())
            return;
        admitting_ = false;
        admit();
    });
}

void Controller::admit() {
    admit_timer_.reset();
    for (int turns = 0; const WorkloadPtr workload = turnstile_.next(loop_.now());) {
        post(workload, Event::turn);
        if (++turns == most_turns)
            return admit_soon();
    }
    if (const auto opens = turnstile_.opens())
        admit_timer_ = loop_.after(std::max(milliseconds(1), std::chrono::ceil<milliseconds>(*opens - loop_.now())), [this] { admit(); });
}

// Jobs that were answered after the look began may not be in it.
void Controller::count_places(const Look &look, const std::map<std::uint32_t, std::uint32_t> &live, const std::vector<WorkloadPtr> &all) {
    Occupancy now;
    std::set<std::uint32_t> counted;
    for (const slurm::Job &job : look.jobs)
        if (live.count(job.id) != 0 && counted.insert(job.id).second)
            ++now.placeholders[job.ticket.ns];
    now.records = look.records;
    for (const WorkloadPtr &workload : all)
        for (std::uint32_t part = 0; workload->job != 0 && workload->job_known > look.began && part < workload->parts; ++part)
            if (live.count(workload->job + part) != 0 && counted.insert(workload->job + part).second) {
                ++now.placeholders[workload->who.ns];
                ++now.records;
            }
    max_job_count_ = look.max_job_count != 0 ? look.max_job_count : max_job_count_;
    now.max_records = max_job_count_;
    turnstile_.set_places(config_.controller.max_placeholders.of(max_job_count_));
    turnstile_.looked(std::move(now));
    refused_ = static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [](const WorkloadPtr &workload) { return workload->state == State::refused; }));
    admit_soon();
}

// One timer for all: only the first of them matters.
void Controller::tell_turn_at(std::chrono::steady_clock::time_point when, const WorkloadPtr &workload) {
    const bool first = untold_.empty() || when < untold_.begin()->first;
    untold_.emplace(when, workload);
    if (first)
        tell_timer_ = loop_.after(std::max(milliseconds(0), std::chrono::ceil<milliseconds>(when - loop_.now())), [this] { tell_turns(); });
}

void Controller::tell_turns() {
    const auto now = loop_.now();
    while (!untold_.empty() && untold_.begin()->first <= now) {
        const WorkloadPtr workload = untold_.begin()->second.lock();
        untold_.erase(untold_.begin());
        if (!workload || workload->state != State::waiting)
            continue;
        if (turn_may_come(workload))
            tell_turn_at(workload->waiting_since + turn_comes, workload);
        else
            tell_turn(workload);
    }
    tell_timer_.reset();
    if (!untold_.empty())
        tell_timer_ = loop_.after(std::max(milliseconds(1), std::chrono::ceil<milliseconds>(untold_.begin()->first - now)), [this] { tell_turns(); });
}

// The words name no number that changes while it waits: each change would be a write for each pod.
std::string Controller::turn_message(const WorkloadPtr &workload) const {
    using Why = Turnstile::Why;
    switch (turnstile_.why(workload)) {
    case Why::places:
        return fmt::format("all {} places for placeholders in Slurm's queue are taken (controller.max_placeholders); "
                           "this pod waits its turn in the controller",
                           turnstile_.places());
    case Why::share:
        return fmt::format("namespace {} has its share of the {} places for placeholders in Slurm's queue (controller.max_placeholders); "
                           "this pod waits its turn in the controller",
                           workload->who.ns, turnstile_.places());
    case Why::records:
        return fmt::format("slurmctld's table of jobs is nearly full (MaxJobCount {}, in which ended jobs count for MinJobAge), and the rest is left "
                           "to other jobs; this pod waits its turn in the controller",
                           max_job_count_);
    case Why::limit:
        return fmt::format("Slurm takes no more jobs like this one of namespace {} for now: {}; this pod waits its turn in the controller",
                           workload->who.ns, turnstile_.said(workload));
    case Why::full:
        return fmt::format("slurmctld takes no jobs for now: {}; this pod waits its turn in the controller", turnstile_.said(workload));
    case Why::turn: break;
    }
    return "other pods are being submitted first; this pod waits its turn in the controller";
}

bool Controller::turn_may_come(const WorkloadPtr &workload) const {
    return turnstile_.why(workload) == Turnstile::Why::turn && loop_.now() - workload->waiting_since < turn_comes;
}

void Controller::tell_turn(const WorkloadPtr &workload) {
    if (turn_may_come(workload))
        return;
    const auto due = [now = loop_.now()](const Member &member) {
        return member.ready() && (member.told.empty() || now - member.told_at >= tell_turn_again);
    };
    if (std::none_of(workload->members.begin(), workload->members.end(), [&](const auto &entry) { return due(entry.second); }))
        return;
    const std::string message = turn_message(workload);
    for (auto &[uid, member] : workload->members)
        if (due(member)) {
            write_condition(member, "Unschedulable", message);
            member.told_at = loop_.now();
        }
    tell_group(*workload, "Unschedulable", message);
}

}  // namespace berth
