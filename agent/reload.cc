#include "agent/reload.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "agent/cluster.h"
#include "agent/log.h"
#include "agent/start_anew.h"
#include "proto/records.h"
#include "proto/seal.h"

namespace berth {

namespace {

// systemd takes READY=1 for the end of this reload if it came after this time.
std::uint64_t monotonic_microseconds() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(now.tv_nsec) / 1'000;
}

Result<void> can_write_beside(const std::string &key, const std::string &path) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    if (access(directory.c_str(), W_OK | X_OK) == 0)
        return {};
    return Error{fmt::format("{}: {}: {}", key, directory, std::strerror(errno))};
}

// What the roles' start() would stumble over, because only a person can mend it.
Result<void> could_start(Loop &loop, const Config &config, const Duties &duties) {
    if (const auto http = connect(loop, config.clusters.front(), only_trusted); !http)
        return Error{http.error()};
    if (!duties.node_name.empty()) {
        std::string why;
        if (!read_key(config.key_file, why) || !RunDir(RunDir::expand(config.node.run_dir, duties.node_name)).make(why))
            return Error{why};
    }
    if (duties.controller) {
        if (auto writable = can_write_beside("controller.notify_socket", config.controller.notify_socket); !writable)
            return writable;
        if (auto writable = can_write_beside("controller.placeholder_table", config.controller.placeholder_table); !writable)
            return writable;
    }
    return {};
}

Result<void> is_good(Loop &loop, const Duties &duties) {
    const Result<Config> config = trusted_config(duties.config_path);
    return config ? could_start(loop, *config, duties) : Error{config.error()};
}

}  // namespace

Result<Config> trusted_config(const std::string &path) {
    Result<Config> config = load_config(path);
    if (config)
        if (const Result<void> trusted = only_trusted(path, false); !trusted)
            return Error{trusted.error()};
    return config;
}

int check_as_reload(const Duties &duties, std::FILE *out, std::FILE *err) {
    Loop loop;
    if (const Result<void> good = is_good(loop, duties); !good) {
        fmt::print(err, "{}\n", good.error());
        return 1;
    }
    fmt::print(out, "{}: ok\n", duties.config_path);
    return 0;
}

void tell_ready(const std::string &status) { sd_notify(0, ("READY=1\nSTATUS=" + status).c_str()); }

void reload(Loop &loop, const Duties &duties) {
    sd_notify(0, fmt::format("RELOADING=1\nMONOTONIC_USEC={}", monotonic_microseconds()).c_str());
    const Result<void> good = is_good(loop, duties);
    if (good) {
        log::info("SIGHUP: {} is good: starting anew with it", duties.config_path);
        start_anew();
    }
    log::error("SIGHUP: the new configuration is not used, the old one counts on: {}", good.error());
    tell_ready("the new configuration is not used: " + good.error());
}

}  // namespace berth
