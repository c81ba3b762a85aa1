#include "agent/slurm/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <memory>

#include "agent/slurm/description.h"
#include "agent/slurm/het_submit.h"
#include "agent/slurm/hosts.h"
#include "agent/slurm/libslurm_log.h"
#include "agent/slurm/queue_rows.h"
#include "agent/slurm/reason.h"
#include "agent/slurm/session.h"
#include "agent/slurm/workers.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

namespace {

using metrics::Rpc;

bool ended_already(int error) {
    return error == ESLURM_ALREADY_DONE || error == ESLURM_INVALID_JOB_ID;
}

// Where the CPUs of each node are not known, one task's are the least that a node can have.
void set_memory(Job &job, const slurm_job_info_t &info) {
    if ((info.pn_min_memory & MEM_PER_CPU) == 0) {
        job.memory_mib_per_node = info.pn_min_memory;
        return;
    }
    job.memory_mib_per_cpu = info.pn_min_memory & ~MEM_PER_CPU;
    const std::uint32_t least = !job.cpus_by_node.empty() ? *std::min_element(job.cpus_by_node.begin(), job.cpus_by_node.end())
                                : info.num_nodes <= 1     ? info.num_cpus
                                                          : info.cpus_per_task;
    job.memory_mib_per_node = job.memory_mib_per_cpu * least;
}

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
    job.node_count = info.num_nodes;
    for (std::uint32_t i = 0; i < info.num_nodes && job.state != JobState::pending; ++i)
        if (const std::uint32_t cpus = slurm_api::cpus_on_node(info, static_cast<int>(i)); cpus != 0)
            job.cpus_by_node.push_back(cpus);
    for (std::uint32_t i = 0; i < info.gres_detail_cnt; ++i)
        job.gres_by_node.emplace_back(info.gres_detail_str[i] != nullptr ? info.gres_detail_str[i] : "");
    set_memory(job, info);
    job.het_leader = info.het_job_id != NO_VAL ? info.het_job_id : 0;
    job.end_time = info.end_time;
    job.preempt_time = info.preempt_time;
    job.suspend_time = info.suspend_time;
    job.ran_before = info.pre_sus_time;
    job.time_limit_minutes = info.time_limit < NO_VAL ? info.time_limit : 0;
    job.partition = info.partition != nullptr ? info.partition : "";
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
    for (const char c : preempting() ? "PREEMPTED" : state_name) {
        if (c != '_')
            out.push_back(up ? c : static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
        up = c == '_';
    }
    return out;
}

std::string Job::end_sentence() const {
    if (preempting())
        return fmt::format("Slurm job {} is preempted and ends at {}", id, utc_text(end_time));
    return fmt::format("Slurm job {} ended before its pod: {}", id, state_name);
}

// The time of a preemption is also set where jobs are suspended for others, and then the end stays where the time limit put it.
bool Job::preempting() const {
    constexpr std::time_t year = 365 * 24 * 3600;  // what Slurm takes a job without a limit to last
    const std::time_t lasts = time_limit_minutes != 0 ? std::time_t{time_limit_minutes} * 60 : year;
    const std::time_t limit = suspend_time != 0 ? suspend_time + lasts - ran_before : start_time + lasts;
    return active() && preempt_time != 0 && end_time < limit;
}

bool Job::has_node(const std::string &node) const {
    const auto list = slurm_hostlist_create(nodes.c_str());
    if (list == nullptr)
        return false;
    const bool found = slurm_hostlist_find(list, node.c_str()) >= 0;
    slurm_hostlist_destroy(list);
    return found;
}

Submission submit(const std::vector<Placeholder> &parts, const std::vector<Ticket> &tickets, std::uint16_t doorbell_port) {
    Request request{parts, {}, doorbell_port};
    for (const Ticket &ticket : tickets)
        request.tickets.push_back(to_json(ticket));
    for (Placeholder &part : request.parts)
        if (part.exclusive && part.tasks > 1 && part.tasks_per_node == 0) {
            const auto pods = pods_on_whole_node(part);
            if (!pods)
                return {Submission::Outcome::unsure, 0, pods.error()};
            part.tasks_per_node = *pods;
        }
    if (!may_write())
        return {Submission::Outcome::unsure, 0, Fence::closed_text};
    if (parts.size() > 1) {
        Submission answer = submit_het(request);
        using metrics::RpcOutcome;
        metrics::rpc(Rpc::submit, answer.outcome == Submission::Outcome::unsure ? RpcOutcome::failed : answer.job != 0 ? RpcOutcome::ok : RpcOutcome::refused);
        return answer;
    }

    Description description(request.parts.front(), request.tickets.front(), doorbell_port);
    resource_allocation_response_msg_t *answer = nullptr;
    const Sayings sayings;
    errno = 0;  // a failure that sets none is not the last one's
    if (counted(Rpc::submit, slurm_allocate_resources(&description.message(), &answer)) != SLURM_SUCCESS || answer == nullptr) {
        const int error = slurm_api::last_errno();
        return failed_submission(error, sayings.text());
    }
    Submission result;
    result.job = slurm_api::job_id(*answer);
    result.outcome = answer->node_cnt > 0 ? Submission::Outcome::running : Submission::Outcome::queued;
    slurm_free_resource_allocation_response_msg(answer);
    return result;
}

// All that slurmctld packs for this id: for the first part of a heterogeneous job every part. Only ours, and none when there is no such job.
static Result<std::vector<Job>> load_parts(std::uint32_t job) {
    job_info_msg_t *raw = nullptr;
    if (counted(Rpc::load_job, slurm_api::load_job(&raw, job)) != SLURM_SUCCESS) {
        if (slurm_api::last_errno() == ESLURM_INVALID_JOB_ID)
            return std::vector<Job>();
        return Error{fmt::format("asking slurmctld for job {}: {}", job, last_error())};
    }
    const Jobs jobs(raw, slurm_api::free_jobs);
    std::vector<Job> found;
    for (std::uint32_t i = 0; i < jobs->record_count; ++i)
        if (auto ticket = ticket_of(jobs->job_array[i]))
            found.push_back(to_job(jobs->job_array[i], std::move(*ticket)));
    return found;
}

// For versions whose job records no longer tell: the CPUs of each node, and with them its memory.
static void ask_for_cpus_by_node(Job &job) {
    resource_allocation_response_msg_t *answer = nullptr;
    if (slurm_api::lookup_allocation(job.id, &answer) != SLURM_SUCCESS || answer == nullptr)
        return;
    for (std::uint32_t i = 0; i < answer->num_cpu_groups; ++i)
        job.cpus_by_node.insert(job.cpus_by_node.end(), answer->cpu_count_reps[i], answer->cpus_per_node[i]);
    slurm_free_resource_allocation_response_msg(answer);
    if (job.memory_mib_per_cpu != 0 && !job.cpus_by_node.empty())
        job.memory_mib_per_node = job.memory_mib_per_cpu * *std::min_element(job.cpus_by_node.begin(), job.cpus_by_node.end());
}

Result<std::optional<Job>> load(std::uint32_t job) {
    auto parts = load_parts(job);
    if (!parts)
        return Error{parts.error()};
    for (Job &part : *parts)
        if (part.id == job) {
            if (part.active() && part.cpus_by_node.empty())
                ask_for_cpus_by_node(part);
            return std::optional<Job>(std::move(part));
        }
    return std::optional<Job>();
}

// Ends the job with every part of it. slurmctld does that by itself for the first part's id; but a part that is asked for alone
// ends alone, and pods that lost a part are over as a whole.
template <class End>
static Result<void> end_whole(std::uint32_t job, const std::string &pod_uid, const char *what, End end, bool leave_preempted = false) {
    const auto found = load(job);
    if (!found)
        return Error{found.error()};
    if (!*found || (*found)->ticket.uid != pod_uid || (leave_preempted && (*found)->preempting()))
        return {};
    std::vector<std::uint32_t> ids{job};
    if (const std::uint32_t leader = (*found)->het_leader; leader != 0) {
        const auto parts = load_parts(leader);
        if (!parts)
            return Error{parts.error()};
        ids = {leader};
        for (const Job &part : *parts)
            if (part.het_leader == leader && part.id != leader && part.ticket.uid == pod_uid)
                ids.push_back(part.id);
        if (std::find(ids.begin(), ids.end(), job) == ids.end())
            ids.push_back(job);
    }
    Result<void> result;
    for (const std::uint32_t id : ids)
        if (!may_write())
            result = Error{fmt::format("{} job {}: {}", what, id, Fence::closed_text)};
        else if (end(id) != SLURM_SUCCESS && !ended_already(slurm_api::last_errno()))
            result = Error{fmt::format("{} job {}: {}", what, id, last_error())};
    return result;
}

Result<std::vector<Job>> load_all(const std::string &cluster, std::uint32_t &records, NativeJobs *native) {
    job_info_msg_t *raw = nullptr;
    if (counted(Rpc::load_jobs, slurm_load_jobs(0, &raw, SHOW_ALL)) != SLURM_SUCCESS)
        return Error{"asking slurmctld for its jobs: " + last_error()};
    const Jobs jobs(raw, slurm_api::free_jobs);
    std::vector<Job> found;
    records = 0;
    for (std::uint32_t i = 0; i < jobs->record_count; ++i) {
        const char *const tasks = jobs->job_array[i].array_task_str;
        records += tasks != nullptr ? array_tasks(tasks) : 1;
        if (auto ticket = ticket_of(jobs->job_array[i]); ticket && ticket->cluster == cluster)
            found.push_back(to_job(jobs->job_array[i], std::move(*ticket)));
        else if (native != nullptr && !ticket)
            native->add(to_queued(jobs->job_array[i]));
    }
    return found;
}

std::string announce_term(const std::string &cluster, std::uint64_t term) {
    Ticket ticket;  // of user 0, who is nobody's tenant: no version of the plugin takes it
    ticket.cluster = cluster;
    ticket.ns = ticket.name = ticket.uid = "berth";
    ticket.kind = "Pod";
    ticket.nonce = "0000000000000000";
    ticket.term = term;
    Description description(Placeholder{}, to_json(ticket), 0);
    will_run_response_msg_t *answer = nullptr;
    const Sayings sayings;
    errno = 0;
    if (counted(Rpc::announce, slurm_job_will_run2(&description.message(), &answer)) == SLURM_SUCCESS) {
        slurm_api::free_answer(answer);
        return "no plugin refused the ticket: JobSubmitPlugins in slurm.conf lacks berth";
    }
    const int error = slurm_api::last_errno();
    const std::string said = sayings.text();
    if (said_by_berth(said))
        return "";
    return failed_submission(error, said).problem;
}

std::pair<std::time_t, std::uint32_t> boot_time() {
    slurm_conf_t *conf = nullptr;
    if (counted(Rpc::load_config, slurm_load_ctl_conf(0, &conf)) != SLURM_SUCCESS)
        return {};
    const std::pair<std::time_t, std::uint32_t> said{conf->boot_time, conf->max_job_cnt};
    slurm_api::free_conf(conf);
    return said;
}

Result<void> complete(std::uint32_t job, const std::string &pod_uid, std::uint32_t wait_status) {
    return end_whole(job, pod_uid, "completing", [wait_status](std::uint32_t id) { return counted(Rpc::complete_job, slurm_api::complete_job(id, wait_status)); });
}

Result<void> cancel(std::uint32_t job, const std::string &pod_uid) {
    return end_whole(job, pod_uid, "cancelling", [](std::uint32_t id) { return counted(Rpc::cancel_job, slurm_api::kill_job(id, SIGKILL)); });
}

Result<void> give_back(std::uint32_t job, const std::string &pod_uid) {
    return end_whole(job, pod_uid, "cancelling", [](std::uint32_t id) { return counted(Rpc::cancel_job, slurm_api::kill_job(id, SIGKILL)); }, true);
}

// What went wrong, in a word; empty when nothing did.
static std::string update(std::uint32_t job, job_desc_msg_t &change) {
    if (!may_write())
        return Fence::closed_text;
    std::string id = std::to_string(job);
    change.job_id_str = id.data();
    job_array_resp_msg_t *answer = nullptr;
    const int result = counted(Rpc::update_job, slurm_update_job2(&change, &answer));
    if (answer != nullptr)
        slurm_free_job_array_resp(answer);
    change.job_id_str = nullptr;
    return result == SLURM_SUCCESS || ended_already(slurm_api::last_errno()) ? "" : last_error();
}

static std::string mark_over(std::uint32_t job, Ticket ticket) {
    ticket.over = true;
    std::string text = to_json(ticket);
    job_desc_msg_t change;
    slurm_init_job_desc_msg(&change);
    change.admin_comment = text.data();
    return update(job, change);
}

Result<void> withdraw(std::uint32_t job, const std::string &key) {
    const auto parts = load_parts(job);
    if (!parts)
        return Error{parts.error()};
    for (const Job &part : *parts)
        if (part.ticket.uid == key && part.state != JobState::ended)
            if (const std::string problem = mark_over(part.id, part.ticket); !problem.empty())
                return Error{fmt::format("marking job {} as taken back: {}", part.id, problem)};
    return cancel(job, key);
}

Result<std::uint32_t> longest_time(const std::string &partition) {
    partition_info_msg_t *raw = nullptr;
    if (counted(Rpc::load_partitions, slurm_load_partitions(0, &raw, SHOW_ALL)) != SLURM_SUCCESS)
        return Error{"asking slurmctld for its partitions: " + last_error()};
    using Partitions = std::unique_ptr<partition_info_msg_t, decltype(&slurm_free_partition_info_msg)>;
    const Partitions partitions(raw, slurm_free_partition_info_msg);
    for (std::uint32_t i = 0; i < partitions->record_count; ++i) {
        const partition_info_t &one = partitions->partition_array[i];
        if (one.name != nullptr && partition == one.name)
            return one.max_time < NO_VAL ? one.max_time : 0;
    }
    return Error{fmt::format("slurmctld has no partition {}", partition)};
}

Result<void> set_time_limit(std::uint32_t job, const std::string &pod_uid, std::uint32_t seen, std::uint32_t minutes) {
    const auto found = load(job);
    if (!found)
        return Error{found.error()};
    if (!*found || (*found)->ticket.uid != pod_uid || !(*found)->active() || (*found)->preempting() ||
        (*found)->time_limit_minutes != seen)
        return {};
    job_desc_msg_t change;
    slurm_init_job_desc_msg(&change);
    change.time_limit = minutes;
    if (const std::string problem = update(job, change); !problem.empty())
        return Error{fmt::format("giving job {} a time limit of {} minutes: {}", job, minutes, problem)};
    return {};
}

}  // namespace berth::slurm
