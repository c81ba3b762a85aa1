#include "agent/slurm/settings.h"

#include <fmt/format.h>

#include <memory>

#include "agent/slurm/session.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

namespace {

std::string text(const char *from) { return from != nullptr ? from : ""; }

}  // namespace

Result<Settings> load_settings() {
    slurm_conf_t *raw = nullptr;
    if (slurm_load_ctl_conf(0, &raw) != SLURM_SUCCESS || raw == nullptr)
        return Error{"asking slurmctld for its configuration: " + last_error()};
    const std::unique_ptr<slurm_conf_t, decltype(&slurm_api::free_conf)> conf(raw, slurm_api::free_conf);
    Settings out;
    out.version = text(conf->version);
    // The library's file name changes with each release, so what is loaded is of the release that we were compiled for.
    out.client_version =
        fmt::format("{:02}.{:02}.{}", SLURM_VERSION_NUMBER >> 16 & 0xff, SLURM_VERSION_NUMBER >> 8 & 0xff, SLURM_VERSION_NUMBER & 0xff);
    out.conf_path = text(conf->slurm_conf);
    for (std::uint32_t i = 0; i < conf->control_cnt; ++i)
        out.hosts.push_back(text(conf->control_machine[i]));
    out.slurm_user = text(conf->slurm_user_name);
    out.slurm_uid = conf->slurm_user_id;
    out.job_submit_plugins = text(conf->job_submit_plugins);
    out.scheduler_parameters = text(conf->sched_params);
    out.select_type = text(conf->select_type);
    out.auth_info = text(conf->authinfo);
    out.federation_parameters = text(conf->fed_params);
    out.plugin_dirs = text(conf->plugindir);
    out.plugstack = text(conf->plugstack);
    out.prolog_contain = (conf->prolog_flags & PROLOG_FLAG_CONTAIN) != 0;
    out.prolog_alloc = out.prolog_contain || (conf->prolog_flags & PROLOG_FLAG_ALLOC) != 0;
    out.inactive_limit = conf->inactive_limit;
    out.min_job_age = conf->min_job_age;
    out.max_job_count = conf->max_job_cnt;
    if (const std::uint16_t seconds = slurm_api::prolog_epilog_timeout(*conf); seconds != 0 && seconds < NO_VAL16)
        out.prolog_epilog_timeout = seconds;
    out.accounting = text(conf->accounting_storage_type).find("slurmdbd") != std::string::npos;
    out.stores_comments = (conf->conf_flags & slurm_api::store_job_comment) != 0;
    out.now = conf->last_update;
    return out;
}

}  // namespace berth::slurm
