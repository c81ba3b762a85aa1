#include "agent/node/freezer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>

namespace berth::node {

namespace {

// One switch of one hierarchy. Which of the two a directory has says which version it is of.
struct Switch {
    std::string_view file, on, off;
};
constexpr Switch switches[] = {{"cgroup.freeze", "1", "0"}, {"freezer.state", "FROZEN", "THAWED"}};

// Calls fn(path, switch) for each switch that the pod has.
template <class Fn>
void each_switch(const PodCgroup &pod, Fn fn) {
    for (const std::string &directory : pod.directories())
        for (const Switch &each : switches)
            if (const std::string path = fmt::format("{}/{}", directory, each.file); access(path.c_str(), F_OK) == 0)
                fn(path, each);
}

// A cgroup that went meanwhile has nothing left to freeze or thaw.
Result<void> write_word(const std::string &path, std::string_view word) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const bool written = fd >= 0 && write(fd, word.data(), word.size()) == static_cast<ssize_t>(word.size());
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (written || error == ENOENT || error == ENODEV)
        return {};
    return Error{fmt::format("writing {} to {}: {}", word, path, std::strerror(error))};
}

bool is_on(const std::string &path, const Switch &which) {
    std::string word;
    std::ifstream(path) >> word;
    return !word.empty() && word != which.off;  // v1 says FREEZING while it is at it
}

}  // namespace

Result<bool> freeze(const PodCgroup &pod) {
    bool any = false;
    Result<void> result;
    each_switch(pod, [&](const std::string &path, const Switch &which) {
        any = true;
        if (auto written = write_word(path, which.on); !written)
            result = std::move(written);
    });
    if (!result)
        return Error{result.error()};
    return any;
}

Result<void> thaw(const PodCgroup &pod) {
    Result<void> result;
    each_switch(pod, [&](const std::string &path, const Switch &which) {
        if (!is_on(path, which))
            return;
        if (auto written = write_word(path, which.off); !written)
            result = std::move(written);
    });
    return result;
}

bool frozen(const PodCgroup &pod) {
    bool any = false;
    each_switch(pod, [&](const std::string &path, const Switch &which) { any = any || is_on(path, which); });
    return any;
}

}  // namespace berth::node
