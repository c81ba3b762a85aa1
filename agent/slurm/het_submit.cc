#include "agent/slurm/het_submit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "agent/slurm/description.h"
#include "agent/slurm/libslurm_log.h"
#include "agent/slurm/session.h"
#include "agent/slurm/workers.h"
#include "proto/slurm_api.h"

extern char **environ;

namespace berth::slurm {

namespace {

using Clock = std::chrono::steady_clock;

struct Fd {
    int number = -1;
    explicit Fd(int n) : number(n) {}
    ~Fd() { reset(); }
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    void reset() {
        if (number >= 0)
            close(number);
        number = -1;
    }
};

bool write_all(int fd, std::string_view data) {
    while (!data.empty()) {
        const ssize_t n = write(fd, data.data(), data.size());
        if (n < 0 && errno != EINTR)
            return false;
        data.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0);
    }
    return true;
}

// Until the writer closes, or the deadline.
bool read_all(int fd, Clock::time_point deadline, std::string &out) {
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
        pollfd ready{fd, POLLIN, 0};
        if (left <= 0 || (poll(&ready, 1, static_cast<int>(left)) < 0 && errno != EINTR))
            return false;
        char buffer[4096];
        if (ready.revents == 0)
            continue;
        const ssize_t n = read(fd, buffer, sizeof buffer);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        out.append(buffer, n > 0 ? static_cast<std::size_t>(n) : 0);
    }
}

Submission unsure(std::string problem) { return {Submission::Outcome::unsure, 0, std::move(problem)}; }

// The child has the request as a file, which cannot fill up while nobody reads, and nothing else of ours but standard error.
int spawn(int in, int out, pid_t &child) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
#if __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
    std::string program = "/proc/self/exe", argument(submit_het_argument), parent = std::to_string(getpid());
    char *arguments[] = {program.data(), argument.data(), parent.data(), nullptr};
    const int error = posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

// Of the child alone.
[[noreturn]] void answer(const Submission &submission) {
    write_all(STDOUT_FILENO, to_text(submission));
    _exit(0);
}

void parts_are_queued(std::uint32_t job) { answer({Submission::Outcome::queued, job, {}}); }

}  // namespace

Submission submit_het(Request request) {
    if (const Fence *fence = Workers::fence())
        request.not_after = fence->until().time_since_epoch().count();
    const std::string text = to_text(request);
    if (text.empty())
        return {Submission::Outcome::refused, 0, "the request holds text that is not UTF-8"};
    Fd in(memfd_create("berth request", MFD_CLOEXEC));
    int ends[2] = {-1, -1};
    if (in.number < 0 || !write_all(in.number, text) || lseek(in.number, 0, SEEK_SET) != 0 || pipe2(ends, O_CLOEXEC) != 0)
        return unsure(fmt::format("submitting a heterogeneous job: {}", std::strerror(errno)));
    Fd from_child(ends[0]), to_parent(ends[1]);
    pid_t child = -1;
    if (const int error = spawn(in.number, to_parent.number, child); error != 0)
        return unsure(fmt::format("starting a process that submits a heterogeneous job: {}", std::strerror(error)));
    to_parent.reset();

    // libslurm asks every slurmctld host in turn, each for as long as the time-out.
    std::string said;
    const bool ended = read_all(from_child.number, Clock::now() + 3 * message_timeout(), said);
    if (!ended)
        kill(child, SIGKILL);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (const auto submission = parse_submission(said))
        return *submission;
    return unsure(ended ? fmt::format("the process that submits a heterogeneous job ended with wait status {} and no answer", status)
                        : "slurmctld did not answer the submission of a heterogeneous job in time");
}

int submit_het_child(const char *parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (parent == nullptr || std::to_string(getppid()) != parent)
        return EXIT_FAILURE;
    signal(SIGPIPE, SIG_IGN);
    std::string text;
    if (!read_all(STDIN_FILENO, Clock::now() + std::chrono::seconds(10), text))
        return EXIT_FAILURE;
    const auto request = parse_request(text);
    if (!request)
        answer({Submission::Outcome::refused, 0, request.error()});

    start();
    const slurm_api::List parts = slurm_list_create(nullptr);
    std::vector<std::unique_ptr<Description>> descriptions;
    for (std::size_t i = 0; i < request->parts.size(); ++i) {
        descriptions.push_back(std::make_unique<Description>(request->parts[i], request->tickets[i], request->doorbell_port));
        slurm_list_append(parts, &descriptions.back()->message());
    }
    if (request->not_after != 0 && BootClock::now().time_since_epoch().count() >= request->not_after)
        answer(unsure(Fence::closed_text));
    const Sayings sayings;
    errno = 0;
    const slurm_api::List allocated = slurm_api::allocate_het_job<parts_are_queued>(parts);
    const int error = slurm_api::last_errno();
    if (allocated == nullptr)
        answer(failed_submission(error, sayings.text()));
    // Not seen: slurmctld starts no heterogeneous job inside the request.
    const auto *first = static_cast<const resource_allocation_response_msg_t *>(slurm_list_peek(allocated));
    answer({Submission::Outcome::running, first != nullptr ? slurm_api::job_id(*first) : 0, {}});
}

}  // namespace berth::slurm
