// A node for the tests of the hooks: records and a socket of its own, an agent that answers as it is told, and in place of libslurm a
// slurmctld that is a table. Included once in a program, for it defines what libslurm would.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cstdarg>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "proto/seal.h"
#include "proto/slurm_api.h"
#include "spank/hooks.h"
#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using berth::test::Scratch;
using berth::test::wait_until;

namespace {

struct Known {
    std::uint32_t state;
    std::string admin_comment;
    std::string nodes;
};
using HostList = decltype(slurm_hostlist_create(nullptr));
std::mutex known_mutex;
std::map<std::uint32_t, Known> known_jobs;  // what slurmctld knows
bool slurmctld_away = false;
std::vector<std::string> drains, log_lines;
std::atomic<int> questions{0};  // about a job
std::atomic<int> greetings{0};  // about slurmctld itself
time_t slurmctld_configured = 1000, slurmctld_now = 1010;  // by its own clock: when it read slurm.conf, and what time it is
inline void slurmctld_starts() {
    slurmctld_configured = slurmctld_now + 5;
    slurmctld_now += 10;
}
std::function<void()> meanwhile;    // happens while slurmctld says who it is
std::function<void()> while_asked;  // happens once, while slurmctld is asked for a job
// Only from 23.02 on is a call without them the end of the process.
std::atomic<bool> plugins_loaded{SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(23, 2, 0)};

template <class Info>
void set_id(Info &info, std::uint32_t job) {
    if constexpr (requires { info.step_id.job_id = job; })
        info.step_id.job_id = job;
    else
        info.job_id = job;
}

int answer(job_info_msg_t **out, std::uint32_t job) {
    ++questions;
    if (const auto happens = std::exchange(while_asked, nullptr))
        happens();
    ck_assert_msg(plugins_loaded, "slurmctld is asked before Slurm's plugins are loaded");
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
    message->job_array[0].nodes = found->second.nodes.data();
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
void slurm_init(const char *) { plugins_loaded = true; }
#ifdef BERTH_STEP_ID_IN_CALLS
int slurm_load_job(job_info_msg_t **out, slurm_step_id_t job, uint16_t) { return answer(out, job.job_id); }
#else
int slurm_load_job(job_info_msg_t **out, uint32_t job, uint16_t) { return answer(out, job); }
#endif
int slurm_load_ctl_conf(time_t since, slurm_conf_t **out) {
    ++greetings;
    ck_assert_msg(plugins_loaded, "slurmctld is asked before Slurm's plugins are loaded");
    if (slurmctld_away)
        return SLURM_ERROR;
    if (meanwhile)
        meanwhile();
    if (since - 1 >= slurmctld_configured) {
        errno = SLURM_NO_CHANGE_IN_DATA;
        return SLURM_ERROR;
    }
    *out = new slurm_conf_t();
    (*out)->last_update = slurmctld_now;
    return SLURM_SUCCESS;
}
#ifdef BERTH_STEP_ID_IN_CALLS
void slurm_free_conf(slurm_conf_t *conf) { delete conf; }
#else
void slurm_free_ctl_conf(slurm_conf_t *conf) { delete conf; }
#endif
void slurm_xfree(void **text) { *text = nullptr; }  // the tickets here are the tests' own
void slurm_free_job_info_msg(job_info_msg_t *message) {
    delete message->job_array;
    delete message;
}
void slurm_init_update_node_msg(update_node_msg_t *update) { *update = {}; }
int slurm_update_node(update_node_msg_t *update) {
    ck_assert_msg(plugins_loaded, "slurmctld is told before Slurm's plugins are loaded");
    ck_assert_uint_eq(update->node_state, NODE_STATE_DRAIN);
    drains.push_back(std::string(update->node_names) + ": " + update->reason);
    return SLURM_SUCCESS;
}
// A list of one node is enough here.
HostList slurm_hostlist_create(const char *hosts) { return reinterpret_cast<HostList>(strdup(hosts)); }
int slurm_hostlist_find(HostList hosts, const char *host) { return std::strcmp(reinterpret_cast<const char *>(hosts), host) == 0 ? 0 : -1; }
void slurm_hostlist_destroy(HostList hosts) { free(hosts); }
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
        {
            const std::lock_guard lock(known_mutex);
            known_jobs.clear();
        }
        drains.clear();
        log_lines.clear();
        questions = greetings = 0;
        slurmctld_away = false;
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
    void slurmctld_knows(std::uint32_t job, std::uint32_t state, const std::string &admin_comment, const std::string &nodes = "n1") const {
        const std::lock_guard lock(known_mutex);
        known_jobs[job] = {state, admin_comment, nodes};
    }
    std::string name() const { return RunDir::job_name(here.job, nonce); }
    // A placeholder of this node, or of several, with a pod of its own, that runs as far as slurmctld knows.
    void runs(std::uint32_t job, const std::string &nodelist = "n1") {
        ck_assert(run_dir.write(RunDir::jobs, RunDir::job_name(job, nonce), Message{"allocated", {}}.set("nodelist", nodelist), why));
        hold("pod-" + std::to_string(job), job, nonce);
        slurmctld_knows(job, JOB_RUNNING, ticket_json());
    }
    // How many questions about jobs the next one asks that comes to the gate, and passes.
    int asked_by_the_next() {
        questions = greetings = 0;
        ck_assert_int_eq(pass_gate(options, here), 0);
        return questions;
    }
    // Whether the next one is kept out.
    bool keeps_out() {
        options.gate = std::chrono::seconds(0);
        const int answer = pass_gate(options, here);
        options.gate = std::chrono::seconds(30);
        drains.clear();
        log_lines.clear();
        return answer != 0;
    }
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
