#include "agent/tool/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "agent/keys.h"
#include "agent/json_object.h"
#include "agent/tool/moments.h"
#include "agent/tool/table.h"

namespace berth::tool {

namespace {

std::vector<NodeRow> node_rows(const std::vector<NodePair> &pairs, const std::vector<slurm::QueuedJob> &queue,
                               const std::vector<kube::Pod> &pods) {
    std::map<std::string, std::size_t> pods_on, jobs_on;
    for (const kube::Pod &pod : pods)
        if (!pod.node_name.empty() && !pod.terminal())
            ++pods_on[pod.node_name];
    for (const slurm::QueuedJob &job : queue)
        if (job.lives() && !job.pending() && !job.ticket)
            for (const std::string &host : slurm::expand_hosts(job.nodes))
                ++jobs_on[host];
    std::vector<NodeRow> rows;
    for (const NodePair &pair : pairs) {
        NodeRow row;
        row.name = pair.name();
        row.slurm = "-";
        if (pair.slurm != nullptr) {
            row.slurm = pair.slurm->state;
            row.reason = pair.slurm->usable ? "" : pair.slurm->reason;
            row.cpus = pair.slurm->cpus;
            row.cpus_allocated = pair.slurm->cpus_allocated;
            row.memory_mib = pair.slurm->memory_mib;
            row.memory_mib_allocated = pair.slurm->memory_mib_allocated;
            row.native_jobs = jobs_on[pair.slurm->name];
        }
        row.kubernetes = kube::state_words(pair.kube);
        row.pods = pair.kube != nullptr ? pods_on[pair.kube->name] : 0;
        rows.push_back(std::move(row));
    }
    return rows;
}

// One row for each placeholder that lives; the parts of a heterogeneous one are one.
std::map<std::string, WorkloadRow> placeholder_rows(const std::vector<slurm::QueuedJob> &queue, const std::string &cluster,
                                                    const std::string &ns) {
    std::map<std::string, WorkloadRow> rows;  // by nonce
    for (const slurm::QueuedJob &job : queue) {
        if (!job.ticket || (!job.lives() && !job.completing) || (!cluster.empty() && job.ticket->cluster != cluster) ||
            (!ns.empty() && job.ticket->ns != ns))
            continue;
        WorkloadRow &row = rows[job.ticket->nonce];
        if (row.job != 0 && row.job < job.id) {
            if (!job.nodes.empty())
                row.nodes += (row.nodes.empty() ? "" : ",") + job.nodes;
            continue;
        }
        row.ns = job.ticket->ns;
        row.name = job.ticket->name;
        row.kind = job.ticket->kind;
        row.pods = job.ticket->single() ? 1 : job.ticket->gang;
        row.job = job.id;
        row.state = job.completing ? "COMPLETING" : job.state_name;
        row.nodes = job.nodes + (row.nodes.empty() ? "" : "," + row.nodes);
        row.reason = job.pending() ? job.reason : "";
        row.since = job.pending() ? job.submit_time : job.start_time;
    }
    return rows;
}

bool covered(const kube::Pod &pod, const std::vector<slurm::QueuedJob> &queue) {
    return std::any_of(queue.begin(), queue.end(), [&pod](const slurm::QueuedJob &job) {
        return job.ticket && job.lives() && job.ticket->ns == pod.ns &&
               (job.ticket->uid == pod.uid ||
                (!job.ticket->single() && !pod.owner.uid.empty() && job.ticket->uid.starts_with(pod.owner.uid)));
    });
}

WorkloadRow without_job(const kube::Pod &pod) {
    WorkloadRow row;
    row.ns = pod.ns;
    row.name = pod.name;
    row.kind = "Pod";
    row.since = pod.created;
    const bool told = pod.scheduled_status == "False" && !pod.scheduled_message.empty();
    row.state = pod.gated ? "Gated" : told && pod.scheduled_reason == "WaitingForGang" ? "Gathering" : told ? "Refused" : "New";
    row.reason = told && !pod.gated ? pod.scheduled_message : "";
    return row;
}

std::string of(std::uint64_t part, std::uint64_t whole) { return fmt::format("{}/{}", part, whole); }

JsonObject &add_count(JsonObject &object, std::string_view key, std::size_t count, bool known) {
    return known ? object.add(key, count) : object.add_null(key);
}

Tone slurm_tone(const NodeRow &row) { return row.reason.empty() && !row.slurm.starts_with("down") ? Tone::plain : Tone::bad; }

Tone kube_tone(std::string_view state) {
    return state.starts_with("not ready") ? Tone::bad : state.ends_with("cordoned") ? Tone::waiting : Tone::plain;
}

Tone workload_tone(std::string_view state) {
    return state == "RUNNING" ? Tone::good : state == "Refused" ? Tone::bad : Tone::waiting;
}

}  // namespace

Overview make_overview(const std::vector<NodePair> &pairs, const std::vector<slurm::QueuedJob> &queue, const std::vector<kube::Pod> &pods,
                       const std::string &cluster, const std::string &ns) {
    Overview out;
    out.nodes = node_rows(pairs, queue, pods);
    auto rows = placeholder_rows(queue, cluster, ns);
    for (const kube::Pod &pod : pods) {
        if (pod.terminal() || (!ns.empty() && pod.ns != ns))
            continue;
        const auto row = rows.find(std::string(pod.annotation(keys::nonce)));
        if (row != rows.end() && !pod.node_name.empty())
            ++row->second.bound;
        else if (pod.node_name.empty() && !pod.deleting && !covered(pod, queue) && !pod.scheduled_message.starts_with("Slurm job "))
            out.workloads.push_back(without_job(pod));
    }
    for (auto &[nonce, row] : rows)
        out.workloads.push_back(std::move(row));
    std::sort(out.workloads.begin(), out.workloads.end(), [](const WorkloadRow &one, const WorkloadRow &other) {
        return std::tie(one.ns, one.name, one.job) < std::tie(other.ns, other.name, other.job);
    });
    return out;
}

std::string to_text(const Overview &overview, std::time_t now, const Paint &paint) {
    Table nodes({"NODE", "SLURM", "CPUS", "MEMORY MiB", "KUBERNETES", "PODS", "JOBS", "REASON"});
    for (const NodeRow &row : overview.nodes)
        nodes.add({row.name, Cell(row.slurm, slurm_tone(row)), row.slurm == "-" ? "-" : of(row.cpus_allocated, row.cpus),
                   row.slurm == "-" ? "-" : of(row.memory_mib_allocated, row.memory_mib), Cell(overview.kube_nodes_known ? row.kubernetes : "?", kube_tone(row.kubernetes)),
                   overview.pods_known ? std::to_string(row.pods) : "?", std::to_string(row.native_jobs), row.reason});
    Table workloads({"WORKLOAD", "KIND", "BOUND", "JOB", "STATE", "SINCE", "NODES OR REASON"});
    for (const WorkloadRow &row : overview.workloads)
        workloads.add({row.ns + "/" + row.name, row.kind, overview.pods_known ? of(row.bound, row.pods) : fmt::format("?/{}", row.pods),
                       row.job == 0 ? "-" : std::to_string(row.job), Cell(row.state, workload_tone(row.state)), row.since == 0 ? "-" : duration_words(now - row.since),
                       row.nodes.empty() ? row.reason : row.nodes});
    std::string out = nodes.text(paint) + "\n" + (workloads.empty() ? "No workloads.\n" : workloads.text(paint));
    for (const std::string &note : overview.notes)
        out += fmt::format("note: {}\n", note);
    return out;
}

std::string to_json(const Overview &overview) {
    std::vector<JsonObject> nodes, workloads;
    for (const NodeRow &row : overview.nodes) {
        JsonObject one;
        one.add("name", row.name)
            .add("slurm", row.slurm)
            .add("reason", row.reason)
            .add("cpus", row.cpus)
            .add("cpus_allocated", row.cpus_allocated);
        one.add("memory_mib", row.memory_mib).add("memory_mib_allocated", row.memory_mib_allocated);
        one.add("kubernetes", overview.kube_nodes_known ? row.kubernetes : "?");
        add_count(one, "pods", row.pods, overview.pods_known).add("native_jobs", row.native_jobs);
        nodes.push_back(one);
    }
    for (const WorkloadRow &row : overview.workloads) {
        JsonObject one;
        one.add("namespace", row.ns).add("name", row.name).add("kind", row.kind);
        add_count(one, "bound", row.bound, overview.pods_known).add("pods", row.pods).add("job", row.job).add("state", row.state);
        one.add("nodes", row.nodes).add("reason", row.reason).add_time("since", row.since);
        workloads.push_back(one);
    }
    return JsonObject().add("nodes", nodes).add("workloads", workloads).add("notes", overview.notes).text();
}

}  // namespace berth::tool
