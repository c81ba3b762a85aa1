#include "test/hollow/kubelet.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>

#include "agent/kube/json_text.h"
#include "agent/log.h"

namespace berth::hollow {
namespace {

using std::chrono::system_clock;

constexpr auto retry_delay = milliseconds(300);
constexpr auto clean_delay = milliseconds(10);
constexpr auto restart_delay = milliseconds(1000);
constexpr std::int64_t shortest_grace = 2;  // seconds: the kubelet grants this much even to a pod deleted by force
constexpr int oom_code = 137;

std::string path_of(const PodSpec &pod, const char *rest = "") {
    return "/api/v1/namespaces/" + pod.ns + "/pods/" + pod.name + rest;
}

// The object is not there any more, or a newer pod has its name.
bool no_such_pod(const kube::Response &response) { return response.status == 404 || response.status == 409; }

}  // namespace

Kubelet::Kubelet(Loop &loop, kube::Http &http, const Nodes &nodes, Places places)
    : loop_(loop), http_(http), nodes_(nodes), places_(std::move(places)) {}

Kubelet::Pod *Kubelet::find(const std::string &uid) {
    auto found = pods_.find(uid);
    return found == pods_.end() ? nullptr : &found->second;
}

void Kubelet::changed(PodSpec &&spec) {
    if (!nodes_.has(spec.node))
        return;
    auto [found, fresh] = pods_.try_emplace(spec.uid);
    Pod &pod = found->second;
    if (fresh) {
        pod.spec = std::move(spec);
        return take_over(pod);
    }
    pod.spec.deleting = spec.deleting;
    pod.spec.deletion_grace = spec.deletion_grace;
    if (spec.deleting)
        terminate(pod, spec.deletion_grace);
}

// A pod that this process sees for the first time; an earlier one may have begun or ended it.
void Kubelet::take_over(Pod &pod) {
    const std::string uid = pod.spec.uid;
    pod.started = recorded_start(places_, uid);
    bool over = pod.spec.phase == "Succeeded" || pod.spec.phase == "Failed";
    pod.process = PodProcess::adopt(loop_, places_, pod.spec, [this, uid](int code) { process_ended(uid, code); });
    if (pod.process) {
        log::info("pod {}/{} runs already", pod.spec.ns, pod.spec.name);
        pod.state = State::running;
        if (pod.spec.phase != "Running" && !over)
            report(pod);
        if (pod.spec.deleting)
            terminate(pod, pod.spec.deletion_grace);
    } else if (over) {
        pod.state = State::ended;
        pod.reported_end = true;
        settle(uid);
    } else if (pod.spec.phase == "Running") {
        process_ended(uid, recorded_exit(places_, uid));
    } else if (pod.spec.deleting) {
        terminate(pod, 0);
    } else {
        admit(pod);
    }
}

void Kubelet::admit(Pod &pod) {
    if (!pod.spec.problem.empty())
        return fail(pod, "HollowAnnotation", pod.spec.problem);
    Capacity used;
    for (const auto &[uid, other] : pods_)
        if (other.spec.node == pod.spec.node && other.state != State::ended) {
            used.cpu_milli += other.spec.cpu_milli;
            used.memory_bytes += other.spec.memory_bytes;
            used.gpus += other.spec.gpus;
        }
    const Capacity &all = nodes_.capacity();
    const char *missing = used.cpu_milli > all.cpu_milli          ? "OutOfcpu"
                          : used.memory_bytes > all.memory_bytes ? "OutOfmemory"
                          : used.gpus > all.gpus                 ? "OutOfnvidia.com/gpu"
                                                                 : nullptr;
    if (missing)
        return fail(pod, missing, "Pod Node didn't have enough resource");
    if (pod.spec.behaviour.start_delay.count() == 0)
        return begin(pod.spec.uid);
    report(pod);
    pod.start_timer = loop_.after(pod.spec.behaviour.start_delay, [this, uid = pod.spec.uid] { begin(uid); });
}

void Kubelet::begin(const std::string &uid) {
    Pod &pod = *find(uid);
    pod.start_timer.reset();
    pod.started = system_clock::now();
    auto process = PodProcess::start(loop_, places_, pod.spec, [this, uid](int code) { process_ended(uid, code); });
    if (!process)
        return fail(pod, "HollowStart", process.error());
    pod.process = std::move(*process);
    pod.state = State::running;
    report(pod);
}

void Kubelet::fail(Pod &pod, std::string reason, std::string message) {
    log::info("pod {}/{} fails: {}: {}", pod.spec.ns, pod.spec.name, reason, message);
    pod.reason = std::move(reason);
    pod.message = std::move(message);
    pod.state = State::ended;
    pod.finished = system_clock::now();
    settle(pod.spec.uid);
}

// Ends the pod within the grace; a shorter one later counts.
void Kubelet::terminate(Pod &pod, std::int64_t grace) {
    const std::string uid = pod.spec.uid;
    grace = std::max(grace, shortest_grace);
    if (pod.state == State::ended)
        return settle(uid);
    if (pod.state == State::waiting) {
        pod.start_timer.reset();
        pod.state = State::ended;
        pod.reported_end = true;  // there was nothing that could end
        return settle(uid);
    }
    if (pod.spec.behaviour.stuck || (pod.grace >= 0 && pod.grace <= grace))
        return;
    bool first = pod.grace < 0;
    pod.grace = grace;
    if (!pod.process)
        return;  // between two runs: process_ended or begin() looks at it
    if (first)
        pod.process->signal(SIGTERM);
    pod.kill_timer = loop_.after(std::chrono::seconds(grace), [this, uid] {
        if (Pod *late = find(uid); late && late->process)
            late->process->signal(SIGKILL);
    });
}

void Kubelet::process_ended(const std::string &uid, int exit_code) {
    Pod &pod = *find(uid);
    pod.process.reset();
    pod.kill_timer.reset();
    pod.exit_code = exit_code;
    pod.finished = system_clock::now();
    if (pod.spec.behaviour.stuck) {
        // A broken kubelet notices nothing. Without an API object there is nobody to be deceived.
        pod.reported_end = true;
        pod.state = State::ended;
        if (pod.api_gone)
            settle(uid);
        return;
    }
    bool again = pod.spec.restart_policy == RestartPolicy::always ||
                 (pod.spec.restart_policy == RestartPolicy::on_failure && exit_code != 0);
    if (again && pod.grace < 0 && !pod.spec.deleting && !pod.api_gone) {
        ++pod.restarts;
        pod.state = State::waiting;
        report(pod);
        pod.start_timer = loop_.after(restart_delay, [this, uid] { begin(uid); });
        return;
    }
    pod.state = State::ended;
    settle(uid);
}

void Kubelet::settle(const std::string &uid) {
    Pod &pod = *find(uid);
    if (pod.spec.behaviour.stuck && !pod.api_gone)
        return;
    if (!remove_cgroup(places_, pod.spec)) {
        pod.clean_timer = loop_.after(clean_delay, [this, uid] { settle(uid); });
        return;
    }
    pod.clean_timer.reset();
    if (pod.api_gone) {
        forget_records(places_, uid);
        loop_.post([this, uid] { pods_.erase(uid); });  // the caller may still hold the pod
    } else if (!pod.reported_end) {
        report(pod);
    } else if (pod.spec.deleting) {
        delete_object(pod);
    }
}

void Kubelet::removed(const std::string &uid) {
    Pod *pod = find(uid);
    if (!pod || pod->api_gone)
        return;
    pod->api_gone = true;
    pod->start_timer.reset();
    pod->retry_timer.reset();
    if (pod->process)
        terminate(*pod, 0);
    else {
        pod->state = State::ended;
        settle(uid);
    }
}

// What went while nobody watched: known pods without an object, and cgroups of pods that we never knew.
void Kubelet::synced(const std::unordered_set<std::string> &uids) {
    std::vector<std::string> gone;
    for (const auto &[uid, pod] : pods_)
        if (!uids.contains(uid))
            gone.push_back(uid);
    for (const std::string &uid : gone)
        removed(uid);
    for (PodSpec &orphan : find_pods(places_, nodes_.names())) {
        if (uids.contains(orphan.uid) || pods_.contains(orphan.uid))
            continue;
        const std::string uid = orphan.uid;
        Pod &pod = pods_[uid];
        pod.spec = std::move(orphan);
        pod.process = PodProcess::adopt(loop_, places_, pod.spec, [this, uid](int code) { process_ended(uid, code); });
        pod.state = pod.process ? State::running : State::ended;
        removed(uid);
    }
    log::info("{} pods on {} nodes", pods_.size(), nodes_.names().size());
}

// --- the API ---------------------------------------------------------------------------------------------------------

std::string Kubelet::phase(const Pod &pod) const {
    if (pod.state != State::ended)
        return pod.state == State::running || pod.restarts > 0 ? "Running" : "Pending";
    return pod.reason.empty() && pod.exit_code == 0 ? "Succeeded" : "Failed";
}

std::string Kubelet::status_patch(const Pod &pod) const {
    bool running = pod.state == State::running, began = running || pod.restarts > 0 || pod.state == State::ended;
    const char *end_reason = pod.exit_code == 0 ? "Completed" : pod.spec.behaviour.oom && pod.exit_code == oom_code ? "OOMKilled" : "Error";
    std::string id = "hollow://" + pod.spec.uid, containers, state;
    if (running)
        state = fmt::format(R"({{"running": {{"startedAt": "{}"}}}})", rfc3339(pod.started));
    else if (began)
        state = fmt::format(R"({{"terminated": {{"exitCode": {}, "reason": "{}", "startedAt": "{}", "finishedAt": "{}", "containerID": "{}"}}}})",
                            pod.exit_code, end_reason, rfc3339(pod.started), rfc3339(pod.finished), id);
    else
        state = R"({"waiting": {"reason": "ContainerCreating"}})";
    if (pod.reason.empty())
        for (const std::string &name : pod.spec.containers)
            containers += fmt::format(
                R"({}{{"name": {}, "image": "hollow", "imageID": "hollow", "ready": {}, "started": {}, "restartCount": {}, "state": {}{}}})",
                containers.empty() ? "" : ", ", kube::json_quote(name), running, running, pod.restarts, state,
                began ? fmt::format(R"(, "containerID": "{}")", id) : "");
    std::string failed;
    if (!pod.reason.empty())
        failed = fmt::format(R"(, "reason": {}, "message": {})", kube::json_quote(pod.reason), kube::json_quote(pod.message));
    std::string conditions;
    for (const char *type : {"Initialized", "ContainersReady", "Ready"})
        conditions += fmt::format(R"({}{{"type": "{}", "status": "{}", "lastTransitionTime": "{}"}})", conditions.empty() ? "" : ", ",
                                  type, running || type[0] == 'I' ? "True" : "False", rfc3339(system_clock::now()));
    return fmt::format(R"({{"metadata": {{"uid": "{}"}}, "status": {{"phase": "{}", "hostIP": "127.0.0.1", "startTime": "{}",
        "conditions": [{}], "containerStatuses": [{}]{}}}}})",
                       pod.spec.uid, phase(pod), rfc3339(pod.started), conditions, containers, failed);
}

// One report at a time for each pod; what changes meanwhile goes with the next.
void Kubelet::report(Pod &pod) {
    if (pod.api_gone)
        return;
    if (pod.reporting) {
        pod.report_again = true;
        return;
    }
    pod.reporting = true;
    pod.report_again = false;
    bool final = pod.state == State::ended;
    kube::Request request;
    request.method = "PATCH";
    request.path = path_of(pod.spec, "/status");
    request.content_type = "application/strategic-merge-patch+json";
    request.body = status_patch(pod);
    http_.send(std::move(request), [this, uid = pod.spec.uid, final](kube::Response response) {
        Pod *p = find(uid);
        if (!p)
            return;
        p->reporting = false;
        if (response.ok() || no_such_pod(response)) {
            p->reported_end = p->reported_end || final;
            if (p->report_again)
                report(*p);
            else if (final)
                settle(uid);
            return;
        }
        log::warning("reporting pod {}/{}: {}; trying again", p->spec.ns, p->spec.name, response.error);
        p->retry_timer = loop_.after(retry_delay, [this, uid] {
            if (Pod *again = find(uid))
                report(*again);
        });
    });
}

void Kubelet::delete_object(Pod &pod) {
    if (pod.deleting_object)
        return;
    pod.deleting_object = true;
    kube::Request request;
    request.method = "DELETE";
    request.path = path_of(pod.spec);
    request.body = fmt::format(R"({{"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0, "preconditions": {{"uid": "{}"}}}})",
                               pod.spec.uid);
    http_.send(std::move(request), [this, uid = pod.spec.uid](kube::Response response) {
        Pod *p = find(uid);
        if (!p || response.ok() || no_such_pod(response))
            return;  // the watch tells when it is gone
        log::warning("deleting pod {}/{}: {}; trying again", p->spec.ns, p->spec.name, response.error);
        p->deleting_object = false;
        p->retry_timer = loop_.after(retry_delay, [this, uid] {
            if (find(uid))
                settle(uid);
        });
    });
}

}  // namespace berth::hollow
