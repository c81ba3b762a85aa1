#include <thread>

#include "spank/agent_link.h"
#include "spank/hooks.h"
#include "spank/roll.h"

extern "C" {
#include <slurm/spank.h>
}

namespace berth {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds look_again{250};

// The first held pod of this placeholder, described; empty when none is held. What cannot be read may be one.
std::string held_pod(const RunDir &run_dir, std::uint32_t job, std::string_view nonce) {
    std::vector<std::string> names;
    if (!run_dir.list(RunDir::held, names))
        return describe_unlisted();
    for (const std::string &name : names) {
        const auto record = run_dir.read(RunDir::held, name);
        if (!record && run_dir.exists(RunDir::held, name))
            return "with uid " + name;
        if (record && record->number("job") == job && record->get("nonce") == nonce)
            return describe_held(*record);
    }
    return {};
}

// An end without our variables: a job of another kind, or what is left of a placeholder that slurmctld lost (its id
// may be a stranger's by now, so nothing is concluded here): the agent looks at its own records.
void nudge_agent(const RunDir &run_dir, std::uint32_t job) {
    std::vector<std::string> names;
    run_dir.list(RunDir::jobs, names);
    const std::string prefix = std::to_string(job) + ".";
    for (const std::string &name : names)
        if (name.starts_with(prefix)) {
            Roll::forget(run_dir);  // a placeholder may have ended without its mark
            AgentLink(run_dir.socket_path()).send(Message{"check", {}});
            return;
        }
}

// A slurmctld that lost a job and gave its id to the next one ends the lost job on the node with the next one's variables.
// That one has no record here and is not over: it must not be marked as ended before it begins.
bool not_begun(const RunDir &run_dir, std::uint32_t job, std::string_view nonce, const std::string &node) {
    // The agent of a pod that ended by itself has removed its records by now; the prolog's own mark, or an epilog's before this one, tells.
    const std::string name = RunDir::job_name(job, nonce);
    for (const RunDir::Kind kind : {RunDir::begun, RunDir::jobs, RunDir::ended})
        if (run_dir.exists(kind, name))
            return false;
    if (!held_pod(run_dir, job, nonce).empty())
        return false;
    const Standing standing = ask_slurmctld(job, nonce, node);
    return standing == Standing::pending || standing == Standing::alive;
}

}  // namespace

int on_epilog(const Options &options, const JobHere &here) {
    const RunDir run_dir(options.run_dir);
    const auto ticket = sealed_ticket(options, here);
    if (!ticket) {
        nudge_agent(run_dir, here.job);
        return 0;
    }
    const std::string name = RunDir::job_name(here.job, ticket->nonce);
    if (not_begun(run_dir, here.job, ticket->nonce, here.node)) {
        nudge_agent(run_dir, here.job);
        return 0;
    }
    Message event{"ended", {}};
    event.set("job", here.job).set("nonce", ticket->nonce);
    std::string why;
    // The mark first: from here on no agent binds for this placeholder (see records.h).
    if (!run_dir.make(why) || !run_dir.write(RunDir::ended, name, event, why)) {
        slurm_error("berth: the end of job %u is not recorded: %s", here.job, why.c_str());
        Roll::forget(run_dir);
    }

    AgentLink agent(run_dir.socket_path());
    agent.send(event);
    const Clock::time_point deadline = Clock::now() + options.hold;
    std::string pod = held_pod(run_dir, here.job, ticket->nonce);
    if (!pod.empty())
        slurm_info("berth: job %u keeps %s until pod %s is gone", here.job, here.node.c_str(), pod.c_str());
    while (!pod.empty() && Clock::now() < deadline) {
        if (!agent.connected() && !agent.send(event)) {
            std::this_thread::sleep_for(look_again);  // the agent is away: its records still speak
        } else if (const auto answer = agent.wait(look_again)) {
            if (answer->verb == "stuck") {
                drain_node(here, "berth: " + std::string(answer->get("reason")));
                return 0;
            }
        }
        pod = held_pod(run_dir, here.job, ticket->nonce);
    }
    if (!pod.empty()) {
        drain_node(here, "berth: pod " + pod + " is not proven gone after " + std::to_string(options.hold.count()) +
                             " s; see berthd's log, end its processes, then resume the node");
        return 0;
    }
    run_dir.remove(RunDir::jobs, name);
    run_dir.remove(RunDir::begun, name);
    return 0;
}

}  // namespace berth
