#include "agent/node/confinement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <vector>

namespace berth::node {

namespace fs = std::filesystem;

namespace {

bool there(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

std::string word_in(const std::string &path) {
    std::string word;
    std::ifstream(path) >> word;
    return word;
}

// "max" is more than any number.
std::uint64_t bytes_in(const std::string &path) {
    const std::string word = word_in(path);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    return error == std::errc() && end == word.data() + word.size() && !word.empty() ? value : std::numeric_limits<std::uint64_t>::max();
}

// 0, or the error of the system.
int write_text(const std::string &path, const std::string &text) {
    const int fd = open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
    if (fd < 0)
        return errno;
    const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    const int error = errno;
    close(fd);
    return written ? 0 : error;
}

// The kubelet has removed or moved the cgroup meanwhile.
bool gone(int error) { return error == ENOENT || error == ENODEV; }

Error cannot(const std::string &text, const std::string &path, int error) {
    return Error{fmt::format("writing {} to {}: {}", text, path, std::strerror(error))};
}

Result<bool> limit_v2(const std::string &directory, std::uint64_t bytes) {
    const std::string max = directory + "/memory.max", high = directory + "/memory.high", text = std::to_string(bytes);
    if (bytes_in(max) <= bytes)
        return true;
    const std::uint64_t used = bytes_in(directory + "/memory.current");
    const bool over = used != std::numeric_limits<std::uint64_t>::max() && used > bytes;
    if (over && bytes_in(high) == bytes)
        return false;
    const std::string &file = over ? high : max;
    if (const int error = write_text(file, text); error != 0)
        return gone(error) ? Result<bool>(false) : cannot(text, file, error);
    if (!over && bytes_in(high) == bytes)
        write_text(high, "max");  // where an earlier call had to be lenient
    return !over;
}

Result<bool> limit_v1(const std::string &directory, std::uint64_t bytes) {
    const std::string file = directory + "/memory.limit_in_bytes", text = std::to_string(bytes);
    if (bytes_in(file) <= bytes)
        return true;
    const int error = write_text(file, text);
    if (error != 0 && error != EBUSY && !gone(error))
        return cannot(text, file, error);
    return error == 0;
}

// Those below come first, the directory itself last: v1 does not let a cgroup lose CPUs that one below it has.
std::vector<std::string> from_below(const std::string &directory) {
    std::vector<std::string> out{directory};
    std::error_code error;
    for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
        if (it->is_directory(error))
            out.push_back(it->path());
    std::sort(out.begin(), out.end(), [](const std::string &a, const std::string &b) { return a.size() > b.size(); });
    return out;
}

}  // namespace

Result<bool> limit_memory(const PodCgroup &pod, std::uint64_t bytes) {
    for (const std::string &directory : pod.directories()) {
        if (there(directory + "/memory.max"))
            return limit_v2(directory, bytes);
        if (there(directory + "/memory.limit_in_bytes"))
            return limit_v1(directory, bytes);
    }
    return false;
}

Result<bool> confine_cpus(const PodCgroup &pod, const std::string &cpus) {
    bool any = false;
    for (const std::string &directory : pod.directories()) {
        if (!there(directory + "/cpuset.cpus"))
            continue;
        any = true;
        // On v2 what is below follows by itself.
        const bool v2 = there(directory + "/cgroup.controllers");
        for (const std::string &each : v2 ? std::vector<std::string>{directory} : from_below(directory))
            if (const std::string file = each + "/cpuset.cpus"; word_in(file) != cpus)
                if (const int error = write_text(file, cpus); error != 0 && !gone(error))
                    return cannot(cpus, file, error);
    }
    return any;
}

// Where several slurmd share a machine, each has its name in the path.
std::string job_cpus(const std::string &cgroup_mount, const std::string &node, std::uint32_t job, std::uint32_t uid) {
    std::vector<std::string> jobs;
    for (const std::string &scope : {std::string("slurmstepd.scope"), node + "_slurmstepd.scope"})
        jobs.push_back(fmt::format("{}/system.slice/{}/job_{}", cgroup_mount, scope, job));
    for (const std::string &slurm : {std::string("slurm"), "slurm_" + node})
        jobs.push_back(fmt::format("{}/cpuset/{}/uid_{}/job_{}", cgroup_mount, slurm, uid, job));
    for (const std::string &directory : jobs)
        for (const char *file : {"/step_extern/cpuset.cpus", "/cpuset.cpus"})
            if (const std::string cpus = word_in(directory + file); !cpus.empty())
                return cpus;
    return {};
}

}  // namespace berth::node
