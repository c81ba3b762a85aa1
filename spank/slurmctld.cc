// What the hooks ask slurmctld.
#include "proto/slurm_api.h"
#include "spank/hooks.h"
#include "spank/roll.h"

namespace berth {

namespace {

bool is_listed(const char *hostlist, const std::string &node) {
    const auto list = slurm_hostlist_create(hostlist);
    if (list == nullptr)
        return false;
    const bool found = slurm_hostlist_find(list, node.c_str()) >= 0;
    slurm_hostlist_destroy(list);
    return found;
}

}  // namespace

Standing ask_slurmctld(std::uint32_t job, std::string_view nonce, const std::string &node) {
    slurm_api::load_plugins();
    job_info_msg_t *answer = nullptr;
    if (slurm_api::load_job(&answer, job) != SLURM_SUCCESS)
        return slurm_api::last_errno() == ESLURM_INVALID_JOB_ID ? Standing::ended : Standing::unreachable;
    Standing standing = Standing::ended;
    for (std::uint32_t i = 0; i < answer->record_count; ++i) {
        const slurm_job_info_t &info = answer->job_array[i];
        std::string why;
        const auto ticket = parse_ticket(info.admin_comment != nullptr ? info.admin_comment : "", why);
        const std::uint32_t state = info.job_state & JOB_STATE_BASE;
        const bool completing = (info.job_state & JOB_COMPLETING) != 0;
        if (slurm_api::job_id(info) != job || !ticket || ticket->nonce != nonce || completing)
            continue;
        if ((state == JOB_RUNNING || state == JOB_SUSPENDED) && is_listed(info.nodes, node))
            standing = Standing::alive;
        else if (state == JOB_PENDING)
            standing = Standing::pending;
    }
    slurm_api::free_jobs(answer);
    return standing;
}

std::optional<Epoch> ask_epoch(unsigned long before) {
    slurm_api::load_plugins();
    slurm_conf_t *conf = nullptr;
    if (slurm_load_ctl_conf(static_cast<time_t>(before), &conf) != SLURM_SUCCESS || conf == nullptr)
        return slurm_api::last_errno() == SLURM_NO_CHANGE_IN_DATA ? std::optional(Epoch{before, true}) : std::nullopt;
    const Epoch epoch{static_cast<unsigned long>(conf->last_update), false};  // the time at which it answers
    slurm_api::free_conf(conf);
    return epoch;
}

}  // namespace berth
