#include "agent/tool/access.h"

#include <fmt/format.h>
#include <pwd.h>

#include "agent/config_check.h"
#include "agent/slurm/client.h"
#include "agent/slurm/session.h"

namespace berth::tool {

namespace {

constexpr std::chrono::seconds slurm_patience{10};

}  // namespace

std::string Access::scheduler() const {
    return config && !config->clusters.empty() ? config->clusters.front().scheduler_name : ClusterConfig().scheduler_name;
}

std::string Access::cluster() const { return config && !config->clusters.empty() ? config->clusters.front().name : ""; }

Result<std::unique_ptr<KubeSession>> Access::kubernetes() const {
    return KubeSession::open(kubeconfig_path(options.kubeconfig, site()), options.context);
}

int complain(std::FILE *err, const std::string &text) {
    fmt::print(err, "berth: {}\n", text);
    return 1;
}

Result<Access> open_access(const AccessOptions &options) {
    Access access;
    access.options = options;
    access.config_path = options.config_path.empty() ? default_config_path() : options.config_path;
    Result<Config> config = load_config(access.config_path);
    if (config)
        access.config = std::move(*config);
    else if (!options.config_path.empty())
        return Error{config.error()};
    else
        access.config_problem = config.error();
    return access;
}

void start_slurm() {
    slurm::start();
    slurm::be_brief(slurm_patience);
}

std::string user_name(std::uint32_t uid) {
    char room[4096];
    passwd entry{}, *found = nullptr;
    return getpwuid_r(uid, &entry, room, sizeof room, &found) == 0 && found != nullptr ? found->pw_name : std::to_string(uid);
}

}  // namespace berth::tool
