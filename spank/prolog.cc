#include <cstdlib>

#include "proto/seal.h"
#include "spank/agent_link.h"
#include "spank/hooks.h"
#include "spank/roll.h"

extern "C" {
#include <slurm/spank.h>
}

namespace berth {

namespace {

std::string_view environment(const char *name) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : "";
}

}  // namespace

std::optional<Ticket> sealed_ticket(const Options &options, const JobHere &here) {
    const std::string_view sealed = environment(std::string(ticket_variable).c_str());
    if (sealed.empty())
        return std::nullopt;
    std::string why;
    const auto key = read_key(options.key_file, why);
    if (const auto json = key ? open_seal(*key, sealed) : std::nullopt) {
        auto ticket = parse_ticket(*json, why);
        if (ticket && ticket->user == here.uid)
            return ticket;
        if (ticket)
            why = "its ticket is another user's";
    } else if (key) {
        why = "its ticket is not sealed by this site's job_submit_berth.so (JobSubmitPlugins=berth missing, or another key)";
    }
    slurm_error("berth: job %u gets no pod: %s", here.job, why.c_str());
    return std::nullopt;
}

int on_prolog(const Options &options, const JobHere &here) {
    const auto ticket = sealed_ticket(options, here);
    const std::string name = ticket ? RunDir::job_name(here.job, ticket->nonce) : "";
    if (pass_gate(options, here, spans_nodes(environment("SLURM_NODELIST")) ? "" : name) != 0)
        return -1;
    if (!ticket)
        return 0;
    Message event{"allocated", {}};
    event.set("job", here.job)
        .set("user", here.uid)
        .set("node", here.node)
        .set("nodelist", environment("SLURM_NODELIST"))
        .set("cpus_per_node", environment("SLURM_JOB_CPUS_PER_NODE"))
        .set("ticket", environment(std::string(ticket_variable).c_str()));
    const RunDir run_dir(options.run_dir);
    std::string why;
    // The record first: an agent that is absent, stopped or killed finds it when it looks again.
    if (!run_dir.make(why) || !run_dir.write(RunDir::jobs, name, event, why))
        slurm_error("berth: job %u is not recorded: %s", here.job, why.c_str());
    run_dir.write(RunDir::begun, name, Message{"begun", {}}, why);  // without it the epilog asks slurmctld
    AgentLink agent(run_dir.socket_path());
    if (!agent.send(event))
        slurm_info("berth: no agent at %s; the pod of job %u is bound when it comes", run_dir.socket_path().c_str(), here.job);
    return 0;
}

}  // namespace berth
