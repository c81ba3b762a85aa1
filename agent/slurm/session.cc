#include "agent/slurm/session.h"

#include <algorithm>

#include "agent/slurm/libslurm_log.h"
#include "proto/slurm_api.h"

extern "C" {
[[gnu::weak]] extern slurm_conf_t slurm_conf;  // libslurm's own copy of slurm.conf
}

namespace berth::slurm {

namespace {

// Waiting longer than slurmctld may be busy beats submitting twice: a reply that finds no reader costs the job.
constexpr std::uint16_t least_message_timeout = 100;

// slurmctld's own refusals have numbers from 2000 on. Below, and among them from 5000 (sockets) and 6000 (credentials), are failures to
// talk to it, after which nobody knows what it has done.
bool refused_by_slurmctld(int error) { return error >= 2000 && error < 10000 && (error < 5000 || error >= 7000); }

}  // namespace

void start() {
    slurm_init(nullptr);
    take_over_log();
    if (&slurm_conf != nullptr)
        slurm_conf.msg_timeout = std::max(slurm_conf.msg_timeout, least_message_timeout);
}

std::uint32_t slurm_user() { return &slurm_conf != nullptr ? slurm_conf.slurm_user_id : 0; }

std::uint16_t inactive_limit() { return &slurm_conf != nullptr ? slurm_conf.inactive_limit : 0; }

std::chrono::seconds message_timeout() {
    return std::chrono::seconds(&slurm_conf != nullptr ? slurm_conf.msg_timeout : least_message_timeout);
}

void be_brief(std::chrono::seconds most) {
    if (&slurm_conf != nullptr)
        slurm_conf.msg_timeout = std::min(slurm_conf.msg_timeout, static_cast<std::uint16_t>(most.count()));
}

std::string last_error() { return slurm_strerror(slurm_api::last_errno()); }

Submission failed_submission(int error, const std::string &said) {
    Submission out;
    out.problem = slurm_strerror(error);
    if (refused_by_slurmctld(error)) {
        out.outcome = Submission::Outcome::refused;
        if (!said.empty())
            out.problem += ": " + said;
    }
    return out;
}

}  // namespace berth::slurm
