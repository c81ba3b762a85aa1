#include "agent/lifecycle/lifecycle.h"

namespace berth {

Move move(State state, Event event) {
    const Move stay{state, Action::none};
    switch (state) {
    case State::idle:
    case State::refused:
        switch (event) {
        case Event::pods_ready:
        case Event::retry: return {State::waiting, Action::wait};
        case Event::pod_withdrawn:
        case Event::pod_ended:
        case Event::gang_over: return {State::over, Action::none};
        case Event::gang_short: return {State::idle, Action::none};
        case Event::pods_bound: return {State::docked, Action::none};
        // Found again after a restart.
        case Event::job_pending: return {State::queued, Action::none};
        case Event::job_running: return {State::berthed, Action::none};
        case Event::job_ended: return {State::dismissing, Action::dismiss};
        default: return stay;
        }
    case State::waiting:
        switch (event) {
        case Event::turn: return {State::submitting, Action::submit};
        // A gang without pods has no place in the line; those that come have it take one. Who is in the line stays where it is.
        case Event::pods_ready: return {State::waiting, Action::wait};
        case Event::pod_withdrawn:
        case Event::pod_ended:
        case Event::gang_over: return {State::over, Action::none};
        case Event::gang_short: return {State::idle, Action::none};
        case Event::pods_bound: return {State::docked, Action::none};
        // Of an earlier attempt that nobody answered for. The end of one is no verdict on the next.
        case Event::job_pending: return {State::queued, Action::none};
        case Event::job_running: return {State::berthed, Action::none};
        default: return stay;
        }
    case State::submitting:
        switch (event) {
        case Event::submit_queued: return {State::queued, Action::none};
        case Event::submit_running: return {State::berthed, Action::none};
        case Event::submit_refused: return {State::refused, Action::tell_refused};
        case Event::submit_deferred: return {State::waiting, Action::wait};
        case Event::submit_unsure: return {State::unsure, Action::none};
        case Event::pod_withdrawn:
        case Event::gang_over: return {State::withdrawing, Action::none};
        case Event::pods_bound: return {State::docked, Action::none};
        default: return stay;
        }
    case State::withdrawing:
        switch (event) {
        case Event::submit_queued:
        case Event::submit_running: return {State::over, Action::cancel_job};
        case Event::submit_refused:
        case Event::submit_deferred:
        // If the job exists after all, the next look finds it without a pod and cancels it.
        case Event::submit_unsure: return {State::over, Action::none};
        default: return stay;
        }
    case State::unsure:
        switch (event) {
        case Event::job_pending: return {State::queued, Action::none};
        case Event::job_running: return {State::berthed, Action::none};
        // slurmctld kills a job whose answer it could not deliver, or never had it.
        case Event::job_ended:
        case Event::job_lost: return {State::waiting, Action::wait};
        case Event::pod_withdrawn:
        case Event::pod_ended:
        case Event::gang_over: return {State::over, Action::none};
        case Event::pods_bound: return {State::docked, Action::none};
        default: return stay;
        }
    case State::queued:
    case State::berthed:
        switch (event) {
        case Event::job_pending: return {State::queued, Action::none};
        case Event::job_running: return {State::berthed, Action::none};
        case Event::job_ended: return {State::dismissing, Action::dismiss};
        case Event::job_lost: return {State::waiting, Action::wait};
        // Its end, once seen, submits again.
        case Event::job_unnoticed: return {State::unsure, Action::cancel_job};
        case Event::pod_withdrawn: return {State::over, Action::cancel_job};
        case Event::pods_bound: return {State::docked, Action::none};
        case Event::pod_ended: return {State::over, Action::none};
        case Event::gang_over: return {State::over, Action::complete_job};
        case Event::gang_short: return {State::idle, Action::withdraw_job};
        case Event::gang_late: return state == State::queued ? Move{State::refused, Action::reject} : stay;
        default: return stay;
        }
    case State::docked:
        switch (event) {
        case Event::job_ended: return {State::dismissing, Action::dismiss};
        // The node's agent completes the job once it has proven the pod gone.
        case Event::pod_withdrawn:
        case Event::pod_ended: return {State::over, Action::none};
        case Event::gang_over: return {State::over, Action::complete_job};
        // A lost job: the node's agent decides about its pod.
        default: return stay;
        }
    case State::dismissing:
        switch (event) {
        case Event::pod_withdrawn:
        case Event::pod_ended:
        case Event::gang_over: return {State::over, Action::none};
        case Event::retry: return {State::dismissing, Action::dismiss};
        default: return stay;
        }
    case State::over: return stay;
    }
    return stay;
}

const char *name(State state) {
    static constexpr const char *names[] = {"idle",   "refused", "waiting",    "submitting", "withdrawing", "unsure",
                                            "queued", "berthed", "docked",     "dismissing",  "over"};
    return names[static_cast<int>(state)];
}

const char *name(Event event) {
    static constexpr const char *names[] = {"pods_ready",    "pod_withdrawn",  "pods_bound",     "pod_ended",     "gang_over",
                                            "gang_short",    "gang_late",      "turn",           "submit_queued", "submit_running",
                                            "submit_refused", "submit_deferred", "submit_unsure", "job_pending",    "job_running",    "job_ended",     "job_lost",
                                            "job_unnoticed", "retry"};
    return names[static_cast<int>(event)];
}

}  // namespace berth
