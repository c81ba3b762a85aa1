#include "test/hollow/pod_process.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace berth::hollow {
namespace {

namespace fs = std::filesystem;

constexpr int killed = 128 + SIGKILL, terminated = 128 + SIGTERM;
constexpr std::int64_t beat_ms = 20;

std::string container_of(const PodSpec &pod) {
    std::string id;
    for (char c : pod.uid)
        if (c != '-')
            id += c;
    return id;
}

bool write_text(const std::string &path, const std::string &text) {
    int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return ok;
}

// A cpuset of v1 takes no process before it has CPUs and memory; as runtimes do, each gets those of the one above.
void fill_cpusets(const std::string &hierarchy, const std::string &cgroup) {
    const auto read_line = [](const std::string &path) {
        std::string line;
        std::ifstream(path) >> line;
        return line;
    };
    for (std::size_t at = hierarchy.size(); at != std::string::npos && at < cgroup.size();) {
        const std::string above = cgroup.substr(0, at);
        at = cgroup.find('/', at + 1);
        for (const char *file : {"/cpuset.cpus", "/cpuset.mems"})
            if (const std::string own = cgroup.substr(0, at) + file; read_line(own).empty())
                write_text(own, read_line(above + file));
    }
}

std::int64_t monotonic_ms() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1'000'000;
}

// The life of the pod, in a child of a process with threads: system calls only.
[[noreturn]] void live(const Behaviour &behaviour, const char *exit_record, const char *beat_record, int go) {
    char byte;
    if (read(go, &byte, 1) != 1)
        _exit(terminated);  // the kubelet died before we were where we belong
    prctl(PR_SET_NAME, "hollow-pod");
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd : {0, 1, 2})
        dup2(null, fd);
    syscall(SYS_close_range, 3U, ~0U, 0U);
    int beat = behaviour.beat ? open(beat_record, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;

    sigset_t all, term;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    constexpr std::int64_t never = INT64_MAX;
    std::int64_t end = behaviour.run_for ? monotonic_ms() + behaviour.run_for->count() : never;
    int code = behaviour.oom ? killed : behaviour.exit_code;
    bool told = false;
    for (;;) {
        std::int64_t left = end == never ? 3'600'000 : end - monotonic_ms();
        if (left <= 0 && end != never)
            break;
        if (beat >= 0 && write(beat, ".", 1) == 1 && left > beat_ms)
            left = beat_ms;
        timespec wait{left / 1000, (left % 1000) * 1'000'000};
        if (sigtimedwait(&term, nullptr, &wait) == SIGTERM && !behaviour.ignore_term && !told) {
            told = true;
            std::int64_t death = monotonic_ms() + behaviour.die_after.count();
            if (death < end) {
                end = death;
                code = terminated;
            }
        }
    }
    char text[16];
    int length = 0;
    for (int rest = code, digit = 100; digit > 0; rest %= digit, digit /= 10)
        text[length++] = static_cast<char>('0' + rest / digit);
    int fd = open(exit_record, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0 && write(fd, text, static_cast<size_t>(length)) < 0)
        _exit(terminated);
    _exit(code);
}

}  // namespace

Places Places::find(const std::string &cgroup_mount, std::string cgroup_root, std::string state) {
    Places out;
    out.cgroup_root = std::move(cgroup_root);
    out.state = std::move(state);
    if (fs::exists(cgroup_mount + "/cgroup.controllers")) {
        out.hierarchies.push_back(cgroup_mount);
        return out;
    }
    for (const char *name : {"pids", "freezer", "memory", "cpuset", "systemd"}) {
        std::string dir = cgroup_mount + "/" + name;
        if (!fs::exists(dir + "/cgroup.procs"))
            continue;
        out.hierarchies.push_back(dir);
        if (!std::strcmp(name, "freezer"))
            out.v1_freezer = dir;
    }
    return out;
}

std::string Places::node_root(const std::string &hierarchy, const std::string &node) const {
    std::string root = cgroup_root;
    if (auto at = root.find("%n"); at != std::string::npos)
        root.replace(at, 2, node);
    return hierarchy + root;
}

std::string Places::pod_dir(const std::string &hierarchy, const PodSpec &pod) const {
    const char *qos = pod.guaranteed ? "" : pod.burstable ? "/burstable" : "/besteffort";
    return node_root(hierarchy, pod.node) + "/kubepods" + qos + "/pod" + pod.uid;
}

Result<std::unique_ptr<PodProcess>> PodProcess::start(Loop &loop, const Places &places, const PodSpec &pod, Ended ended) {
    if (pod.behaviour.unkillable && places.v1_freezer.empty())
        return Error{"an unkillable pod needs the freezer of cgroup v1"};
    std::vector<std::string> cgroups;
    for (const std::string &hierarchy : places.hierarchies) {
        cgroups.push_back(places.pod_dir(hierarchy, pod) + "/" + container_of(pod));
        std::error_code error;
        fs::create_directories(cgroups.back(), error);
        if (error)
            return Error{"making cgroup " + cgroups.back() + ": " + error.message()};
        if (fs::exists(cgroups.back() + "/cpuset.mems"))
            fill_cpusets(hierarchy, cgroups.back());
    }
    std::string exit_record = places.record(pod.uid, "exit"), beat_record = places.record(pod.uid, "beat");
    fs::remove(exit_record);
    std::ofstream(places.record(pod.uid, "started")) << (pod.behaviour.stuck ? "stuck" : "");

    int go[2];
    if (pipe2(go, O_CLOEXEC) < 0)
        return Error{std::string("pipe: ") + std::strerror(errno)};
    int pid = fork();
    if (pid == 0) {
        close(go[1]);
        live(pod.behaviour, exit_record.c_str(), beat_record.c_str(), go[0]);
    }
    close(go[0]);
    if (pid < 0) {
        close(go[1]);
        return Error{std::string("fork: ") + std::strerror(errno)};
    }
    // Unkillable: its freezer is not the pod's, so thawing the pod's does not help either.
    std::string frozen;
    if (pod.behaviour.unkillable) {
        frozen = places.node_root(places.v1_freezer, pod.node) + "/unkillable/" + std::to_string(pid);
        std::error_code ignored;
        fs::create_directories(frozen, ignored);
    }
    std::string failure;
    for (std::size_t i = 0; i < cgroups.size(); ++i) {
        bool freezer = !frozen.empty() && places.hierarchies[i] == places.v1_freezer;
        std::string dir = freezer ? frozen : cgroups[i];
        if (!write_text(dir + "/cgroup.procs", std::to_string(pid)))
            failure = "moving into cgroup " + dir + ": " + std::strerror(errno);
    }
    auto process = std::unique_ptr<PodProcess>(new PodProcess(loop, places, pod, pid, std::move(ended)));
    if (!failure.empty()) {
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
    } else if (write(go[1], "", 1) < 0) {
        failure = "the pod's process is gone before it began";
    }
    close(go[1]);
    if (!failure.empty())
        return Error{failure};
    if (!frozen.empty())
        write_text(frozen + "/freezer.state", "FROZEN");
    return process;
}

std::unique_ptr<PodProcess> PodProcess::adopt(Loop &loop, const Places &places, const PodSpec &pod, Ended ended) {
    for (const std::string &hierarchy : places.hierarchies)
        for (int pid : processes_in(places.pod_dir(hierarchy, pod)))
            return std::unique_ptr<PodProcess>(new PodProcess(loop, places, pod, pid, std::move(ended)));
    return nullptr;
}

PodProcess::PodProcess(Loop &loop, const Places &places, const PodSpec &pod, int pid, Ended ended)
    : places_(places), pod_(pod), pid_(pid), pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))), ended_(std::move(ended)) {
    auto gone = [this] {
        exit_watch_.reset();
        waitpid(pid_, nullptr, WNOHANG);  // not our child after an adoption: no matter
        Ended call = std::move(ended_);
        call(recorded_exit(places_, pod_.uid));
    };
    if (pidfd_ >= 0)
        exit_watch_ = loop.watch_fd(pidfd_, EPOLLIN, [gone](std::uint32_t) { gone(); });
    else  // it died while we looked
        exit_watch_ = loop.after(milliseconds(0), gone);
}

PodProcess::~PodProcess() {
    exit_watch_.reset();
    if (pidfd_ >= 0)
        close(pidfd_);
}

void PodProcess::signal(int number) {
    for (const std::string &hierarchy : places_.hierarchies)
        for (int pid : processes_in(places_.pod_dir(hierarchy, pod_))) {
            kill(pid, number);
            if (number == SIGTERM)
                return;  // one is enough, and the same process is in every hierarchy
        }
}

std::vector<int> processes_in(const std::string &dir) {
    std::vector<int> out;
    std::error_code error;
    auto read_procs = [&](const std::string &cgroup) {
        std::ifstream procs(cgroup + "/cgroup.procs");
        for (int pid; procs >> pid;)
            out.push_back(pid);
    };
    if (!fs::is_directory(dir, error))
        return out;
    read_procs(dir);
    for (const auto &entry : fs::directory_iterator(dir, error))
        if (entry.is_directory(error))
            read_procs(entry.path());
    return out;
}

bool remove_cgroup(const Places &places, const PodSpec &pod) {
    bool all = true;
    for (const std::string &hierarchy : places.hierarchies) {
        std::string dir = places.pod_dir(hierarchy, pod);
        std::error_code error;
        for (const auto &entry : fs::directory_iterator(dir, error))
            if (entry.is_directory(error))
                rmdir(entry.path().c_str());
        if (rmdir(dir.c_str()) < 0 && errno != ENOENT)
            all = false;
    }
    return all;
}

int recorded_exit(const Places &places, const std::string &uid) {
    int code = 0;
    std::ifstream record(places.record(uid, "exit"));
    return record >> code ? code : killed;
}

std::chrono::system_clock::time_point recorded_start(const Places &places, const std::string &uid) {
    struct stat status;
    if (stat(places.record(uid, "started").c_str(), &status) < 0)
        return std::chrono::system_clock::now();
    return std::chrono::system_clock::from_time_t(status.st_mtime);
}

void forget_records(const Places &places, const std::string &uid) {
    for (const char *what : {"started", "exit", "beat"})
        unlink(places.record(uid, what).c_str());
}

std::vector<PodSpec> find_pods(const Places &places, const std::vector<std::string> &nodes) {
    std::vector<PodSpec> out;
    for (const std::string &node : nodes)
        for (std::string_view qos : {"", "/burstable", "/besteffort"}) {
            std::string dir = places.node_root(places.hierarchies.front(), node) + "/kubepods";
            std::error_code error;
            for (const auto &entry : fs::directory_iterator(dir.append(qos), error)) {
                std::string name = entry.path().filename(), word;
                if (!name.starts_with("pod"))
                    continue;
                PodSpec pod;
                pod.uid = name.substr(3);
                pod.node = node;
                pod.guaranteed = qos.empty();
                pod.burstable = qos == "/burstable";
                std::ifstream(places.record(pod.uid, "started")) >> word;
                pod.behaviour.stuck = word == "stuck";
                out.push_back(std::move(pod));
            }
        }
    return out;
}

}  // namespace berth::hollow
