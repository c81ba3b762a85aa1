#include "agent/lifecycle/lifecycle.h"

#include <set>
#include <string>

#include "test/unit/suite.h"

using namespace berth;

namespace {

State walk(State state, std::initializer_list<Event> events) {
    for (const Event event : events)
        state = move(state, event).next;
    return state;
}

}  // namespace

START_TEST(a_pod_with_room_goes_straight_to_its_dock) {
    ck_assert(move(State::idle, Event::pods_ready) == (Move{State::waiting, Action::wait}));
    ck_assert(move(State::waiting, Event::turn) == (Move{State::submitting, Action::submit}));
    ck_assert(walk(State::idle, {Event::pods_ready, Event::turn, Event::submit_running, Event::pods_bound}) == State::docked);
    ck_assert(walk(State::docked, {Event::pod_ended}) == State::over);
}
END_TEST

START_TEST(nothing_is_submitted_while_an_attempt_may_still_succeed) {
    for (int e = 0; e < event_count; ++e)
        for (const State state : {State::submitting, State::withdrawing, State::queued, State::berthed, State::docked, State::over}) {
            const Event event = static_cast<Event>(e);
            // Into the line go those that slurmctld has lost, or had no room for.
            const bool lost = event == Event::job_lost && (state == State::queued || state == State::berthed);
            const bool deferred = event == Event::submit_deferred && state == State::submitting;
            ck_assert_msg(move(state, event).action != Action::submit, "%s in %s submits", name(event), name(state));
            ck_assert_msg(move(state, event).action != Action::wait || lost || deferred, "%s in %s waits", name(event), name(state));
        }
    ck_assert(move(State::unsure, Event::pods_ready).action == Action::none);
    ck_assert(move(State::unsure, Event::retry).action == Action::none);
    ck_assert(move(State::unsure, Event::job_lost) == (Move{State::waiting, Action::wait}));
}
END_TEST

START_TEST(a_pod_that_waits_its_turn_can_leave_and_can_find_its_job) {
    ck_assert(move(State::submitting, Event::submit_deferred) == (Move{State::waiting, Action::wait}));
    // It may have lost its pods, and with them its place in the line, while it was submitted.
    ck_assert(move(State::waiting, Event::pods_ready) == (Move{State::waiting, Action::wait}));
    ck_assert(walk(State::waiting, {Event::pod_withdrawn}) == State::over);
    ck_assert(walk(State::waiting, {Event::gang_short}) == State::idle);
    ck_assert(walk(State::waiting, {Event::job_pending}) == State::queued);
    ck_assert(walk(State::waiting, {Event::job_running}) == State::berthed);
    // The attempt before this one: slurmctld ended it because its answer was lost, and nobody decided anything about the pod.
    ck_assert(walk(State::waiting, {Event::job_ended}) == State::waiting);
    ck_assert(move(State::withdrawing, Event::submit_deferred) == (Move{State::over, Action::none}));
}
END_TEST

START_TEST(a_pod_withdrawn_during_submission_cancels_the_job_that_comes_of_it) {
    ck_assert(walk(State::submitting, {Event::pod_withdrawn}) == State::withdrawing);
    ck_assert(move(State::withdrawing, Event::submit_queued) == (Move{State::over, Action::cancel_job}));
    ck_assert(move(State::withdrawing, Event::submit_running) == (Move{State::over, Action::cancel_job}));
}
END_TEST

START_TEST(a_pod_deleted_while_it_waits_cancels_its_job) {
    ck_assert(move(State::queued, Event::pod_withdrawn) == (Move{State::over, Action::cancel_job}));
    ck_assert(move(State::berthed, Event::pod_withdrawn) == (Move{State::over, Action::cancel_job}));
}
END_TEST

START_TEST(a_job_that_its_node_did_not_notice_is_replaced_once_it_has_ended) {
    ck_assert(move(State::berthed, Event::job_unnoticed) == (Move{State::unsure, Action::cancel_job}));
    ck_assert(move(State::unsure, Event::job_ended) == (Move{State::waiting, Action::wait}));
    // Noticed after all.
    ck_assert(walk(State::berthed, {Event::job_unnoticed, Event::pods_bound}) == State::docked);
    ck_assert(move(State::docked, Event::job_unnoticed) == (Move{State::docked, Action::none}));
}
END_TEST

START_TEST(a_bound_pod_leaves_its_job_to_the_nodes_agent) {
    ck_assert(move(State::docked, Event::pod_ended) == (Move{State::over, Action::none}));
    ck_assert(move(State::docked, Event::job_lost) == (Move{State::docked, Action::none}));
}
END_TEST

START_TEST(a_job_that_slurm_ends_dismisses_its_pod_once_and_for_all) {
    for (const State state : {State::queued, State::berthed, State::docked})
        ck_assert(move(state, Event::job_ended) == (Move{State::dismissing, Action::dismiss}));
    // Cancelled stays cancelled: nothing but the pod's removal leads out, and nothing submits.
    for (int e = 0; e < event_count; ++e) {
        const Move next = move(State::dismissing, static_cast<Event>(e));
        ck_assert(next.next == State::dismissing || next.next == State::over);
        ck_assert(next.action != Action::submit);
    }
}
END_TEST

START_TEST(a_gang_keeps_its_place_until_it_is_over_short_or_late) {
    for (const State state : {State::queued, State::berthed, State::docked})
        ck_assert(move(state, Event::gang_over) == (Move{State::over, Action::complete_job}));
    ck_assert(walk(State::submitting, {Event::gang_over}) == State::withdrawing);
    ck_assert(move(State::queued, Event::gang_short) == (Move{State::idle, Action::withdraw_job}));
    ck_assert(walk(State::idle, {Event::pods_ready, Event::turn}) == State::submitting);
    ck_assert(move(State::docked, Event::gang_short) == (Move{State::docked, Action::none}));
    ck_assert(move(State::queued, Event::gang_late) == (Move{State::refused, Action::reject}));
    ck_assert(move(State::refused, Event::retry) == (Move{State::waiting, Action::wait}));
    // What has started is not late any more.
    ck_assert(move(State::berthed, Event::gang_late) == (Move{State::berthed, Action::none}));
}
END_TEST

START_TEST(every_state_is_reached_and_every_way_ends) {
    std::set<State> reached{State::idle};
    for (bool more = true; more;) {
        more = false;
        for (const State state : std::set<State>(reached))
            for (int e = 0; e < event_count; ++e)
                more = reached.insert(move(state, static_cast<Event>(e)).next).second || more;
    }
    ck_assert_int_eq(static_cast<int>(reached.size()), state_count);
    for (const State state : reached) {
        bool leaves = state == State::over;
        for (int e = 0; e < event_count; ++e)
            leaves = leaves || move(state, static_cast<Event>(e)).next != state;
        ck_assert_msg(leaves, "%s is a dead end", name(state));
    }
}
END_TEST

int main() {
    return berth::test::run_suite(
        "lifecycle", {a_pod_with_room_goes_straight_to_its_dock, nothing_is_submitted_while_an_attempt_may_still_succeed,
                      a_pod_that_waits_its_turn_can_leave_and_can_find_its_job,
                      a_pod_withdrawn_during_submission_cancels_the_job_that_comes_of_it,
                      a_job_that_its_node_did_not_notice_is_replaced_once_it_has_ended,
                      a_pod_deleted_while_it_waits_cancels_its_job, a_bound_pod_leaves_its_job_to_the_nodes_agent,
                      a_job_that_slurm_ends_dismisses_its_pod_once_and_for_all, a_gang_keeps_its_place_until_it_is_over_short_or_late,
                      every_state_is_reached_and_every_way_ends});
}
