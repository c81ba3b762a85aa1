#include "agent/node/pod_cgroup.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "agent/log.h"
#include "agent/node/freezer.h"

namespace berth::node {

namespace fs = std::filesystem;

namespace {

// v2: the mount itself; v1 and hybrid: one directory per hierarchy below it.
std::vector<std::string> hierarchies(const std::string &mount) {
    std::vector<std::string> found;
    if (access((mount + "/cgroup.controllers").c_str(), F_OK) == 0)
        return {mount};
    std::error_code error;
    for (const auto &entry : fs::directory_iterator(mount, error))
        if (entry.is_directory(error))
            found.push_back(entry.path());
    return found;
}

// Calls fn(pid) for every process in the cgroup and below.
template <class Fn>
void each_process(const std::string &directory, Fn fn) {
    const auto read = [&fn](const fs::path &cgroup) {
        std::ifstream procs(cgroup / "cgroup.procs");
        for (long pid; procs >> pid;)
            fn(static_cast<pid_t>(pid));
    };
    std::error_code error;
    read(directory);
    for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
        if (it->is_directory(error))
            read(it->path());
}

}  // namespace

PodCgroup::PodCgroup(const std::string &mount, const std::string &root, const std::string &pod_uid) {
    std::string dashed = pod_uid;
    std::replace(dashed.begin(), dashed.end(), '-', '_');
    const std::string below = root == "/" ? "" : root;
    for (const std::string &hierarchy : hierarchies(mount)) {
        const std::string base = hierarchy + below;
        for (const char *qos : {"", "burstable", "besteffort"}) {
            const std::string tier = *qos == '\0' ? "" : "/" + std::string(qos);
            candidates_.push_back(base + "/kubepods" + tier + "/pod" + pod_uid);
            const std::string slice = *qos == '\0' ? "kubepods" : "kubepods-" + std::string(qos);
            const std::string parent = *qos == '\0' ? "/kubepods.slice" : "/kubepods.slice/" + slice + ".slice";
            candidates_.push_back(base + parent + "/" + slice + "-pod" + dashed + ".slice");
        }
    }
}

std::vector<std::string> PodCgroup::directories() const {
    std::vector<std::string> found;
    for (const std::string &candidate : candidates_)
        if (access(candidate.c_str(), F_OK) == 0)
            found.push_back(candidate);
    return found;
}

bool PodCgroup::populated() const {
    for (const std::string &directory : directories()) {
        bool any = false;
        each_process(directory, [&any](pid_t) { any = true; });
        if (any)
            return true;
    }
    return false;
}

void PodCgroup::kill() const {
    for (const std::string &directory : directories()) {
        std::ofstream whole(directory + "/cgroup.kill");
        if (whole && (whole << 1) && whole.flush())
            continue;
        each_process(directory, [](pid_t pid) { ::kill(pid, SIGKILL); });
    }
    // Afterwards, so that nothing runs in between.
    if (const auto done = thaw(*this); !done)
        log::warning("{}; frozen processes cannot die", done.error());
}

}  // namespace berth::node
