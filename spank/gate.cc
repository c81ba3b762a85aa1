// The second barrier: Slurm forgets its hold when a node is set DOWN and RESUMEd, when slurmd is killed during an epilog,
// when a job is shrunk, and when slurmctld loses a young job. So the prolog of every job, and every step, looks at the pods that are not proven
// gone here. On a quiet node that is one readdir; on one full of pods, two questions to slurmctld.
#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include "proto/slurm_api.h"
#include "spank/agent_link.h"
#include "spank/hooks.h"
#include "spank/roll.h"

extern "C" {
#include <slurm/spank.h>
}

namespace berth {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds look_again{100};
constexpr std::chrono::seconds ask_again{2};

// Fewer questions than this are no reason to keep a roll.
constexpr std::size_t few = 2;

struct Held {
    std::uint32_t job;
    std::string nonce, pod;
};

// Whether slurmctld can take this node alone from the placeholder, and tells it by a message that the next job's prolog may overtake. Without a
// record there is no knowing.
bool can_shrink(const RunDir &run_dir, const std::string &key) {
    const auto record = run_dir.read(RunDir::jobs, key);
    return !record || spans_nodes(record->get("nodelist"));
}

// The placeholder that slurmctld does not call alive, if there is one. All are asked for that are not on the roll, and one that is: docs/protocol.md,
// "The gate", says why that answers for the others.
const Held *not_alive(const RunDir &run_dir, const std::string &node, const std::map<std::string, Held> &placeholders, const std::string &own) {
    const auto lives = [&](const Held &held) { return ask_slurmctld(held.job, held.nonce, node) == Standing::alive; };
    if (placeholders.size() <= few) {
        for (const auto &[key, held] : placeholders)
            if (!lives(held))
                return &held;
        return nullptr;
    }
    const Roll roll(run_dir);
    std::set<std::string> alive;
    bool witnessed = false;
    for (const auto &[key, held] : placeholders) {
        const bool listed = roll.names().count(key) != 0;
        if ((!listed || !witnessed) && !lives(held))
            return &held;
        witnessed = witnessed || listed;
        if (listed || !can_shrink(run_dir, key))
            alive.insert(key);
    }
    // Those whose pods are not bound yet.
    for (const std::string &name : roll.names())
        if (witnessed && run_dir.exists(RunDir::jobs, name) && !run_dir.exists(RunDir::ended, name))
            alive.insert(name);
    if (!own.empty())
        alive.insert(own);
    roll.write(alive);
    return nullptr;
}

// The pod that stands in this job's way, described; empty when it may go on.
std::string in_the_way(const RunDir &run_dir, const std::string &node, const std::string &own) {
    std::vector<std::string> names;
    if (!run_dir.list(RunDir::held, names))
        return describe_unlisted();  // no descriptor, no memory, a fault below: that does not mean that nothing is held
    std::map<std::string, Held> placeholders;
    for (const std::string &name : names) {
        const auto record = run_dir.read(RunDir::held, name);
        if (!record && !run_dir.exists(RunDir::held, name))
            continue;  // removed since
        const auto job = record ? record->number("job") : std::nullopt;
        if (!job)
            return "with uid " + name;  // by an agent of another version: held for we do not know whom
        Held held{static_cast<std::uint32_t>(*job), std::string(record->get("nonce")), describe_held(*record)};
        const std::string key = RunDir::job_name(held.job, held.nonce);
        if (run_dir.exists(RunDir::ended, key))
            return held.pod;
        placeholders.try_emplace(key, std::move(held));
    }
    const Held *held = not_alive(run_dir, node, placeholders, own);
    return held != nullptr ? held->pod : "";
}

}  // namespace

std::string describe_held(const Message &record) {
    std::string text(record.get("ns"));
    return text.append("/").append(record.get("name")).append(" of job ").append(record.get("job"));
}

std::string describe_unlisted() {
    return std::string("(unknown: the records of held pods cannot be read: ") + std::strerror(errno) + ")";
}

void drain_node(const JobHere &here, const std::string &reason) {
    slurm_error("berth: draining %s: %s", here.node.c_str(), reason.c_str());
    std::string node = here.node, text = reason;
    slurm_api::load_plugins();
    update_node_msg_t update;
    slurm_init_update_node_msg(&update);
    update.node_names = node.data();
    update.node_state = NODE_STATE_DRAIN;
    update.reason = text.data();
    slurm_api::set_reason_uid(update, 0);
    if (slurm_update_node(&update) != SLURM_SUCCESS)
        slurm_error("berth: slurmctld did not take the drain of %s: %s", here.node.c_str(), slurm_strerror(slurm_api::last_errno()));
}

int pass_gate(const Options &options, const JobHere &here, const std::string &own) {
    const RunDir run_dir(options.run_dir);
    std::vector<std::string> names;
    if (run_dir.list(RunDir::held, names) && names.empty())
        return 0;
    std::string pod = in_the_way(run_dir, here.node, own);
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
            pod = in_the_way(run_dir, here.node, own);
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
        if (name.starts_with(prefix) &&
            ask_slurmctld(here.job, std::string_view(name).substr(prefix.size()), here.node) == Standing::alive) {
            slurm_error("berth: job %u holds the place of a Kubernetes pod: no step can run in it", here.job);
            return -1;
        }
    return pass_gate(options, here);
}

}  // namespace berth
