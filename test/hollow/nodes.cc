#include "test/hollow/nodes.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <charconv>

#include "agent/log.h"

namespace berth::hollow {
namespace {

constexpr auto heartbeat_interval = std::chrono::minutes(5);
constexpr auto retry_delay = std::chrono::milliseconds(500);

}  // namespace

Nodes::Nodes(Loop &loop, kube::Http &http, std::vector<std::string> names, Capacity each)
    : loop_(loop), http_(http), names_(std::move(names)), each_(each) {
    for (const std::string &name : names_)
        names_set_.try_emplace(name);
}

void Nodes::start() {
    for (const std::string &name : names_)
        create(name);
    heartbeat_ = loop_.after(heartbeat_interval, [this] { renew_all(); });
}

std::string Nodes::conditions() const {
    std::string now = rfc3339(std::chrono::system_clock::now());
    std::string out;
    for (const char *type : {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"}) {
        bool ready = std::string_view(type) == "Ready";
        out += fmt::format(
            R"({}{{"type": "{}", "status": "{}", "reason": "{}", "message": "hollow kubelet", "lastHeartbeatTime": "{}"}})",
            out.empty() ? "" : ", ", type, ready ? "True" : "False", ready ? "KubeletReady" : "KubeletHasEnough", now);
    }
    return out;
}

std::string Nodes::status() const {
    std::string amounts = fmt::format(R"({{"cpu": "{}m", "memory": "{}", "ephemeral-storage": "100Gi", "pods": "1000")",
                                      each_.cpu_milli, each_.memory_bytes);
    if (each_.gpus > 0)
        amounts += fmt::format(R"(, "nvidia.com/gpu": "{}")", each_.gpus);
    amounts += "}";
    return fmt::format(R"("status": {{"capacity": {0}, "allocatable": {0}, "conditions": [{1}],
        "addresses": [{{"type": "InternalIP", "address": "127.0.0.1"}}],
        "nodeInfo": {{"machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "osImage": "hollow",
            "containerRuntimeVersion": "hollow://1", "kubeletVersion": "hollow", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64"}}}})",
                       amounts, conditions());
}

void Nodes::create(const std::string &name) {
    kube::Request request;
    request.method = "POST";
    request.path = "/api/v1/nodes";
    request.body = fmt::format(
        R"({{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{0}", "labels": {{"kubernetes.io/hostname": "{0}",
            "kubernetes.io/os": "linux", "hollow.berth.dev/node": "true"}}}}, {1}}})",
        name, status());
    http_.send(std::move(request), [this, name](kube::Response response) {
        if (response.status == 409)
            return renew(name, status());
        if (response.ok())
            return;
        log::warning("registering node {}: {}; trying again", name, response.error);
        names_set_[name] = loop_.after(retry_delay, [this, name] { create(name); });
    });
}

void Nodes::renew(const std::string &name, const std::string &status) {
    kube::Request request;
    request.method = "PATCH";
    request.path = "/api/v1/nodes/" + name + "/status";
    request.content_type = "application/strategic-merge-patch+json";
    request.body = "{" + status + "}";
    http_.send(std::move(request), [this, name](kube::Response response) {
        if (response.ok())
            return;
        log::warning("renewing node {}: {}; trying again", name, response.error);
        names_set_[name] = loop_.after(retry_delay, [this, name] { create(name); });
    });
}

void Nodes::renew_all() {
    for (const std::string &name : names_)
        renew(name, R"("status": {"conditions": [)" + conditions() + "]}");  // a test may have changed the rest
    heartbeat_ = loop_.after(heartbeat_interval, [this] { renew_all(); });
}

Result<std::vector<std::string>> expand_names(std::string_view text) {
    std::vector<std::string> out;
    while (!text.empty()) {
        std::string_view word = text.substr(0, text.find(','));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        std::size_t open = word.find('['), dash = word.find('-', open == std::string_view::npos ? 0 : open);
        if (open == std::string_view::npos) {
            out.emplace_back(word);
            continue;
        }
        unsigned first = 0, last = 0;
        if (dash == std::string_view::npos || !word.ends_with(']') ||
            std::from_chars(&word[open + 1], &word[dash], first).ptr != &word[dash] ||
            std::from_chars(&word[dash + 1], &word.back(), last).ptr != &word.back())
            return Error{"\"" + std::string(word) + "\" is no list of nodes"};
        for (unsigned i = first; i <= last; ++i)
            out.push_back(std::string(word.substr(0, open)) + std::to_string(i));
    }
    return out;
}

std::string rfc3339(std::chrono::system_clock::time_point time) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

}  // namespace berth::hollow
