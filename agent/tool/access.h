// Access: what every subcommand begins with: the site's configuration where it can be read, the API server, and slurmctld.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "agent/config.h"
#include "agent/tool/kube_session.h"
#include "agent/tool/paint.h"
#include "agent/tool/progress.h"

namespace berth::tool {

// The options that all subcommands share.
struct AccessOptions {
    std::string config_path;  // empty: the default, which need not be there
    std::string kubeconfig;   // empty: see kubeconfig_path()
    std::string context;
    std::string ns = "default";
    bool json = false;
    Paint paint;
};

struct Access {
    AccessOptions options;
    std::optional<Config> config;
    std::string config_path, config_problem;  // why there is none

    const Config *site() const { return config ? &*config : nullptr; }
    std::string scheduler() const;  // Berth's name in pods
    std::string cluster() const;    // in tickets; "" when it is not known
    std::vector<NodeMapConfig> node_map() const { return config ? config->nodes.map : std::vector<NodeMapConfig>(); }
    // As the person who asks.
    Result<std::unique_ptr<KubeSession>> kubernetes() const;
};

// An error only when the named configuration cannot be used.
Result<Access> open_access(const AccessOptions &options);

// Reads slurm.conf, once; libslurm ends the program when there is none. Calls take some seconds at most.
void start_slurm();
// Says it on standard error or wherever `err` goes; 1, an exit status.
int complain(std::FILE *err, const std::string &text);
// "alice", or the number.
std::string user_name(std::uint32_t uid);

}  // namespace berth::tool
