// The life of one workload in the controller: the only place that says what may follow what. Everybody else posts events
// and carries out the action that comes back. Pure: no clock, no server. docs/lifecycle.md shows the same table.
#pragma once

#include <cstdint>

namespace berth {

enum class State : std::uint8_t {
    idle,         // known, nothing submitted
    refused,      // cannot be submitted as it stands; its author has been told
    submitting,   // the request is on its way to slurmctld
    withdrawing,  // the pod went while the request was on its way
    unsure,       // no answer: the job may exist
    queued,       // the placeholder waits in Slurm
    berthed,      // the placeholder runs, the pod is not bound yet
    docked,       // the pod is bound
    dismissing,   // Slurm ended the job: the pod is told why and deleted
    over,         // nothing left to do
};
constexpr int state_count = static_cast<int>(State::over) + 1;

enum class Event : std::uint8_t {
    pod_ready,       // pending, unbound, not gated, not being deleted
    pod_withdrawn,   // an unbound pod was deleted or is being deleted
    pod_bound,
    pod_ended,       // a bound pod is terminal or removed
    submit_queued,
    submit_running,
    submit_refused,
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
    submit,       // translate and send the request
    tell_refused, // condition and event with the reason
    cancel_job,
    dismiss_pod,  // condition, event, and deletion if the pod is still there
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
