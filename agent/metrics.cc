#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "agent/metrics.h"

#include <fmt/format.h>
#include <slurm/slurm_version.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "agent/log.h"

namespace berth::metrics {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

template <class Enum>
constexpr std::size_t at(Enum value) {
    return static_cast<std::size_t>(value);
}

constexpr std::array<std::string_view, 7> verbs{"GET", "POST", "PUT", "PATCH", "DELETE", "WATCH", "other"};
constexpr std::array<std::string_view, 10> codes{"2xx", "401", "403", "404", "409", "410", "429", "4xx", "5xx", "none"};
constexpr std::array<std::string_view, rpc_count> rpc_names{"submit", "load_job", "load_jobs", "load_nodes", "load_partitions", "load_config",
                                                            "announce", "update_job", "complete_job", "cancel_job", "update_node"};
constexpr std::array<std::string_view, 3> outcome_names{"ok", "refused", "failed"};
constexpr std::array<std::string_view, healed_count> healed_names{"missed_end", "unknown_job", "orphan_job", "jobless_pods", "unnoticed_job", "lost_job"};
constexpr std::array<std::string_view, drain_count> drain_names{"kubernetes", "pod"};

std::array<std::array<Count, codes.size()>, verbs.size()> api_calls{};
std::array<std::array<Count, outcome_names.size()>, rpc_count> rpcs{};
std::array<Count, healed_count> healings{};
std::array<Count, drain_count> drains{};

std::size_t code_of(int status) {
    if (status == 0)
        return codes.size() - 1;
    if (status >= 200 && status < 300)
        return 0;
    for (std::size_t i = 1; i <= 6; ++i)
        if (codes[i] == std::to_string(status))
            return i;
    return status >= 500 ? 8 : 7;
}

// Reasons are slurmctld's words, but a label must not break whatever they are.
std::string escaped(std::string_view value) {
    std::string out;
    for (const char c : value) {
        if (c == '\\' || c == '"')
            out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out;
}

void head(std::string &out, std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(out), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

template <class Number>
void line(std::string &out, std::string_view name, std::string_view labels, Number value) {
    fmt::format_to(std::back_inserter(out), "{}{}{}{} {}\n", name, labels.empty() ? "" : "{", labels, labels.empty() ? "" : "}", value);
}

void by_label(std::string &out, std::string_view name, std::string_view label, const std::map<std::string, std::uint64_t> &values) {
    for (const auto &[key, value] : values)
        line(out, name, fmt::format("{}=\"{}\"", label, escaped(key)), value);
}

void write_counts(std::string &out) {
    head(out, "berth_kubernetes_requests_total", "counter", "Requests to the Kubernetes API by method and status; none: no answer.");
    for (std::size_t v = 0; v < verbs.size(); ++v)
        for (std::size_t c = 0; c < codes.size(); ++c)
            if (const std::uint64_t count = api_calls[v][c].load(relaxed); count != 0 || (c == 0 && v + 1 < verbs.size()))
                line(out, "berth_kubernetes_requests_total", fmt::format("verb=\"{}\",code=\"{}\"", verbs[v], codes[c]), count);
    head(out, "berth_slurm_requests_total", "counter", "Requests to slurmctld by kind and outcome; refused: it answered no, failed: it did not answer.");
    for (std::size_t k = 0; k < rpc_count; ++k)
        for (std::size_t o = 0; o < outcome_names.size(); ++o)
            line(out, "berth_slurm_requests_total", fmt::format("kind=\"{}\",outcome=\"{}\"", rpc_names[k], outcome_names[o]), rpcs[k][o].load(relaxed));
    head(out, "berth_healed_total", "counter", "Lost events that a slow comparison found and put right.");
    for (std::size_t i = 0; i < healed_count; ++i)
        line(out, "berth_healed_total", fmt::format("what=\"{}\"", healed_names[i]), healings[i].load(relaxed));
    head(out, "berth_node_drains_total", "counter", "Slurm nodes that Berth has drained.");
    for (std::size_t i = 0; i < drain_count; ++i)
        line(out, "berth_node_drains_total", fmt::format("cause=\"{}\"", drain_names[i]), drains[i].load(relaxed));
    head(out, "berth_log_lines_dropped_total", "counter", "Lines of the log that a slow reader made it drop.");
    line(out, "berth_log_lines_dropped_total", "", log::dropped());
}

void write_controller(std::string &out, const Gauges &now) {
    head(out, "berth_leader", "gauge", "Whether this controller leads.");
    line(out, "berth_leader", "", now.leader ? 1 : 0);
    head(out, "berth_queue_workloads", "gauge", "Workloads that wait, by reason.");
    by_label(out, "berth_queue_workloads", "reason", now.queue);
    head(out, "berth_workloads", "gauge", "Workloads by state (docs/lifecycle.md).");
    by_label(out, "berth_workloads", "state", now.workloads);
    head(out, "berth_nodes", "gauge", "Nodes that Slurm has.");
    line(out, "berth_nodes", "", now.nodes);
    head(out, "berth_nodes_drained", "gauge", "Nodes that are drained in Slurm, by whose sake.");
    by_label(out, "berth_nodes_drained", "cause", now.drained_nodes);
    head(out, "berth_slurm_answer_age_seconds", "gauge", "Seconds since slurmctld last told of its jobs.");
    if (now.slurm_age >= 0)
        line(out, "berth_slurm_answer_age_seconds", "", now.slurm_age);
}

}  // namespace

Histogram created_to_bound_at_once, created_to_bound_queued, allocated_to_bound, hold_after_job, hold_after_pod;

void Histogram::observe(double seconds) {
    seconds = std::max(seconds, 0.0);
    const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
    buckets_[static_cast<std::size_t>(bucket)].fetch_add(1, relaxed);
    microseconds_.fetch_add(static_cast<std::uint64_t>(seconds * 1e6), relaxed);
}

void Histogram::write(std::string &out, std::string_view name, std::string_view labels) const {
    const std::string_view comma = labels.empty() ? "" : ",";
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
        sum += buckets_[i].load(relaxed);
        const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
        line(out, fmt::format("{}_bucket", name), fmt::format("{}{}le=\"{}\"", labels, comma, bound), sum);
    }
    line(out, fmt::format("{}_sum", name), labels, static_cast<double>(microseconds_.load(relaxed)) / 1e6);
    line(out, fmt::format("{}_count", name), labels, sum);
}

void api_call(std::string_view method, bool watch, int status) {
    const auto verb = std::find(verbs.begin(), verbs.end() - 1, watch ? "WATCH" : method);
    api_calls[static_cast<std::size_t>(verb - verbs.begin())][code_of(status)].fetch_add(1, relaxed);
}

void rpc(Rpc kind, RpcOutcome outcome) { rpcs[at(kind)][at(outcome)].fetch_add(1, relaxed); }

void healed(Healed what) { healings[at(what)].fetch_add(1, relaxed); }

void drained(Drain why) { drains[at(why)].fetch_add(1, relaxed); }

std::string text(const Gauges &now) {
    std::string out;
    head(out, "berth_build_info", "gauge", "Always 1; the labels say what runs.");
    line(out, "berth_build_info", fmt::format("version=\"{}\",slurm=\"{}.{:02}\"", PACKAGE_VERSION, SLURM_VERSION_MAJOR(SLURM_VERSION_NUMBER), SLURM_VERSION_MINOR(SLURM_VERSION_NUMBER)), 1);
    head(out, "berth_ready", "gauge", "Whether /readyz says so.");
    line(out, "berth_ready", "", now.ready ? 1 : 0);
    if (now.controller)
        write_controller(out, now);
    head(out, "berth_create_to_bound_seconds", "histogram", "From a pod's creation until it was bound, as the controller saw it.");
    created_to_bound_at_once.write(out, "berth_create_to_bound_seconds", "start=\"at_once\"");
    created_to_bound_queued.write(out, "berth_create_to_bound_seconds", "start=\"queued\"");
    head(out, "berth_allocation_to_bound_seconds", "histogram", "From the prolog's word of the allocation until the pod was bound, on its node.");
    allocated_to_bound.write(out, "berth_allocation_to_bound_seconds", "");
    head(out, "berth_hold_seconds", "histogram", "From the end of the job or of the pod until the pod was proven gone, on its node.");
    hold_after_job.write(out, "berth_hold_seconds", "end=\"job\"");
    hold_after_pod.write(out, "berth_hold_seconds", "end=\"pod\"");
    write_counts(out);
    return out;
}

}  // namespace berth::metrics
