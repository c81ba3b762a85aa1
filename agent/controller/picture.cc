// What the web server shows of the controller (agent/web/): the picture of both systems from what watches and looks have told. Nobody is
// asked for it, and nothing is decided here.
#include <fmt/format.h>

#include <algorithm>

#include "agent/controller/controller.h"
#include "agent/slurm/reason.h"

namespace berth {

namespace {

using std::chrono::steady_clock;
constexpr std::size_t most_landings = 400, most_workloads = 400, most_nodes = 4'000, most_pods_named = 8, most_hosts_named = 6;
constexpr std::time_t ring_patience = 2;  // seconds; a doorbell and Slurm's clock are not that exact

double seconds_of(steady_clock::duration time) { return std::chrono::duration<double>(time).count(); }

double age(steady_clock::time_point when, steady_clock::time_point now) {
    return when == steady_clock::time_point{} ? -1 : seconds_of(now - when);
}

double wall_clock() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

// "Resources" of "Resources (some detail)"
std::string first_word(const std::string &reason) { return reason.substr(0, reason.find(' ')); }

struct PodsOnNode {
    std::uint64_t cpu_milli = 0, memory_bytes = 0, gpus = 0;
    std::size_t count = 0;
    std::vector<std::string> names;

    void add(const kube::Pod &pod) {
        cpu_milli += static_cast<std::uint64_t>(pod.need.cpu_milli);
        memory_bytes += static_cast<std::uint64_t>(pod.need.memory_bytes);
        for (const auto &[name, number] : pod.need.extended)
            if (name.ends_with("/gpu"))
                gpus += static_cast<std::uint64_t>(number);
        if (++count <= most_pods_named)
            names.push_back(pod.full_name());
    }
};

bool waits(State state) {
    return state == State::idle || state == State::refused || state == State::waiting || state == State::submitting ||
           state == State::withdrawing || state == State::unsure || state == State::queued;
}

}  // namespace

std::string Controller::waits_for() const {
    if (!pods_listed_)
        return "the pods are not listed yet";
    if (!owners_listed_)
        return "the owners of pods are not listed yet";
    if (!nodes_.listed())
        return "the Kubernetes nodes are not listed yet";
    return jobs_listed_ ? "" : "slurmctld has not told of its jobs yet";
}

// A pod's creationTimestamp has whole seconds. So one that the watch told of when it was new counts from there.
void Controller::note_bound(const Workload &workload, const Member &member) {
    const double since_created = wall_clock() - static_cast<double>(member.pod.created);
    const double since_arrived = age(member.arrived, loop_.now());
    const bool told_at_once = since_arrived >= 0 && since_created - since_arrived < 2;
    const double took = told_at_once ? since_arrived : since_created;
    (workload.queued ? metrics::created_to_bound_queued : metrics::created_to_bound_at_once).observe(took);
    shown_.landings.push_back({wall_clock(), took, workload.queued, member.pod.full_name()});
    if (shown_.landings.size() > most_landings)
        shown_.landings.pop_front();
}

void Controller::note_look(Look &look) {
    shown_.jobs = look.began;
    if (look.nodes_asked)
        shown_.nodes = look.began;  // also when they say that nothing has changed
    if (look.nodes)
        shown_.node_list = std::move(look.nodes->shown);
    if (look.native) {
        shown_.native = std::move(*look.native);
        shown_.natives = look.began;
    }
}

bool Controller::unheard_of(const slurm::Job &job) const {
    return rang_ < job.end_time && job.end_time + ring_patience < std::time(nullptr);
}

// In a word, and in a sentence; for what does not run.
std::pair<std::string, std::string> Controller::wait_of(const Workload &w) const {
    switch (w.state) {
    case State::idle:
        if (!w.members.empty() && w.only().pod.gated)
            return {"Gated", "its scheduling gates are not lifted"};
        if (w.gang())
            return {"Gathering", fmt::format("{} of {} pods are there", w.count(&Member::ready), w.who.size)};
        return {"New", w.who.suspended ? "its owner is suspended" : ""};
    case State::refused: return {"Refused", w.problem};
    case State::waiting:
        if (!w.members.empty() && !w.only().told.empty())
            return {"Turn", w.only().told};
        return {"Turn", "waits its turn in the controller"};
    case State::submitting: return {"Submitting", "the request is on its way to slurmctld"};
    case State::withdrawing: return {"Withdrawn", "its pods are gone"};
    case State::unsure: return {"Unsure", "slurmctld has not answered; its job is looked for"};
    case State::queued:
        if (!w.seen || w.seen->reason == "None")
            return {"New", "Slurm has not looked at it yet"};
        if (const std::string advice = slurm::reason_advice(w.seen->reason, w.job); !advice.empty())
            return {first_word(w.seen->reason), fmt::format("{}; {}", w.seen->reason, advice)};
        return {first_word(w.seen->reason), w.seen->reason};
    default: return {};
    }
}

void Controller::measure(metrics::Gauges &now) {
    const auto count = [&](const WorkloadPtr &workload) {
        ++now.workloads[name(workload->state)];
        if (waits(workload->state))
            ++now.queue[wait_of(*workload).first];
    };
    for (const auto &[key, workload] : open_)
        count(workload);
    for (const WorkloadPtr &workload : closed_)
        count(workload);
    now.nodes = shown_.node_list.size();
    now.drained_nodes = {{"kubernetes", 0}, {"pod", 0}, {"site", 0}};
    for (const slurm::QueueNode &node : shown_.node_list)
        if (const SlurmNode *known = nodes_.slurm(node.name); known != nullptr && known->drain)
            ++now.drained_nodes[is_mirror_reason(known->reason) ? "kubernetes" : known->reason.starts_with("berth:") ? "pod" : "site"];
    now.slurm_age = age(shown_.jobs, loop_.now());
}

web::WorkloadView Controller::view(const Workload &w) const {
    web::WorkloadView out;
    out.ns = w.who.ns;
    out.name = w.who.name;
    out.kind = w.gang() ? w.who.kind : "Pod";
    out.gang = w.gang();
    out.job = w.job;
    out.pods = std::max<std::size_t>(1, w.gang() ? (w.placed != 0 ? w.placed : w.who.size) : 1);
    out.here = w.count(&Member::live);
    out.bound = w.count(&Member::docked);
    out.created = w.oldest();
    const auto [word, sentence] = wait_of(w);
    out.reason = sentence;
    if (!w.members.empty())
        out.cpus = fmt::format("{:g}", static_cast<double>(w.members.begin()->second.pod.need.cpu_milli) / 1000);
    if (w.seen && (w.state == State::queued || w.state == State::berthed || w.state == State::docked)) {
        out.start = w.state == State::queued ? w.told_start : w.seen->start_time;
        // Without a limit Slurm takes a job to last a year.
        out.end = w.state == State::queued || (w.seen->time_limit_minutes == 0 && !w.seen->preempting()) ? 0 : w.seen->end_time;
        out.nodes = w.seen->nodes;
    }
    switch (w.state) {
    case State::queued: out.state = "pending"; break;
    case State::berthed: out.state = "starting"; break;
    case State::docked: out.state = w.suspended ? "suspended" : "running"; break;
    case State::dismissing: out.state = "ending"; break;
    case State::refused: out.state = "refused"; break;
    case State::idle: out.state = word == "Gathering" ? "gathering" : word == "Gated" ? "gated" : "new"; break;
    default: out.state = name(w.state);
    }
    std::vector<std::string> hosts;
    for (const auto &[uid, member] : w.members)
        if (member.docked() && std::find(hosts.begin(), hosts.end(), member.pod.node_name) == hosts.end() && hosts.size() <= most_hosts_named)
            hosts.push_back(member.pod.node_name);
    if (out.nodes.empty() || w.parts > 1) {
        out.nodes.clear();
        for (std::size_t i = 0; i < hosts.size(); ++i)
            out.nodes += i == most_hosts_named ? ",..." : (i == 0 ? "" : ",") + hosts[i];
    }
    return out;
}

std::vector<web::NodeView> Controller::node_views() {
    std::map<std::string, PodsOnNode> pods;  // by Kubernetes' name
    for (const auto &[uid, workload] : by_pod_)
        if (const auto member = workload->members.find(uid); member != workload->members.end() && member->second.docked())
            pods[member->second.pod.node_name].add(member->second.pod);
    std::vector<web::NodeView> out;
    const auto add = [&](const slurm::QueueNode *slurm, const std::string &kube_name) {
        const kube::Node *node = nodes_.kube(kube_name);
        const PodsOnNode &here = pods[kube_name];
        web::NodeView view;
        view.name = slurm != nullptr ? slurm->name : kube_name;
        view.kubernetes = node != nullptr ? kube::state_words(node) : "";
        view.pods = here.names;
        view.pod_count = here.count;
        if (slurm != nullptr) {
            const auto native = shown_.native.by_host.find(slurm->name);
            const bool natives = native != shown_.native.by_host.end();
            if (natives) {
                view.jobs = native->second.names;
                view.job_count = native->second.count;
            }
            view.slurm = slurm->state;
            view.reason = slurm->usable ? "" : slurm->reason;
            view.cpus = web::Share::of(slurm->cpus, slurm->cpus_allocated, (here.cpu_milli + 999) / 1000, natives);
            view.memory_mib = web::Share::of(slurm->memory_mib, slurm->memory_mib_allocated, here.memory_bytes >> 20, natives);
            view.gpus = web::Share::of(web::gpus_in(slurm->gres), web::gpus_in(slurm->gres_used), here.gpus, natives);
        }
        out.push_back(std::move(view));
    };
    for (const slurm::QueueNode &node : shown_.node_list)
        if (out.size() < most_nodes)
            add(&node, nodes_.names().kube_of(node.name));
    for (const auto &[name, node] : nodes_.all_kube())
        if (out.size() < most_nodes && nodes_.names().slurm_of(name).empty())
            add(nullptr, name);
    return out;
}

std::string Controller::status_json() {
    const auto now = loop_.now();
    web::Status status = web::status_of_process();
    status.cluster = cluster_.name;
    status.identity = mandate_.holder;
    status.role = "leader";
    status.term = mandate_.term;
    status.waits_for = waits_for();
    status.kubernetes_reachable = http_->reachable();
    status.jobs_age = age(shown_.jobs, now);
    status.nodes_age = age(shown_.nodes, now);
    status.native_age = age(shown_.natives, now);
    status.native_running = shown_.native.running;
    status.native_pending = shown_.native.pending;
    status.nodes = node_views();
    status.nodes_left_out = shown_.node_list.size() - std::min(shown_.node_list.size(), most_nodes);

    std::vector<const Workload *> waiting, running;
    const auto sort_in = [&](const WorkloadPtr &workload) {
        if (workload->state != State::over && workload->count(&Member::live) != 0)
            (waits(workload->state) ? waiting : running).push_back(workload.get());
    };
    for (const auto &[key, workload] : open_)
        sort_in(workload);
    for (const WorkloadPtr &workload : closed_)
        sort_in(workload);
    status.waiting = waiting.size();
    status.running = running.size();
    for (auto *list : {&waiting, &running}) {
        const std::size_t most = std::min(list->size(), most_workloads);
        // Who has waited longest, and who has come last.
        std::partial_sort(list->begin(), list->begin() + static_cast<std::ptrdiff_t>(most), list->end(), [&](const Workload *a, const Workload *b) {
            return list == &waiting ? a->who.created < b->who.created : a->who.created > b->who.created;
        });
        for (std::size_t i = 0; i < most; ++i)
            status.workloads.push_back(view(*(*list)[i]));
        status.workloads_left_out += list->size() - most;
    }
    status.landings.assign(shown_.landings.begin(), shown_.landings.end());
    return to_json(status);
}

}  // namespace berth
