// What spank_berth.so does at each moment of a job's life on a node. Each runs in a process of its own (slurmstepd) as
// root, and returns 0 or, where said, -1 to stop the job here. Trouble of our own never stops a job or drains a
// node, but where it hides which pods are held.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/message.h"
#include "proto/records.h"
#include "proto/ticket.h"
#include "spank/options.h"

namespace berth {

struct JobHere {
    std::uint32_t job, uid, gid;
    std::string node;
};

// Any job: waits until no pod whose placeholder has ended lives on (gate.cc); -1 when one outlives the gate. A placeholder:
// remembers it and tells the agent. Never waits for the agent.
int on_prolog(const Options &options, const JobHere &here);

// A placeholder: marks it ended, then waits until its pods are proven gone, at most options.hold; past that drains the
// node with a reason that names the pod. Other jobs: nothing. Always 0.
int on_epilog(const Options &options, const JobHere &here);

// A step: -1 inside a placeholder, where no process but pods may run; else the gate, because slurmctld may give
// a job an id that slurmd believes to have had its prolog.
int on_step(const Options &options, const JobHere &here);

// slurmd has started: what happened to its jobs meanwhile is not known here. Options with "*" for the node's name, which slurmd does not tell.
void on_slurmd(const Options &options);

// The gate itself: 0 once no held pod lacks a live placeholder, -1 when that takes longer than options.gate; then
// the node is drained. Without held/ nothing was ever held; one that cannot be read is waited for. `own`: the
// job_name() of the job that passes, if it is a placeholder of this node alone.
int pass_gate(const Options &options, const JobHere &here, const std::string &own = {});

// The ticket of this job, if its SPANK_BERTH variable is sealed with our key and names this job's user.
std::optional<Ticket> sealed_ticket(const Options &options, const JobHere &here);

// What slurmctld says of a placeholder on this node: one that was shrunk and gave the node back has ended here. `unreachable` also when
// it gave an answer we cannot trust.
enum class Standing { pending, alive, ended, unreachable };
Standing ask_slurmctld(std::uint32_t job, std::string_view nonce, const std::string &node);

// "namespace/pod of job 12" of a held/ record, for reasons and logs.
std::string describe_held(const Message &record);
// The same where held/ cannot be listed, right after that failed: then any pod may be held.
std::string describe_unlisted();
void drain_node(const JobHere &here, const std::string &reason);

}  // namespace berth
