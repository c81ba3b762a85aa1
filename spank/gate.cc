// The second barrier: Slurm forgets its hold when a node is set DOWN and RESUMEd, when slurmd is killed during an epilog,
// and when slurmctld loses a young job. So the prolog of every job, and every step, looks at the pods that are not proven
// gone here. On a quiet node that is one readdir.
#include <map>
#include <thread>

#include "proto/slurm_api.h"
#include "spank/agent_link.h"
#include "spank/hooks.h"

extern "C" {
#include <slurm/spank.h>
}

namespace berth {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds look_again{100};
constexpr std::chrono::seconds ask_again{2};

// The pods that stand in this job's way, described; empty when it may go on. Placeholders that slurmctld called alive are
// remembered in `alive` for the duration of one look.
std::string in_the_way(const RunDir &run_dir) {
    std::vector<std::string> names;
    if (!run_dir.list(RunDir::held, names))
        return {};
    std::map<std::string, Standing> standings;
    for (const std::string &name : names) {
        const auto record = run_dir.read(RunDir::held, name);
        if (!record && !run_dir.exists(RunDir::held, name))
            continue;  // removed since
        const auto job = record ? record->number("job") : std::nullopt;
        if (!job)
            return "with uid " + name;  // by an agent of another version: held for we do not know whom
        const std::string_view nonce = record->get("nonce");
        const std::string key = RunDir::job_name(static_cast<std::uint32_t>(*job), nonce);
        if (run_dir.exists(RunDir::ended, key))
            return describe_held(*record);
        auto [found, fresh] = standings.try_emplace(key, Standing::unreachable);
        if (fresh)
            found->second = ask_slurmctld(static_cast<std::uint32_t>(*job), nonce);
        if (found->second != Standing::alive)
            return describe_held(*record);
    }
    return {};
}

}  // namespace

Standing ask_slurmctld(std::uint32_t job, std::string_view nonce) {
    job_info_msg_t *answer = nullptr;
    if (slurm_api::load_job(&answer, job) != SLURM_SUCCESS)
        return slurm_api::last_errno() == ESLURM_INVALID_JOB_ID ? Standing::ended : Standing::unreachable;
    Standing standing = Standing::ended;
    for (std::uint32_t i = 0; i < answer->record_count; ++i) {
        const slurm_job_info_t &info = answer->job_array[i];
        std::string why;
        const auto ticket = parse_ticket(info.admin_comment != nullptr ? info.admin_comment : "", why);
        const std::uint32_t state = info.job_state & JOB_STATE_BASE;
        const bool completing = (info.job_state & JOB_COMPLETING) != 0;
        if (slurm_api::job_id(info) != job || !ticket || ticket->nonce != nonce || completing)
            continue;
        if (state == JOB_RUNNING || state == JOB_SUSPENDED)
            standing = Standing::alive;
        else if (state == JOB_PENDING)
            standing = Standing::pending;
    }
    slurm_free_job_info_msg(answer);
    return standing;
}

std::string describe_held(const Message &record) {
    std::string text(record.get("ns"));
    return text.append("/").append(record.get("name")).append(" of job ").append(record.get("job"));
}

void drain_node(const JobHere &here, const std::string &reason) {
    slurm_error("berth: draining %s: %s", here.node.c_str(), reason.c_str());
    std::string node = here.node, text = reason;
    update_node_msg_t update;
    slurm_init_update_node_msg(&update);
    update.node_names = node.data();
    update.node_state = NODE_STATE_DRAIN;
    update.reason = text.data();
    slurm_api::set_reason_uid(update, 0);
    if (slurm_update_node(&update) != SLURM_SUCCESS)
        slurm_error("berth: slurmctld did not take the drain of %s: %s", here.node.c_str(), slurm_strerror(slurm_api::last_errno()));
}

int pass_gate(const Options &options, const JobHere &here) {
    const RunDir run_dir(options.run_dir);
    std::vector<std::string> names;
    if (!run_dir.list(RunDir::held, names) || names.empty())
        return 0;
    std::string pod = in_the_way(run_dir);
    if (pod.empty())
        return 0;
    slurm_info("berth: job %u waits on %s until pod %s is gone", here.job, here.node.c_str(), pod.c_str());
    AgentLink agent(run_dir.socket_path());
    const Clock::time_point deadline = Clock::now() + options.gate;
    Clock::time_point asked{};
    while (Clock::now() < deadline) {
        names.clear();
        if (run_dir.list(RunDir::held, names) && names.empty())
            return 0;
        if (Clock::now() - asked >= ask_again) {
            pod = in_the_way(run_dir);
            if (pod.empty())
                return 0;
            agent.send(Message{"check", {}});  // the agent may not know yet that the placeholder is gone
            asked = Clock::now();
        }
        agent.wait(look_again);
        if (!agent.connected())
            std::this_thread::sleep_for(look_again);
    }
    drain_node(here, "berth: pod " + pod + " outlived its job; see berthd's log, end its processes, then resume the node");
    return -1;
}

int on_step(const Options &options, const JobHere &here) {
    const RunDir run_dir(options.run_dir);
    std::vector<std::string> names;
    run_dir.list(RunDir::jobs, names);
    const std::string prefix = std::to_string(here.job) + ".";
    for (const std::string &name : names)
        if (name.starts_with(prefix) && ask_slurmctld(here.job, std::string_view(name).substr(prefix.size())) == Standing::alive) {
            slurm_error("berth: job %u holds the place of a Kubernetes pod: no step can run in it", here.job);
            return -1;
        }
    return pass_gate(options, here);
}

}  // namespace berth
