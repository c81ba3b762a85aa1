#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "agent/web/status.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>

#include "agent/json_object.h"
#include "agent/log.h"

namespace berth::web {

namespace {

JsonObject json(const Share &share) { return JsonObject().add("total", share.total).add("pods", share.pods).add("jobs", share.jobs); }

JsonObject json(const NodeView &node) {
    JsonObject out;
    out.add("name", node.name).add("slurm", node.slurm).add("kubernetes", node.kubernetes).add("reason", node.reason);
    out.add("cpus", json(node.cpus)).add("memory_mib", json(node.memory_mib)).add("gpus", json(node.gpus));
    out.add("pods", node.pods).add("pod_count", node.pod_count).add("jobs", node.jobs).add("job_count", node.job_count);
    return out;
}

JsonObject json(const WorkloadView &w) {
    JsonObject out;
    out.add("namespace", w.ns).add("name", w.name).add("kind", w.kind).add("gang", w.gang).add("state", w.state).add("reason", w.reason);
    out.add("nodes", w.nodes).add("job", w.job).add("pods", w.pods).add("here", w.here).add("bound", w.bound).add("cpus", w.cpus);
    out.add("created", w.created).add("start", w.start).add("end", w.end);
    return out;
}

JsonObject json(const Landing &landing) {
    return JsonObject().add("at", landing.at).add("seconds", landing.seconds).add("queued", landing.queued).add("name", landing.name);
}

JsonObject json(const LogLine &line) { return JsonObject().add("at", line.at).add("level", line.level).add("text", line.text); }

template <class View>
std::vector<JsonObject> json_list(const std::vector<View> &views) {
    std::vector<JsonObject> out;
    out.reserve(views.size());
    for (const View &view : views)
        out.push_back(json(view));
    return out;
}

JsonObject &add_age(JsonObject &out, std::string_view key, double age) { return age < 0 ? out.add_null(key) : out.add(key, age); }

}  // namespace

Status status_of_process() {
    const auto seconds = [](std::chrono::system_clock::time_point when) {
        return std::chrono::duration<double>(when.time_since_epoch()).count();
    };
    Status status;
    status.now = seconds(std::chrono::system_clock::now());
    status.version = PACKAGE_VERSION;
    for (log::Line &line : log::recent())
        status.events.push_back({seconds(line.when),
                                 line.level == log::Level::error     ? "error"
                                 : line.level == log::Level::warning ? "warning"
                                                                     : "info",
                                 std::move(line.text)});
    return status;
}

Share Share::of(std::uint64_t total, std::uint64_t allocated, std::uint64_t pods, bool native_jobs) {
    allocated = std::min(allocated, total);
    if (!native_jobs)
        return {total, allocated, 0};
    pods = std::min(pods, allocated);
    return {total, pods, allocated - pods};
}

std::string to_json(const Status &status) {
    JsonObject ages;
    add_age(ages, "jobs", status.jobs_age);
    add_age(ages, "nodes", status.nodes_age);
    add_age(ages, "native", status.native_age);
    JsonObject counts;
    counts.add("waiting", status.waiting).add("running", status.running).add("native_running", status.native_running);
    counts.add("native_pending", status.native_pending);
    counts.add("workloads_left_out", status.workloads_left_out).add("nodes_left_out", status.nodes_left_out);
    JsonObject out;
    out.add("now", status.now).add("version", status.version).add("cluster", status.cluster).add("identity", status.identity);
    out.add("role", status.role).add("leader", status.leader).add("term", status.term).add("waits_for", status.waits_for);
    out.add("kubernetes_reachable", status.kubernetes_reachable).add("ages", ages).add("counts", counts);
    out.add("nodes", json_list(status.nodes)).add("workloads", json_list(status.workloads));
    out.add("landings", json_list(status.landings)).add("events", json_list(status.events));
    return out.text();
}

std::uint64_t gpus_in(const std::string &gres) {
    std::uint64_t sum = 0;
    // Commas inside parentheses belong to one device: "gpu:a100:2(IDX:0,2)".
    std::string_view rest = gres;
    while (!rest.empty()) {
        std::size_t end = 0;
        for (int depth = 0; end < rest.size() && (depth > 0 || rest[end] != ','); ++end)
            depth += rest[end] == '(' ? 1 : rest[end] == ')' ? -1 : 0;
        std::string_view one = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (one.ends_with(')'))
            one = one.substr(0, one.rfind('('));  // "gpu:(null):0(IDX:N/A)" has others
        if (one != "gpu" && !one.starts_with("gpu:"))
            continue;
        const std::string_view last = one.substr(one.rfind(':') + 1);
        std::uint64_t count = 1;  // "gpu" and "gpu:a100" are one
        if (const auto [stop, error] = std::from_chars(last.data(), last.data() + last.size(), count);
            error != std::errc() || stop != last.data() + last.size())
            count = 1;
        sum += count;
    }
    return sum;
}

}  // namespace berth::web
