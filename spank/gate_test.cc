// The gate, and what it may believe from one job to the next: docs/protocol.md, "The gate".
#include "spank/hooks_scene.h"

namespace {

// A node full of pods whose gate has seen them all.
struct FullNode : Node {
    static constexpr std::uint32_t first = 100, last = 119;
    FullNode() {
        for (std::uint32_t job = first; job <= last; ++job)
            runs(job);
        ck_assert_int_eq(asked_by_the_next(), 20);
        ck_assert_int_eq(asked_by_the_next(), 1);
    }
    // slurmctld has ended or lost one, and nothing here shows it. Not the first: the gate might ask for that one in any case.
    void silently_ended(std::uint32_t job) const {
        const std::lock_guard lock(known_mutex);
        known_jobs.erase(job);
    }
};

}  // namespace

START_TEST(gate_lets_jobs_pass_beside_live_placeholders) {
    Node node;
    node.hold("a", 7, nonce);
    node.hold("b", 7, nonce);
    node.hold("c", 8, other_nonce);
    node.slurmctld_knows(7, JOB_RUNNING, ticket_json());
    node.slurmctld_knows(8, JOB_SUSPENDED, ticket_json(other_nonce));
    ck_assert_int_eq(pass_gate(node.options, node.here), 0);
    ck_assert_int_eq(questions, 2);  // one for each placeholder, not for each pod
}
END_TEST

START_TEST(gate_keeps_jobs_out_until_the_pod_is_gone) {
    Node node;
    const std::function<void()> ways[] = {
        [] {},                                                                           // unknown
        [&] { node.slurmctld_knows(7, JOB_RUNNING, ticket_json(other_nonce)); },         // id used again
        [&] { node.slurmctld_knows(7, JOB_RUNNING, "a note"); },                         // by an ordinary job
        [&] { node.slurmctld_knows(7, JOB_COMPLETE | JOB_COMPLETING, ticket_json()); },  // ended
        [&] { node.slurmctld_knows(7, JOB_RUNNING | JOB_COMPLETING, ticket_json()); },
        [&] { node.slurmctld_knows(7, JOB_RUNNING, ticket_json(), "n2"); },              // shrunk
        [&] { slurmctld_away = true; },  // cannot be asked
        [&] {                            // alive in slurmctld's eyes, but its epilog was here
            slurmctld_away = false;
            node.slurmctld_knows(7, JOB_RUNNING, ticket_json());
            ck_assert(node.run_dir.write(RunDir::ended, RunDir::job_name(7, nonce), Message{"ended", {}}, node.why));
        },
    };
    for (const auto &way : ways) {
        way();
        node.hold("u", 7, nonce);
        unlink(node.run_dir.socket_path().c_str());
        Agent agent(node);
        Running gate([](const Options &options, const JobHere &here) { return pass_gate(options, here); }, node);
        ck_assert_text(agent.hear().verb, "check");
        ck_assert(!gate.done);
        node.run_dir.remove(RunDir::held, "u");
        ck_assert_int_eq(gate.finish(), 0);
    }
    ck_assert(drains.empty());
}
END_TEST

START_TEST(gate_is_bounded_and_then_drains) {
    Node node;
    node.hold("u", 7, nonce);
    node.options.gate = std::chrono::seconds(1);
    ck_assert_int_eq(on_prolog(node.options, node.here), -1);
    ck_assert_uint_eq(drains.size(), 1);
    ck_assert_msg(drains[0].starts_with("n1: berth: pod ns/p of job 7 outlived its job"), "%s", drains[0].c_str());
}
END_TEST

START_TEST(gate_of_a_node_where_no_agent_ever_ran_is_open) {
    Node node;
    for (const char *absent : {"run/held", "run"}) {
        std::filesystem::remove_all(node.path(absent));
        ck_assert_int_eq(node.asked_by_the_next(), 0);
    }
    ck_assert(log_lines.empty() && drains.empty());
}
END_TEST

START_TEST(gate_waits_while_it_cannot_see_what_is_held) {
    Node node;
    const auto unreadable = [&](bool yes) {
        std::filesystem::remove_all(node.path("run/held"));
        if (yes)
            node.write("run/held", "a file where a directory should be");
        else
            ck_assert(node.run_dir.make(node.why));
    };
    unreadable(true);
    {
        Agent agent(node);
        Running gate([](const Options &options, const JobHere &here) { return pass_gate(options, here); }, node);
        ck_assert_text(agent.hear().verb, "check");
        ck_assert(!gate.done);
        unreadable(false);
        ck_assert_int_eq(gate.finish(), 0);
    }
    ck_assert(drains.empty());
    unreadable(true);
    node.options.gate = std::chrono::seconds(0);
    ck_assert_int_eq(pass_gate(node.options, node.here), -1);
    ck_assert_uint_eq(drains.size(), 1);
    ck_assert_msg(drains[0].starts_with("n1: berth: pod (unknown: the records of held pods cannot be read: Not a directory)"), "%s",
                  drains[0].c_str());
    // Listed, but no more than that.
    unreadable(false);
    ck_assert_int_eq(symlink("u", node.path("run/held/u").c_str()), 0);
    ck_assert(node.keeps_out());
}
END_TEST

START_TEST(gate_of_a_full_node_asks_for_one_placeholder) {
    FullNode node;
    for (int i = 0; i < 3; ++i) {
        ck_assert_int_eq(node.asked_by_the_next(), 1);
        ck_assert_int_eq(greetings, 1);
    }
    // One that is new is asked for once.
    node.runs(200);
    ck_assert_int_eq(node.asked_by_the_next(), 2);
    ck_assert_int_eq(node.asked_by_the_next(), 1);
    // Those that end are forgotten, in whatever order.
    for (std::uint32_t job = FullNode::first; job < FullNode::last - 3; ++job) {
        node.run_dir.remove(RunDir::held, "pod-" + std::to_string(job));
        node.run_dir.remove(RunDir::jobs, RunDir::job_name(job, nonce));
        ck_assert_int_eq(node.asked_by_the_next(), 1);
    }
}
END_TEST

START_TEST(placeholder_that_passes_the_gate_needs_no_question_later) {
    FullNode node;
    setenv("SLURM_NODELIST", "n1", 1);
    node.sealed();
    questions = 0;
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    ck_assert_int_eq(questions, 1);
    // Others pass before its pod is bound, and after.
    ck_assert_int_eq(node.asked_by_the_next(), 1);
    node.runs(node.here.job);
    ck_assert_int_eq(node.asked_by_the_next(), 1);
    // Its end is seen by its mark.
    ck_assert(node.run_dir.write(RunDir::ended, node.name(), Message{"ended", {}}, node.why));
    ck_assert(node.keeps_out());
}
END_TEST

START_TEST(placeholders_that_pass_at_once_are_both_remembered) {
    FullNode node;
    setenv("SLURM_NODELIST", "n1", 1);
    node.sealed();
    JobHere other = node.here;
    other.job = node.here.job + 1;
    while_asked = [&] { ck_assert_int_eq(on_prolog(node.options, other), 0); };
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    node.runs(node.here.job);
    node.runs(other.job);
    ck_assert_int_eq(node.asked_by_the_next(), 1);
}
END_TEST

// What the roll must not be believed after, case by case: docs/protocol.md, "The gate".
START_TEST(node_that_was_down_keeps_jobs_out) {
    FullNode node;
    for (std::uint32_t job = FullNode::first; job <= FullNode::last; ++job)
        node.silently_ended(job);  // DOWN ends all of a node's jobs
    ck_assert(node.keeps_out());
}
END_TEST

START_TEST(job_lost_by_slurmctld_keeps_jobs_out) {
    for (const bool reused : {false, true}) {
        FullNode node;
        node.silently_ended(110);
        if (reused)
            node.slurmctld_knows(110, JOB_RUNNING, ticket_json(other_nonce));
        slurmctld_starts();  // it lost the job when it was killed
        ck_assert(node.keeps_out());
    }
    // In the very second in which it had answered.
    FullNode node;
    node.silently_ended(110);
    slurmctld_configured = slurmctld_now;
    ck_assert(node.keeps_out());
}
END_TEST

START_TEST(slurmctld_that_started_anew_is_asked_for_all_once) {
    FullNode node;
    slurmctld_starts();
    ck_assert_int_eq(node.asked_by_the_next(), 20);
    ck_assert_int_eq(node.asked_by_the_next(), 1);
    slurmctld_away = true;
    ck_assert(node.keeps_out());
}
END_TEST

START_TEST(slurmd_that_was_killed_in_an_epilog_keeps_jobs_out) {
    FullNode node;
    node.silently_ended(110);  // the epilog came no further than slurmd
    node.options.run_dir = node.path("ru*");
    on_slurmd(node.options);
    node.options.run_dir = node.path("run");
    ck_assert(node.keeps_out());
    // A gate that was asking when slurmd started writes a roll that nobody believes.
    FullNode other;
    slurmctld_starts();  // so that it writes one
    meanwhile = [&] { on_slurmd(other.options); };
    other.asked_by_the_next();
    meanwhile = nullptr;
    other.silently_ended(110);
    ck_assert(other.keeps_out());
}
END_TEST

START_TEST(shrunk_job_keeps_jobs_out) {
    FullNode node;
    node.runs(200, "n[1-2]");
    ck_assert_int_eq(node.asked_by_the_next(), 2);
    ck_assert_int_eq(node.asked_by_the_next(), 2);  // each time anew
    node.slurmctld_knows(200, JOB_RUNNING, ticket_json(), "n2");
    ck_assert(node.keeps_out());
}
END_TEST

START_TEST(pod_without_a_record_of_its_job_is_asked_for_each_time) {
    FullNode node;
    node.run_dir.remove(RunDir::jobs, RunDir::job_name(110, nonce));
    slurmctld_starts();
    ck_assert_int_eq(node.asked_by_the_next(), 20);
    ck_assert_int_eq(node.asked_by_the_next(), 2);
    node.silently_ended(110);
    ck_assert(node.keeps_out());
}
END_TEST

START_TEST(epilog_that_leaves_no_mark_keeps_jobs_out) {
    FullNode node;
    node.here.job = 110;  // its ticket cannot be opened: the key is another by now
    setenv("SPANK_BERTH", seal(std::string(32, 'x'), ticket_json()).c_str(), 1);
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    node.silently_ended(110);
    ck_assert(node.keeps_out());
    // Or there was no room to write it.
    FullNode other;
    other.sealed();
    other.here.job = 110;
    std::filesystem::remove_all(other.path("run/ended"));
    other.write("run/ended", "");
    other.options.hold = std::chrono::seconds(0);
    ck_assert_int_eq(on_epilog(other.options, other.here), 0);
    other.silently_ended(110);
    ck_assert(other.keeps_out());
}
END_TEST

int main() {
    return test::run_suite(
        "gate",
        {gate_lets_jobs_pass_beside_live_placeholders, gate_keeps_jobs_out_until_the_pod_is_gone, gate_is_bounded_and_then_drains,
         gate_of_a_node_where_no_agent_ever_ran_is_open, gate_waits_while_it_cannot_see_what_is_held,
         gate_of_a_full_node_asks_for_one_placeholder, placeholder_that_passes_the_gate_needs_no_question_later, placeholders_that_pass_at_once_are_both_remembered,
         node_that_was_down_keeps_jobs_out, job_lost_by_slurmctld_keeps_jobs_out, slurmctld_that_started_anew_is_asked_for_all_once,
         slurmd_that_was_killed_in_an_epilog_keeps_jobs_out, shrunk_job_keeps_jobs_out,
         pod_without_a_record_of_its_job_is_asked_for_each_time, epilog_that_leaves_no_mark_keeps_jobs_out});
}
