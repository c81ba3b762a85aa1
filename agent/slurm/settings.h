// Settings: what slurmctld says of its configuration, as far as Berth depends on it (scontrol show config). Blocks; any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "agent/result.h"

namespace berth::slurm {

struct Settings {
    std::string version;             // slurmctld's: "22.05.8"
    std::string client_version;      // of the libslurm that this program uses
    std::string conf_path;           // slurm.conf, on slurmctld's host
    std::vector<std::string> hosts;  // SlurmctldHost, by their names there
    std::string slurm_user;
    std::uint32_t slurm_uid = 0;
    std::string job_submit_plugins, scheduler_parameters, select_type, auth_info, federation_parameters;
    std::string plugin_dirs;  // separated by ':'
    std::string plugstack;    // plugstack.conf
    bool prolog_alloc = false, prolog_contain = false;
    std::uint32_t inactive_limit = 0, min_job_age = 0, max_job_count = 0;
    std::optional<std::uint32_t> prolog_epilog_timeout;
    bool accounting = false;  // by slurmdbd
    bool stores_comments = false;
    std::time_t now = 0;  // by slurmctld's clock
};

Result<Settings> load_settings();

}  // namespace berth::slurm
