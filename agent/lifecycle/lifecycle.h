// The life of one workload, a pod or a gang, in the controller: the only place that says what may follow what. Everybody else posts events
// and carries out the action that comes back. Pure: no clock, no server. docs/lifecycle.md shows the same table.
#pragma once

#include <cstdint>

namespace berth {

enum class State : std::uint8_t {
    idle,         // known, nothing submitted
    refused,      // cannot be submitted as it stands; its author has been told
    waiting,      // ready, and waits its turn in the controller
    submitting,   // the request is on its way to slurmctld
    withdrawing,  // its pods went while the request was on its way
    unsure,       // no answer: the job may exist
    queued,       // the placeholder waits in Slurm
    berthed,      // the placeholder runs, not all pods are bound yet
    docked,       // the pod, or all that the gang must have, is bound
    dismissing,   // Slurm ended the job: the pods are told why and deleted
    over,         // nothing left to do
};
constexpr int state_count = static_cast<int>(State::over) + 1;

enum class Event : std::uint8_t {
    pods_ready,      // pending, unbound, not gated, not being deleted: the pod, or as many as the gang must have
    pod_withdrawn,   // an unbound pod was deleted or is being deleted
    pods_bound,
    pod_ended,       // a bound pod is terminal or removed
    gang_over,       // a gang has no pod left, and none is expected
    gang_short,      // a gang that is not bound lacks pods, for too long
    gang_late,       // its time to start is over
    turn,            // it may be submitted now
    submit_queued,
    submit_running,
    submit_refused,
    submit_deferred, // there is no room for it in Slurm now
    submit_unsure,
    job_pending,     // what a look at slurmctld showed
    job_running,
    job_ended,
    job_lost,        // slurmctld does not know the job, and no end was seen
    job_unnoticed,   // it runs under an id given twice, and its node has not heard of it
    retry,           // a timer
};
constexpr int event_count = static_cast<int>(Event::retry) + 1;

enum class Action : std::uint8_t {
    none,
    wait,         // in the line for a submission
    submit,       // translate and send the request
    tell_refused, // condition and event with the reason
    cancel_job,
    withdraw_job, // cancel it, and remember in Slurm that this was no verdict on the pods
    reject,       // withdraw it, and tell the gang that it will be tried again later
    complete_job, // a gang's, with its exit code; a single pod's is completed by the node's agent
    dismiss,      // condition, event, and deletion of the pods that are still there
};

struct Move {
    State next;
    Action action;
    bool operator==(const Move &) const = default;
};

Move move(State state, Event event);

const char *name(State state);
const char *name(Event event);

}  // namespace berth
