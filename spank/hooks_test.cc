// Prolog, epilog, gate and step against a run directory of the test's own, an agent that is a bare socket, and a
// slurmctld that is a table.
#include "spank/hooks.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <cstdarg>
#include <functional>
#include <map>
#include <mutex>

#include "proto/seal.h"
#include "proto/slurm_api.h"
#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using berth::test::Scratch;
using berth::test::wait_until;

namespace {

struct Known {
    std::uint32_t state;
    std::string admin_comment;
};
std::mutex known_mutex;
std::map<std::uint32_t, Known> known_jobs;  // what slurmctld knows
bool slurmctld_away = false;
std::vector<std::string> drains, log_lines;
std::atomic<int> questions{0};

template <class Info>
void set_id(Info &info, std::uint32_t job) {
    if constexpr (requires { info.step_id.job_id = job; })
        info.step_id.job_id = job;
    else
        info.job_id = job;
}

int answer(job_info_msg_t **out, std::uint32_t job) {
    ++questions;
    const std::lock_guard lock(known_mutex);
    const auto found = known_jobs.find(job);
    if (slurmctld_away || found == known_jobs.end()) {
        errno = slurmctld_away ? ETIMEDOUT : ESLURM_INVALID_JOB_ID;
        return SLURM_ERROR;
    }
    auto *message = new job_info_msg_t();
    message->record_count = 1;
    message->job_array = new slurm_job_info_t();
    set_id(message->job_array[0], job);
    message->job_array[0].job_state = found->second.state;
    message->job_array[0].admin_comment = found->second.admin_comment.data();
    *out = message;
    return SLURM_SUCCESS;
}

void keep(const char *format, va_list arguments) {
    char line[1024];
    vsnprintf(line, sizeof line, format, arguments);
    log_lines.emplace_back(line);
}

}  // namespace

extern "C" {
void slurm_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
}
void slurm_info(const char *, ...) {}
#ifdef BERTH_STEP_ID_IN_CALLS
int slurm_load_job(job_info_msg_t **out, slurm_step_id_t job, uint16_t) { return answer(out, job.job_id); }
#else
int slurm_load_job(job_info_msg_t **out, uint32_t job, uint16_t) { return answer(out, job); }
#endif
void slurm_free_job_info_msg(job_info_msg_t *message) {
    delete message->job_array;
    delete message;
}
void slurm_init_update_node_msg(update_node_msg_t *update) { *update = {}; }
int slurm_update_node(update_node_msg_t *update) {
    ck_assert_uint_eq(update->node_state, NODE_STATE_DRAIN);
    drains.push_back(std::string(update->node_names) + ": " + update->reason);
    return SLURM_SUCCESS;
}
char *slurm_strerror(int) {
    static char text[] = "error";
    return text;
}
}

namespace {

constexpr std::uint32_t alice = 1001;
const std::string nonce = "0123456789abcdef", other_nonce = "fedcba9876543210";

std::string ticket_json(const std::string &with_nonce = nonce) {
    return to_json({.cluster = "c",
                    .ns = "ns",
                    .kind = "Pod",
                    .name = "p",
                    .uid = "u",
                    .nonce = with_nonce,
                    .user = alice,
                    .group = 2001});
}

struct Node : Scratch {
    const std::string key = std::string(32, 'k');
    RunDir run_dir{path("run")};
    Options options;
    JobHere here{12, alice, 2001, "n1"};
    std::string why;

    Node() {
        options.run_dir = path("run");
        options.key_file = write("key", key);
        options.hold = options.gate = std::chrono::seconds(30);  // longer than a test lives
        ck_assert(run_dir.make(why));
        setenv("SLURM_NODELIST", "n[1-2]", 1);
        setenv("SLURM_JOB_CPUS_PER_NODE", "4(x2)", 1);
        unsetenv("SPANK_BERTH");
    }
    void sealed() const { setenv("SPANK_BERTH", seal(key, ticket_json()).c_str(), 1); }
    void hold(const std::string &uid, std::uint32_t job, const std::string &with_nonce) {
        Message record{"held", {}};
        record.set("job", job).set("nonce", with_nonce).set("ns", "ns").set("name", "p").set("uid", uid);
        ck_assert(run_dir.write(RunDir::held, uid, record, why));
    }
    void slurmctld_knows(std::uint32_t job, std::uint32_t state, const std::string &admin_comment) const {
        const std::lock_guard lock(known_mutex);
        known_jobs[job] = {state, admin_comment};
    }
    std::string name() const { return RunDir::job_name(here.job, nonce); }
};

// The agent's end of the socket.
struct Agent {
    int listener = -1, peer = -1;
    explicit Agent(const Node &node) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        node.run_dir.socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
        listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(listener, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
        ck_assert_int_eq(listen(listener, 8), 0);
    }
    ~Agent() {
        close(peer);
        close(listener);
    }
    Message hear() {
        if (peer < 0)
            peer = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        std::string text(max_message, '\0'), why;
        const ssize_t n = recv(peer, text.data(), text.size(), 0);
        text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
        return decode(text, why).value_or(Message{});
    }
    void say(const Message &message) const {
        const std::string text = encode(message);
        ck_assert_int_eq(send(peer, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }
};

// Runs a hook in a thread; finished() says whether it has returned.
struct Running {
    std::atomic<bool> done{false};
    int result = 1;
    std::thread thread;
    Running(int (*hook)(const Options &, const JobHere &), const Node &node)
        : thread([this, hook, &node] {
              result = hook(node.options, node.here);
              done = true;
          }) {}
    ~Running() {
        if (thread.joinable())
            thread.join();
    }
    int finish() {
        thread.join();
        return result;
    }
};

}  // namespace

START_TEST(ordinary_job_leaves_no_trace) {
    Node node;
    ck_assert_int_eq(on_prolog(node.options, node.here), 0);
    ck_assert_int_eq(on_step(node.options, node.here), 0);
    ck_assert_int_eq(on_epilog(node.options, node.here), 0);
    for (const char *kind : {"run/jobs", "run/ended", "run/held"})
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
        Running gate(pass_gate, node);
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

int main() {
    return test::run_suite(
        "hooks",
        {ordinary_job_leaves_no_trace, prolog_records_and_then_tells_the_agent, prolog_does_not_need_the_agent,
         unsealed_or_foreign_tickets_get_no_pod, epilog_marks_the_end_and_returns_when_nothing_is_held,
         epilog_holds_until_the_record_is_gone_whatever_it_is_told, epilog_finds_an_agent_that_comes_late,
         pod_that_cannot_be_killed_drains_the_node_at_once, hold_is_bounded_and_the_reason_names_the_pod,
         record_of_another_version_is_held_too, gate_lets_jobs_pass_beside_live_placeholders,
         gate_keeps_jobs_out_until_the_pod_is_gone, gate_is_bounded_and_then_drains, no_step_runs_inside_a_placeholder,
         placeholder_that_has_not_begun_is_not_marked_as_ended, epilog_of_a_lost_placeholder_nudges_the_agent});
}
