// The prolog, the epilog and the start of slurmd.
#include "spank/hooks_scene.h"

START_TEST(ordinary_job_leaves_no_trace) {
    Node node;
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    ck_assert_int_eq(on_step(node.options, node.here), 0);
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    for (const char *kind : {"run/jobs", "run/ended", "run/held", "run/begun", "run/gate"})
        ck_assert(std::filesystem::is_empty(node.path(kind)));
    ck_assert_int_eq(questions, 0);
    ck_assert(log_lines.empty());
}
END_TEST

START_TEST(prolog_records_and_then_tells_the_agent) {
    Node node;
    Agent agent(node);
    node.sealed();
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    const Message heard = agent.hear();
    const auto record = node.run_dir.read(RunDir::jobs, node.name());
    ck_assert(record.has_value());
    for (const Message &message : {heard, *record}) {
        ck_assert_text(message.verb, "allocated");
        ck_assert(message.number("job") == 12 && message.number("user") == alice);
        ck_assert(message.get("node") == "n1" && message.get("nodelist") == "n[1-2]" &&
                  message.get("cpus_per_node") == "4(x2)");
        ck_assert(open_seal(node.key, message.get("ticket")) == ticket_json());
    }
}
END_TEST

START_TEST(prolog_does_not_need_the_agent) {
    Node node;
    node.sealed();
    std::filesystem::remove_all(node.path("run"));
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    ck_assert(node.run_dir.exists(RunDir::jobs, node.name()));
    // Nor one that hears nothing: its queue fills, and nobody waits.
    Agent deaf(node);
    for (int i = 0; i < 50; ++i)
        ck_assert_int_eq(on_prolog(node.options, node.here), 0);
}
END_TEST

START_TEST(unsealed_or_foreign_tickets_get_no_pod) {
    Node node;
    const auto refused = [&](const std::string &value) {
        setenv("SPANK_BERTH", value.c_str(), 1);
        log_lines.clear();
        ck_assert_int_eq(on_prolog(node.options, node.here), 0);
        ck_assert_int_eq(on_epilog(node.options, node.here), 0);
        ck_assert(std::filesystem::is_empty(node.path("run/jobs")) &&
                  std::filesystem::is_empty(node.path("run/ended")));
        ck_assert_uint_eq(log_lines.size(), 2);
    };
    refused("unsealed");
    refused(ticket_json());
    refused(seal(std::string(32, 'x'), ticket_json()));
    refused(seal(node.key, "{}"));
    node.here.uid = 1002;
    refused(seal(node.key, ticket_json()));
    node.here.uid = alice;
    chmod(node.path("key").c_str(), 0644);
    refused(seal(node.key, ticket_json()));
}
END_TEST

START_TEST(epilog_marks_the_end_and_returns_when_nothing_is_held) {
    Node node;
    node.sealed();
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    node.hold("other", 12, other_nonce);  // another placeholder's, whose id came back
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    ck_assert(node.run_dir.exists(RunDir::ended, node.name()));
    ck_assert(!node.run_dir.exists(RunDir::jobs, node.name()));
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);  // Slurm may run it twice
    ck_assert(drains.empty());
}
END_TEST

START_TEST(epilog_holds_until_the_record_is_gone_whatever_it_is_told) {
    Node node;
    Agent agent(node);
    node.sealed();
    node.hold("u", 12, nonce);
    Running epilog(on_epilog, node);
    const Message heard = agent.hear();
    ck_assert_text(heard.verb, "ended");
    ck_assert(heard.number("job") == 12 && heard.get("nonce") == nonce);
    ck_assert(node.run_dir.exists(RunDir::ended, node.name()));  // written before it was said
    agent.say(Message{"gone", heard.fields});
    agent.say(Message{"from_the_future", {}});
    // An agent that starts anew is told anew, which shows that the words before did not end the hold.
    close(agent.peer);
    agent.peer = -1;
    ck_assert_text(agent.hear().verb, "ended");
    ck_assert(!epilog.done);
    node.run_dir.remove(RunDir::held, "u");
    ck_assert_int_eq(epilog.finish(), 0);
    ck_assert(drains.empty());
}
END_TEST

START_TEST(epilog_finds_an_agent_that_comes_late) {
    Node node;
    node.sealed();
    node.hold("u", 12, nonce);
    Running epilog(on_epilog, node);
    ck_assert(wait_until([&] { return node.run_dir.exists(RunDir::ended, node.name()); }));
    Agent agent(node);
    ck_assert_text(agent.hear().verb, "ended");
    node.run_dir.remove(RunDir::held, "u");
    ck_assert_int_eq(epilog.finish(), 0);
}
END_TEST

START_TEST(pod_that_cannot_be_killed_drains_the_node_at_once) {
    Node node;
    Agent agent(node);
    node.sealed();
    node.hold("u", 12, nonce);
    Running epilog(on_epilog, node);
    agent.hear();
    agent.say(Message{"stuck", {}}.set("reason", "pod ns/p cannot be killed"));
    ck_assert_int_eq(epilog.finish(), 0);
    ck_assert_uint_eq(drains.size(), 1);
    ck_assert_text(drains[0], "n1: berth: pod ns/p cannot be killed");
    ck_assert(node.run_dir.exists(RunDir::held, "u"));
}
END_TEST

START_TEST(hold_is_bounded_and_the_reason_names_the_pod) {
    Node node;
    node.sealed();
    node.hold("u", 12, nonce);
    node.options.hold = std::chrono::seconds(1);
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    ck_assert_uint_eq(drains.size(), 1);
    ck_assert_msg(drains[0].starts_with("n1: berth: pod ns/p of job 12 is not proven gone after 1 s"), "%s",
                  drains[0].c_str());
}
END_TEST

START_TEST(record_of_another_version_is_held_too) {
    Node node;
    node.sealed();
    node.write("run/held/u", "berth 2 held\n");
    node.options.hold = node.options.gate = std::chrono::seconds(1);
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    ck_assert_int_eq(pass_gate(node.options, node.here), -1);
    ck_assert_uint_eq(drains.size(), 2);
    for (const std::string &drain : drains)
        ck_assert(drain.find("pod with uid u") != std::string::npos);
}
END_TEST

START_TEST(no_step_runs_inside_a_placeholder) {
    Node node;
    node.sealed();
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    node.slurmctld_knows(12, JOB_RUNNING, ticket_json());
    ck_assert_int_eq(on_step(node.options, node.here), -1);
    // The id came back, and now belongs to an ordinary job.
    node.slurmctld_knows(12, JOB_RUNNING, "");
    ck_assert_int_eq(on_step(node.options, node.here), 0);
    node.here.job = 1;  // 12 begins with 1
    node.slurmctld_knows(1, JOB_RUNNING, ticket_json());
    ck_assert_int_eq(on_step(node.options, node.here), 0);
}
END_TEST

// slurmctld lost job 12 and gave its id to the next placeholder; the lost one is ended here with the next one's
// variables.
START_TEST(placeholder_that_has_not_begun_is_not_marked_as_ended) {
    for (const std::uint32_t state : {JOB_PENDING, JOB_RUNNING}) {
        Node node;
        node.sealed();
        ck_assert(
            node.run_dir.write(RunDir::jobs, RunDir::job_name(12, other_nonce), Message{"allocated", {}}, node.why));
        node.slurmctld_knows(12, state, ticket_json());
        Agent agent(node);
        ck_assert_int_eq(on_epilog(node.options, node.here), 0);
        ck_assert(std::filesystem::is_empty(node.path("run/ended")));
        ck_assert_text(agent.hear().verb, "check");
    }
}
END_TEST

START_TEST(epilog_of_a_lost_placeholder_nudges_the_agent) {
    Node node;
    node.sealed();
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    Agent agent(node);
    unsetenv("SPANK_BERTH");
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    ck_assert_text(agent.hear().verb, "check");
    ck_assert(node.run_dir.exists(RunDir::jobs, node.name()));
    ck_assert(!node.run_dir.exists(RunDir::ended, node.name()));
}
END_TEST

START_TEST(epilog_of_a_pod_that_ended_by_itself_asks_nothing) {
    Node node;
    node.sealed();
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    node.slurmctld_knows(12, JOB_COMPLETE | JOB_COMPLETING, ticket_json());
    node.run_dir.remove(RunDir::jobs, node.name());  // the agent has settled it
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    ck_assert_int_eq(questions, 0);
    ck_assert(node.run_dir.exists(RunDir::ended, node.name()));
    ck_assert(std::filesystem::is_empty(node.path("run/begun")));
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);  // and twice
    ck_assert_int_eq(questions, 0);
}
END_TEST

START_TEST(start_of_slurmd_clears_what_no_epilog_did) {
    Node node;
    for (const char *name : {"old", "new"})
        ck_assert(node.run_dir.write(RunDir::begun, name, Message{"begun", {}}, node.why));
    const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    ck_assert_int_eq(utimensat(AT_FDCWD, node.path("run/begun/old").c_str(), long_ago, 0), 0);
    on_slurmd(node.options);
    ck_assert(!node.run_dir.exists(RunDir::begun, "old") && node.run_dir.exists(RunDir::begun, "new"));
}
END_TEST

int main() {
    return test::run_suite(
        "hooks",
        {ordinary_job_leaves_no_trace, prolog_records_and_then_tells_the_agent, prolog_does_not_need_the_agent,
         unsealed_or_foreign_tickets_get_no_pod, epilog_marks_the_end_and_returns_when_nothing_is_held,
         epilog_holds_until_the_record_is_gone_whatever_it_is_told, epilog_finds_an_agent_that_comes_late,
         pod_that_cannot_be_killed_drains_the_node_at_once, hold_is_bounded_and_the_reason_names_the_pod,
         record_of_another_version_is_held_too, no_step_runs_inside_a_placeholder, placeholder_that_has_not_begun_is_not_marked_as_ended,
         epilog_of_a_lost_placeholder_nudges_the_agent, epilog_of_a_pod_that_ended_by_itself_asks_nothing,
         start_of_slurmd_clears_what_no_epilog_did});
}
