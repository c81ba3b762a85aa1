#include "agent/slurm/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <memory>

#include "proto/slurm_api.h"

extern "C" {
[[gnu::weak]] extern slurm_conf_t slurm_conf;  // libslurm's own copy of slurm.conf
}

namespace berth::slurm {

namespace {

// Waiting longer than slurmctld may be busy beats submitting twice: a reply that finds no reader costs the job.
constexpr std::uint16_t least_message_timeout = 100;

std::string last_error() { return slurm_strerror(slurm_api::last_errno()); }

// slurmctld's own refusals have numbers from 2000 on; below are failures to talk to it.
bool refused_by_slurmctld(int error) { return error >= 2000 && error < 10000; }

bool ended_already(int error) {
    return error == ESLURM_ALREADY_DONE || error == ESLURM_INVALID_JOB_ID;
}

char *text(const std::string &s) { return s.empty() ? nullptr : const_cast<char *>(s.c_str()); }

Job to_job(const slurm_job_info_t &info, Ticket ticket) {
    Job job;
    job.id = slurm_api::job_id(info);
    switch (info.job_state & JOB_STATE_BASE) {
    case JOB_PENDING: job.state = JobState::pending; break;
    case JOB_RUNNING: job.state = JobState::running; break;
    case JOB_SUSPENDED: job.state = JobState::suspended; break;
    default: job.state = JobState::ended;
    }
    job.completing = (info.job_state & JOB_COMPLETING) != 0;
    job.state_name = slurm_job_state_string(info.job_state & JOB_STATE_BASE);
    job.reason = slurm_api::reason_string(info.state_reason);
    if (info.state_desc != nullptr && *info.state_desc != '\0') {
        std::string detail = info.state_desc;
        std::replace(detail.begin(), detail.end(), '_', ' ');
        job.reason += " (" + detail + ")";
    }
    job.uid = info.user_id;
    job.exit_status = info.exit_code;
    job.cpus = info.num_cpus;
    job.tasks = info.num_tasks;
    job.nodes = info.nodes != nullptr ? info.nodes : "";
    job.memory_mib_per_node = (info.pn_min_memory & MEM_PER_CPU) != 0 ? (info.pn_min_memory & ~MEM_PER_CPU) * info.num_cpus
                                                                      : info.pn_min_memory;
    job.start_time = info.start_time;
    job.ticket = std::move(ticket);
    return job;
}

using Jobs = std::unique_ptr<job_info_msg_t, decltype(&slurm_api::free_jobs)>;

std::optional<Ticket> ticket_of(const slurm_job_info_t &info) {
    std::string why;
    if (info.admin_comment == nullptr || !looks_like_ticket(info.admin_comment))
        return std::nullopt;
    return parse_ticket(info.admin_comment, why);
}

}  // namespace

std::string Job::end_word() const {
    std::string out = "Slurm";
    bool up = true;
    for (const char c : state_name) {
        if (c != '_')
            out.push_back(up ? c : static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
        up = c == '_';
    }
    return out;
}

std::string Job::end_sentence() const { return fmt::format("Slurm job {} ended before its pod: {}", id, state_name); }

bool Job::has_node(const std::string &node) const {
    const auto list = slurm_hostlist_create(nodes.c_str());
    if (list == nullptr)
        return false;
    const bool found = slurm_hostlist_find(list, node.c_str()) >= 0;
    slurm_hostlist_destroy(list);
    return found;
}

void start() {
    slurm_init(nullptr);
    if (&slurm_conf != nullptr)
        slurm_conf.msg_timeout = std::max(slurm_conf.msg_timeout, least_message_timeout);
}

std::uint32_t slurm_user() { return &slurm_conf != nullptr ? slurm_conf.slurm_user_id : 0; }

std::uint16_t inactive_limit() { return &slurm_conf != nullptr ? slurm_conf.inactive_limit : 0; }

Submission submit(const std::vector<Placeholder> &parts, const std::vector<Ticket> &tickets, std::uint16_t doorbell_port) {
    const Placeholder &p = parts.front();
    const Ticket &ticket = tickets.front();
    const std::string admin_comment = to_json(ticket);
    const std::string unsealed = std::string(ticket_variable) + "=unsealed";
    char *variables[] = {const_cast<char *>(unsealed.c_str()), nullptr};
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    std::string tres;
    for (const auto &[name, count] : p.gres)
        tres += fmt::format("{}{}{}:{}", tres.empty() ? "" : ",", slurm_api::gres_prefix, name, count);

    job_desc_msg_t d;
    slurm_init_job_desc_msg(&d);
    d.name = text(p.job_name);
    d.comment = text(p.comment);
    d.admin_comment = text(admin_comment);
    d.spank_job_env = variables;
    d.spank_job_env_size = 1;
    d.user_id = p.uid;
    d.group_id = p.gid;
    d.account = text(p.account);
    d.partition = text(p.partition);
    d.qos = text(p.qos);
    d.reservation = text(p.reservation);
    d.features = text(p.constraints);
    d.licenses = text(p.licenses);
    d.wckey = text(p.wckey);
    d.tres_per_node = text(tres);
    d.num_tasks = p.tasks;
    d.cpus_per_task = p.cpus_per_task;
    d.min_cpus = p.tasks * p.cpus_per_task;
    d.pn_min_memory = p.memory_mib;
    d.min_nodes = p.min_nodes;
    d.max_nodes = p.max_nodes;
    if (p.time_limit_minutes != 0)
        d.time_limit = p.time_limit_minutes;
    if (p.priority)
        d.priority = *p.priority;
    if (p.exclusive)
        d.shared = 0;
    d.requeue = 0;
    d.kill_on_node_fail = 1;
    d.alloc_node = host;
    d.alloc_sid = static_cast<std::uint32_t>(getsid(0));
    d.alloc_resp_port = 0;
    d.other_port = doorbell_port;
    char work_dir[] = "/";
    d.work_dir = work_dir;

    resource_allocation_response_msg_t *answer = nullptr;
    Submission result;
    if (slurm_allocate_resources(&d, &answer) != SLURM_SUCCESS || answer == nullptr) {
        const int error = slurm_api::last_errno();
        result.problem = last_error();
        result.outcome = refused_by_slurmctld(error) ? Submission::Outcome::refused : Submission::Outcome::unsure;
        return result;
    }
    result.job = slurm_api::job_id(*answer);
    result.outcome = answer->node_cnt > 0 ? Submission::Outcome::running : Submission::Outcome::queued;
    slurm_free_resource_allocation_response_msg(answer);
    return result;
}

Result<std::optional<Job>> load(std::uint32_t job) {
    job_info_msg_t *raw = nullptr;
    if (slurm_api::load_job(&raw, job) != SLURM_SUCCESS) {
        if (slurm_api::last_errno() == ESLURM_INVALID_JOB_ID)
            return std::optional<Job>();
        return Error{fmt::format("asking slurmctld for job {}: {}", job, last_error())};
    }
    const Jobs jobs(raw, slurm_api::free_jobs);
    for (std::uint32_t i = 0; i < jobs->record_count; ++i)
        if (slurm_api::job_id(jobs->job_array[i]) == job)
            if (auto ticket = ticket_of(jobs->job_array[i]))
                return std::optional<Job>(to_job(jobs->job_array[i], std::move(*ticket)));
    return std::optional<Job>();
}

static Result<bool> is_placeholder_of(std::uint32_t job, const std::string &pod_uid) {
    const auto found = load(job);
    if (!found)
        return Error{found.error()};
    return *found && (*found)->ticket.uid == pod_uid;
}

Result<std::vector<Job>> load_all(const std::string &cluster) {
    job_info_msg_t *raw = nullptr;
    if (slurm_load_jobs(0, &raw, SHOW_ALL) != SLURM_SUCCESS)
        return Error{"asking slurmctld for its jobs: " + last_error()};
    const Jobs jobs(raw, slurm_api::free_jobs);
    std::vector<Job> found;
    for (std::uint32_t i = 0; i < jobs->record_count; ++i)
        if (auto ticket = ticket_of(jobs->job_array[i]); ticket && ticket->cluster == cluster)
            found.push_back(to_job(jobs->job_array[i], std::move(*ticket)));
    return found;
}

std::time_t boot_time() {
    slurm_conf_t *conf = nullptr;
    if (slurm_load_ctl_conf(0, &conf) != SLURM_SUCCESS)
        return 0;
    const std::time_t booted = conf->boot_time;
    slurm_api::free_conf(conf);
    return booted;
}

Result<void> complete(std::uint32_t job, const std::string &pod_uid, std::uint32_t wait_status) {
    const auto ours = is_placeholder_of(job, pod_uid);
    if (!ours)
        return Error{ours.error()};
    if (!*ours || slurm_api::complete_job(job, wait_status) == SLURM_SUCCESS || ended_already(slurm_api::last_errno()))
        return {};
    return Error{fmt::format("completing job {}: {}", job, last_error())};
}

Result<void> cancel(std::uint32_t job, const std::string &pod_uid) {
    const auto ours = is_placeholder_of(job, pod_uid);
    if (!ours)
        return Error{ours.error()};
    if (!*ours || slurm_api::kill_job(job, SIGKILL) == SLURM_SUCCESS || ended_already(slurm_api::last_errno()))
        return {};
    return Error{fmt::format("cancelling job {}: {}", job, last_error())};
}

}  // namespace berth::slurm
