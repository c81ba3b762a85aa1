#include "agent/controller/workload.h"

#include "agent/keys.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

kube::Pod make_pod(const std::string &uid, std::int64_t created = 100) {
    kube::Pod pod;
    pod.ns = "team-a";
    pod.name = "p-" + uid;
    pod.uid = uid;
    pod.created = created;
    return pod;
}

kube::Pod bound(kube::Pod pod, const std::string &nonce, const std::string &slot = "0.0") {
    pod.node_name = "n1";
    pod.annotations = {{keys::nonce, nonce}, {keys::slot, slot}};
    return pod;
}

kube::Pod ended(kube::Pod pod, int code) {
    pod.phase = code == 0 ? kube::Phase::succeeded : kube::Phase::failed;
    pod.exit_code = code;
    return pod;
}

Workload make_gang(std::initializer_list<kube::Pod> pods) {
    Workload gang;
    gang.who.gang = true;
    gang.who.kind = "Job";
    gang.who.key = "k";
    gang.who.size = static_cast<std::uint32_t>(pods.size());
    for (const kube::Pod &pod : pods)
        gang.members[pod.uid].pod = pod;
    return gang;
}

slurm::Job make_job(std::uint32_t id, slurm::JobState state, const std::string &nonce, std::time_t end = 0) {
    slurm::Job job;
    job.id = id;
    job.state = state;
    job.ticket.nonce = nonce;
    job.end_time = end;
    return job;
}

using slurm::JobState;

// The id of the job that is chosen, 0 for none.
std::uint32_t chosen(const Workload &workload, const std::vector<slurm::Job> &jobs) {
    std::vector<Placing> placings;
    for (const slurm::Job &job : jobs)
        placings.push_back({{&job}});
    const Placing *best = choose(workload, placings);
    return best == nullptr ? 0 : best->first().id;
}

}  // namespace

START_TEST(of_several_placeholders_the_one_that_pods_are_bound_by_counts) {
    const Workload gang = make_gang({make_pod("a"), bound(make_pod("b"), "two")});
    ck_assert_uint_eq(chosen(gang, {make_job(1, JobState::running, "one"), make_job(2, JobState::running, "two")}), 2);
    const Workload waiting = make_gang({make_pod("a"), make_pod("b")});
    ck_assert_uint_eq(chosen(waiting, {make_job(2, JobState::pending, "two"), make_job(1, JobState::pending, "one")}), 1);
    ck_assert_uint_eq(chosen(waiting, {make_job(1, JobState::ended, "one", 200), make_job(2, JobState::running, "two")}), 2);
}
END_TEST

START_TEST(an_end_before_the_pods_came_is_no_verdict_on_them) {
    const Workload replaced = make_gang({make_pod("a", 300), make_pod("b", 300)});
    ck_assert_uint_eq(chosen(replaced, {make_job(1, JobState::ended, "one", 200)}), 0);
    const Workload same_second = make_gang({make_pod("a", 200), make_pod("b", 200)});
    ck_assert_uint_eq(chosen(same_second, {make_job(1, JobState::ended, "one", 200)}), 0);
    const Workload meant = make_gang({make_pod("a", 100), make_pod("b", 300)});
    ck_assert_uint_eq(chosen(meant, {make_job(1, JobState::ended, "one", 200)}), 1);
    // A single pod's placeholder has the pod's own uid: its end always concerns it.
    Workload single = make_gang({make_pod("a", 300)});
    single.who.gang = false;
    ck_assert_uint_eq(chosen(single, {make_job(1, JobState::ended, "one", 200)}), 1);
}
END_TEST

START_TEST(a_placeholder_taken_back_does_not_count) {
    const Workload gang = make_gang({make_pod("a"), make_pod("b")});
    slurm::Job job = make_job(1, JobState::ended, "one", 200);
    job.ticket.over = true;
    ck_assert_uint_eq(chosen(gang, {job}), 0);
}
END_TEST

START_TEST(a_job_in_the_grace_of_a_preemption_is_its_own_pods_alone) {
    slurm::Job leaving = make_job(1, JobState::running, "one", 320);
    leaving.start_time = 200;
    leaving.preempt_time = 300;
    leaving.time_limit_minutes = 60;
    ck_assert(leaving.preempting());
    const Workload next = make_gang({make_pod("a"), make_pod("b")});
    ck_assert_uint_eq(chosen(next, {leaving}), 0);
    ck_assert_uint_eq(chosen(next, {leaving, make_job(2, JobState::pending, "two")}), 2);
    ck_assert_uint_eq(chosen(make_gang({bound(make_pod("a"), "one")}), {leaving}), 1);
    leaving.end_time = 200 + 3600;  // suspended for another job: it goes on later
    ck_assert(!leaving.preempting());
    ck_assert_uint_eq(chosen(next, {leaving}), 1);
}
END_TEST

START_TEST(parts_of_a_heterogeneous_job_live_and_die_together) {
    const slurm::Job leader = make_job(1, JobState::running, "one"), worker = make_job(2, JobState::pending, "one");
    const slurm::Job failed = make_job(2, JobState::ended, "one", 200);
    ck_assert((Placing{{&leader, &worker}}.pending()));
    ck_assert((!Placing{{&leader, &worker}}.running()));
    ck_assert((!Placing{{&leader, &failed}}.lives()));
}
END_TEST

START_TEST(pods_of_an_earlier_job_that_are_over_dock_nobody) {
    Workload gang = make_gang({ended(bound(make_pod("a"), "one", "0.0"), 0), make_pod("b")});
    ck_assert_uint_eq(gang.docked(), 0);
    gang.nonce = "one";
    ck_assert_uint_eq(gang.docked(), 1);
    gang = make_gang({ended(bound(make_pod("a"), "one", "0.0"), 0), bound(make_pod("b"), "one", "0.1")});
    ck_assert_uint_eq(gang.docked(), 2);
}
END_TEST

START_TEST(pods_that_outlive_their_group_end_with_their_own_codes) {
    Workload gang = make_gang({make_pod("a"), make_pod("b")});
    gang.nonce = "one";
    gang.placed = 2;
    gang.who.finished = gang.who.deleted = true;
    gang.note_end(ended(bound(make_pod("a"), "one", "0.0"), 0));
    ck_assert_msg(!gang.exit_status(), "the other one went with it");
    gang.note_end(ended(bound(make_pod("b"), "one", "0.1"), 0));
    ck_assert_uint_eq(*gang.exit_status(), 0);
}
END_TEST

START_TEST(a_gang_ends_with_the_last_word_of_each_slot) {
    Workload gang = make_gang({make_pod("a"), make_pod("b")});
    gang.nonce = "one";
    ck_assert(!gang.exit_status());
    gang.note_end(ended(bound(make_pod("a"), "one", "0.0"), 0));
    ck_assert_uint_eq(*gang.exit_status(), 0);
    gang.note_end(ended(bound(make_pod("b"), "one", "0.1"), 3));
    ck_assert_uint_eq(*gang.exit_status(), 3 << 8);
    // Retried in its slot, and well this time.
    gang.note_end(ended(bound(make_pod("c"), "one", "0.1"), 0));
    ck_assert_uint_eq(*gang.exit_status(), 0);
    // Another placeholder's pod says nothing.
    gang.note_end(ended(bound(make_pod("d"), "old", "0.0"), 7));
    ck_assert_uint_eq(*gang.exit_status(), 0);
    gang.note_end(ended(bound(make_pod("e"), "one", "0.0"), 5));
    ck_assert_uint_eq(*gang.exit_status(), 5 << 8);
    gang.who.finished = true;  // a Job that tolerates failed pods succeeded
    ck_assert_uint_eq(*gang.exit_status(), 0);
    gang.who.failed = true;
    ck_assert_uint_eq(*gang.exit_status(), 5 << 8);
}
END_TEST

START_TEST(a_gang_whose_owner_was_deleted_did_not_succeed) {
    Workload gang = make_gang({make_pod("a"), make_pod("b")});
    gang.nonce = "one";
    gang.who.finished = gang.who.deleted = true;
    kube::Pod killed = ended(bound(make_pod("a"), "one", "0.0"), 143);
    killed.deleting = true;
    gang.note_end(killed);
    ck_assert(!gang.exit_status());
    gang.note_end(ended(bound(make_pod("b"), "one", "0.1"), 0));  // before the deletion
    ck_assert(!gang.exit_status());
    gang.note_end(ended(bound(make_pod("b"), "one", "0.1"), 3));
    ck_assert_uint_eq(*gang.exit_status(), 3 << 8);
}
END_TEST

START_TEST(members_that_go_are_not_counted_on) {
    kube::Pod deleted = make_pod("a"), gated = make_pod("b"), dying = bound(make_pod("c"), "one");
    deleted.deleting = dying.deleting = gated.gated = true;
    const Workload gang = make_gang({deleted, gated, dying, ended(bound(make_pod("d"), "one"), 0), make_pod("e")});
    ck_assert_uint_eq(gang.count(&Member::live), 3);
    ck_assert_uint_eq(gang.count(&Member::ready), 1);
    ck_assert_uint_eq(gang.docked(), 2);
}
END_TEST

START_TEST(pods_that_wait_say_which_job_they_were_told_of) {
    kube::Pod a = make_pod("a", 500), b = make_pod("b", 400), gone = make_pod("c", 450);
    a.scheduled_message = b.scheduled_message = "Slurm job 12 is pending: Resources";
    gone.deleting = true;  // says nothing
    ck_assert_uint_eq(make_gang({a, b, gone}).told_to_wait_for(), 12);
    ck_assert_int_eq(make_gang({a, b, gone}).oldest(), 400);
    b.scheduled_message = "Slurm job 13 is pending: Resources";
    ck_assert_uint_eq(make_gang({a, b}).told_to_wait_for(), 0);
    ck_assert_uint_eq(make_gang({a, make_pod("d")}).told_to_wait_for(), 0);
    ck_assert_uint_eq(make_gang({}).told_to_wait_for(), 0);
}
END_TEST

START_TEST(bound_pods_say_which_job_they_are_bound_by) {
    kube::Pod pod = bound(make_pod("a"), "one");
    ck_assert_uint_eq(make_gang({pod}).bound_by(), 0);
    pod.annotations.emplace_back(keys::job_id, "12");
    ck_assert_uint_eq(make_gang({pod}).bound_by(), 12);
    ck_assert_uint_eq(make_gang({ended(pod, 0)}).bound_by(), 0);
    pod.annotations = {{keys::job_id, "12"}};  // not by us
    ck_assert_uint_eq(make_gang({pod}).bound_by(), 0);
}
END_TEST

int main() {
    return berth::test::run_suite("workload", {of_several_placeholders_the_one_that_pods_are_bound_by_counts,
                                               an_end_before_the_pods_came_is_no_verdict_on_them, a_placeholder_taken_back_does_not_count,
                                               a_job_in_the_grace_of_a_preemption_is_its_own_pods_alone,
                                        parts_of_a_heterogeneous_job_live_and_die_together,
                                               pods_of_an_earlier_job_that_are_over_dock_nobody, pods_that_outlive_their_group_end_with_their_own_codes, a_gang_ends_with_the_last_word_of_each_slot, a_gang_whose_owner_was_deleted_did_not_succeed,
                                               members_that_go_are_not_counted_on, pods_that_wait_say_which_job_they_were_told_of,
                                               bound_pods_say_which_job_they_are_bound_by});
}
