#include "agent/slurm/queue.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "agent/slurm/queue_rows.h"
#include "agent/slurm/session.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

namespace {

std::string text(const char *from) { return from != nullptr ? from : ""; }

JobState state_of(std::uint32_t state) {
    switch (state & JOB_STATE_BASE) {
    case JOB_PENDING: return JobState::pending;
    case JOB_RUNNING: return JobState::running;
    case JOB_SUSPENDED: return JobState::suspended;
    default: return JobState::ended;
    }
}

bool share_a_partition(std::string_view one, std::string_view other) {
    while (!one.empty()) {
        const std::size_t comma = std::min(one.find(','), one.size());
        const std::string_view name = one.substr(0, comma);
        for (std::string_view rest = other; !rest.empty();) {
            const std::size_t end = std::min(rest.find(','), rest.size());
            if (rest.substr(0, end) == name)
                return true;
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
        one.remove_prefix(std::min(comma + 1, one.size()));
    }
    return false;
}

std::string state_words(std::uint32_t state, bool some_free) {
    std::string out;
    switch (state & NODE_STATE_BASE) {
    case NODE_STATE_DOWN: out = "down"; break;
    case NODE_STATE_IDLE: out = "idle"; break;
    case NODE_STATE_ALLOCATED: out = some_free ? "mixed" : "allocated"; break;
    case NODE_STATE_ERROR: out = "error"; break;
    case NODE_STATE_MIXED: out = "mixed"; break;
    case NODE_STATE_FUTURE: out = "future"; break;
    default: out = "unknown";
    }
    if ((state & NODE_STATE_COMPLETING) != 0 && out != "down")
        out += "+completing";
    if ((state & NODE_STATE_DRAIN) != 0)
        out += "+drain";
    if ((state & NODE_STATE_FAIL) != 0)
        out += "+fail";
    if ((state & NODE_STATE_MAINT) != 0)
        out += "+maint";
    if ((state & NODE_STATE_NO_RESPOND) != 0)
        out += "*";
    return out;
}

}  // namespace

QueuedJob to_queued(const slurm_job_info_t &info) {
    QueuedJob job;
    job.id = slurm_api::job_id(info);
    job.state = state_of(info.job_state);
    job.completing = (info.job_state & JOB_COMPLETING) != 0;
    job.state_name = slurm_job_state_string(info.job_state & JOB_STATE_BASE);
    job.reason = slurm_api::reason_string(info.state_reason);
    job.reason_detail = text(info.state_desc);
    std::replace(job.reason_detail.begin(), job.reason_detail.end(), '_', ' ');
    job.name = text(info.name);
    job.partition = text(info.partition);
    job.account = text(info.account);
    job.qos = text(info.qos);
    job.uid = info.user_id;
    job.priority = info.priority;
    job.cpus = info.num_cpus;
    job.node_count = info.num_nodes;
    job.time_limit_minutes = info.time_limit == INFINITE || info.time_limit == NO_VAL ? 0 : info.time_limit;
    job.submit_time = info.submit_time;
    job.start_time = info.start_time;
    job.end_time = info.end_time;
    job.exit_status = info.exit_code;
    job.nodes = text(info.nodes);
    std::string why;
    if (info.admin_comment != nullptr && looks_like_ticket(info.admin_comment))
        job.ticket = parse_ticket(info.admin_comment, why);
    return job;
}

QueueNode to_queue_node(const node_info_t &info) {
    QueueNode node;
    node.name = info.name;
    node.cpus = info.cpus_efctv != 0 ? info.cpus_efctv : info.cpus;
    node.memory_mib = info.real_memory - std::min(info.real_memory, info.mem_spec_limit);
    slurm_api::allocated(info, node.cpus_allocated, node.memory_mib_allocated);
    node.state = state_words(info.node_state, node.cpus_allocated > 0 && node.cpus_allocated < node.cpus);
    if (node.state.starts_with("idle") && node.cpus_allocated > 0)
        node.state.replace(0, 4, "mixed");
    node.reason = text(info.reason);
    const std::uint32_t base = info.node_state & NODE_STATE_BASE;
    node.usable = base != NODE_STATE_DOWN && base != NODE_STATE_ERROR && base != NODE_STATE_UNKNOWN && base != NODE_STATE_FUTURE &&
                  (info.node_state & (NODE_STATE_DRAIN | NODE_STATE_FAIL | NODE_STATE_NO_RESPOND)) == 0;
    node.version = text(info.version);
    node.gres = text(info.gres);
    node.gres_used = text(info.gres_used);
    return node;
}

void NativeJobs::add(const QueuedJob &job) {
    if (job.pending())
        ++pending;
    if (job.pending() || (!job.lives() && !job.completing))
        return;
    ++running;
    for (const std::string &host : expand_hosts(job.nodes)) {
        OnHost &here = by_host[host];
        if (++here.count <= most_named)
            here.names.push_back(std::to_string(job.id) + " " + job.name);
    }
}

Result<std::vector<QueuedJob>> load_queue() {
    job_info_msg_t *raw = nullptr;
    if (slurm_load_jobs(0, &raw, SHOW_ALL) != SLURM_SUCCESS)
        return Error{"asking slurmctld for its jobs: " + last_error()};
    const std::unique_ptr<job_info_msg_t, decltype(&slurm_api::free_jobs)> jobs(raw, slurm_api::free_jobs);
    std::vector<QueuedJob> queue;
    for (std::uint32_t i = 0; i < jobs->record_count; ++i)
        queue.push_back(to_queued(jobs->job_array[i]));
    return queue;
}

std::size_t ahead_of(const QueuedJob &job, const std::vector<QueuedJob> &queue) {
    return static_cast<std::size_t>(std::count_if(queue.begin(), queue.end(), [&job](const QueuedJob &other) {
        return other.pending() && other.id != job.id && other.priority > job.priority && share_a_partition(other.partition, job.partition);
    }));
}

Result<std::vector<QueueNode>> load_queue_nodes() {
    node_info_msg_t *raw = nullptr;
    if (slurm_load_node(0, &raw, SHOW_ALL) != SLURM_SUCCESS)
        return Error{"asking slurmctld for its nodes: " + last_error()};
    const std::unique_ptr<node_info_msg_t, decltype(&slurm_free_node_info_msg)> nodes(raw, slurm_free_node_info_msg);
    std::vector<QueueNode> out;
    for (std::uint32_t i = 0; i < nodes->record_count; ++i)
        if (const char *name = nodes->node_array[i].name; name != nullptr && *name != '\0')  // holes of deleted nodes
            out.push_back(to_queue_node(nodes->node_array[i]));
    return out;
}

}  // namespace berth::slurm
