// reload(): the answer to SIGHUP. The configuration is read again and tried as far as that is possible without a server: syntax, keys and values,
// who may write the file, the way to the cluster, the key, the directories. If it is good the process starts anew with it
// (agent/start_anew.h), under the same process id: all that it knew is read again from Slurm and Kubernetes, as after any restart, and no second
// way of taking over a setting has to be right. If it is wrong nothing changes, and log and `systemctl status` say why.
#pragma once

#include <cstdio>
#include <string>

#include "agent/config.h"
#include "agent/loop.h"
#include "agent/result.h"

namespace berth {

struct Duties {
    std::string config_path;
    bool controller = false;
    std::string node_name;  // empty: no node role
};

// The configuration as a berthd that starts would take it.
Result<Config> trusted_config(const std::string &path);

// `berthd --check-config` with a role: what a reload of that role would say of the file, in the words of check_config() (agent/config_check.h). Run
// by the same user, it fails exactly where the reload keeps the old configuration. May make the node's run directory, as the role does; asks no
// server.
int check_as_reload(const Duties &duties, std::FILE *out, std::FILE *err);

// Returns only when the new configuration is not used. Loop's thread.
void reload(Loop &loop, const Duties &duties);

// READY=1 for systemd, with a word for people.
void tell_ready(const std::string &status);

}  // namespace berth
