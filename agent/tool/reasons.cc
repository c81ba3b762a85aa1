#include "agent/tool/reasons.h"

#include <algorithm>
#include <iterator>

namespace berth::tool {

namespace {

struct Row {
    std::string_view reason, words;
};

constexpr Row rows[] = {
    {"None", "Slurm has not looked at it yet"},
    {"Priority", "jobs of higher priority wait in its partition"},
    {"Resources", "it is the next one, but not enough is free at the moment"},
    {"Dependency", "it waits for another job to end"},
    {"DependencyNeverSatisfied", "the job that it waits for ended in another way than was asked for"},
    {"JobHeldUser", "it is held by its user"},
    {"JobHeldAdmin", "it is held by an administrator, or has priority 0"},
    {"BeginTime", "it may not begin before its time"},
    {"PartitionDown", "its partition is down"},
    {"PartitionInactive", "its partition takes no jobs to run"},
    {"PartitionNodeLimit", "it asks for more nodes, CPUs or memory than its partition has or allows"},
    {"PartitionTimeLimit", "its time limit is longer than its partition allows"},
    {"PartitionConfig", "its partition cannot take it as it is"},
    {"BadConstraints", "no node has what it asks for"},
    {"ReqNodeNotAvail", "the nodes that it needs are down, drained or reserved"},
    {"NodeDown", "a node that it needs is down"},
    {"Reservation", "it waits for its reservation"},
    {"ReservationDeleted", "its reservation is gone"},
    {"Licenses", "licenses that it needs are in use"},
    {"InvalidAccount", "its account is not known to Slurm's accounting"},
    {"InvalidQOS", "its QOS is not known, or not allowed to its account"},
    {"AccountNotAllowed", "its account may not use its partition"},
    {"QOSNotAllowed", "its QOS may not use its partition"},
    {"DeadLine", "it cannot end before its deadline any more"},
    {"Cleaning", "its earlier run is being cleaned up"},
    {"Prolog", "its nodes are being prepared"},
    {"SchedDefer", "Slurm has not come to it yet"},
    {"BurstBufferResources", "the burst buffer has no room at the moment"},
    {"SystemFailure", "Slurm failed to start it"},
    {"JobLaunchFailure", "Slurm failed to start it"},
};

}  // namespace

std::string_view reason_words(std::string_view reason) {
    const auto found = std::find_if(std::begin(rows), std::end(rows), [reason](const Row &row) { return row.reason == reason; });
    if (found != std::end(rows))
        return found->words;
    if (reason.starts_with("QOS"))
        return "a limit of its QOS is reached";
    if (reason.starts_with("Assoc") || reason.starts_with("AccountingPolicy"))
        return "a limit of its account or user is reached";
    if (reason.starts_with("Max"))
        return "a limit of the site is reached";
    return "for a reason of Slurm's own";
}

}  // namespace berth::tool
