#include "agent/tool/reasons.h"

#include <algorithm>
#include <iterator>

namespace berth::tool {

namespace {

struct Row {
    std::string_view reason;
    ReasonWords said;
};

constexpr std::string_view wait_turn = "Wait: it starts when its turn comes. A shorter time limit (annotation timelimit) may let it start "
                                       "earlier, in a gap.";
constexpr std::string_view another_shape = "Ask for less, or for another partition (annotation partition).";
constexpr std::string_view over_limit =
    "Wait until other work under the same limit ends, ask for less, or ask the site's administrators about the limit.";

constexpr Row rows[] = {
    {"None", {"Slurm has not looked at it yet", "Wait some seconds and ask again."}},
    {"Priority", {"jobs of higher priority wait in its partition", wait_turn}},
    {"Resources", {"it is the next one, but not enough is free at the moment", wait_turn}},
    {"Dependency", {"it waits for another job to end", "Wait for the workload that berth.dev/dependency names, or remove the annotation."}},
    {"DependencyNeverSatisfied",
     {"the job that it waits for ended in another way than was asked for", "Delete the pod and create it without that dependency.", true}},
    {"JobHeldUser", {"it is held by its user", "Let it go: scontrol release JOB."}},
    {"JobHeldAdmin", {"it is held by an administrator, or has priority 0", "Ask the site's administrators; they let it go with scontrol release JOB."}},
    {"BeginTime", {"it may not begin before its time", "Wait, or change the annotation berth.dev/begin."}},
    {"PartitionDown", {"its partition is down", "Wait until administrators open the partition, or choose another one (annotation partition)."}},
    {"PartitionInactive", {"its partition takes no jobs to run", "Wait until administrators open the partition, or choose another one (annotation partition)."}},
    {"PartitionNodeLimit", {"it asks for more nodes, CPUs or memory than its partition has or allows", another_shape, true}},
    {"PartitionTimeLimit", {"its time limit is longer than its partition allows", "Ask for a shorter time (annotation timelimit), or for another partition.", true}},
    {"PartitionConfig", {"its partition cannot take it as it is", another_shape, true}},
    {"BadConstraints", {"no node has what it asks for", "Look at nodeSelector, affinity, GPUs and the annotation constraints, and ask for what nodes have.", true}},
    {"ReqNodeNotAvail",
     {"the nodes that it needs are down, drained or reserved",
      "Wait until they are back (sinfo -R says why they are away), or let it run on other nodes: look at nodeSelector, affinity and constraints."}},
    {"NodeDown", {"a node that it needs is down", "Wait until it is back; sinfo -R says why it is down."}},
    {"Reservation", {"it waits for its reservation", "Wait for the reservation to begin, or remove the annotation reservation."}},
    {"ReservationDeleted", {"its reservation is gone", "Create the pod again with another reservation or none.", true}},
    {"Licenses", {"licenses that it needs are in use", "Wait until others give licenses back."}},
    {"InvalidAccount", {"its account is not known to Slurm's accounting", "Ask the site's administrators for the account that berth.yaml gives to this namespace.", true}},
    {"InvalidQOS", {"its QOS is not known, or not allowed to its account", "Choose another QOS (annotation qos), or ask the site's administrators.", true}},
    {"AccountNotAllowed", {"its account may not use its partition", "Choose another account or partition, or ask the site's administrators.", true}},
    {"QOSNotAllowed", {"its QOS may not use its partition", "Choose another QOS or partition, or ask the site's administrators.", true}},
    {"DeadLine", {"it cannot end before its deadline any more", "Delete the pod, or create it with a later berth.dev/deadline.", true}},
    {"Cleaning", {"its earlier run is being cleaned up", "Wait some seconds."}},
    {"Prolog", {"its nodes are being prepared", "Wait: prologs run. If it lasts, an earlier pod on the node may not be proven gone; see sinfo -R and slurmd's log."}},
    {"SchedDefer", {"Slurm has not come to it yet", "Wait some seconds and ask again."}},
    {"BurstBufferResources", {"the burst buffer has no room at the moment", "Wait until others end."}},
    {"SystemFailure", {"Slurm failed to start it", "Ask the site's administrators: slurmctld's log says why."}},
    {"JobLaunchFailure", {"Slurm failed to start it", "Ask the site's administrators: slurmctld's and slurmd's logs say why."}},
};

}  // namespace

ReasonWords reason_words(std::string_view reason) {
    const auto found = std::find_if(std::begin(rows), std::end(rows), [reason](const Row &row) { return row.reason == reason; });
    if (found != std::end(rows))
        return found->said;
    if (reason.starts_with("QOS"))
        return {"a limit of its QOS is reached", over_limit};
    if (reason.starts_with("Assoc") || reason.starts_with("AccountingPolicy"))
        return {"a limit of its account or user is reached", over_limit};
    if (reason.starts_with("Max"))
        return {"a limit of the site is reached", over_limit};
    return {"Slurm gives this reason", "See squeue(1), JOB REASON CODES, or ask the site's administrators."};
}

}  // namespace berth::tool
