#include "agent/slurm/session.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

#include "agent/slurm/libslurm_log.h"
#include "proto/slurm_api.h"

extern "C" {
[[gnu::weak]] extern slurm_conf_t slurm_conf;  // libslurm's own copy of slurm.conf
}

namespace berth::slurm {

namespace {

// Waiting longer than slurmctld may be busy beats submitting twice: a reply that finds no reader costs the job.
constexpr std::uint16_t least_message_timeout = 100;

// Errors of the system and of Slurm's protocol, of sockets (5000), credentials (6000) and TLS (13000): failures to talk to slurmctld, after
// which nobody knows what it has done. Every other number came in an answer, also those that only a plugin of the site has, like the -1 that
// is slurm.ERROR in a job_submit.lua.
bool answered(int error) { return error < 0 || (error >= 2000 && !(error >= 5000 && error < 7000) && !(error >= 13000 && error < 14000)); }

}  // namespace

void start() {
    slurm_init(nullptr);
    setenv("SLURM_BITSTR_LEN", "0", 1);  // libslurm else cuts the tasks of large arrays short
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

int counted(metrics::Rpc kind, int result) {
    using metrics::RpcOutcome;
    const int error = result == SLURM_SUCCESS ? 0 : slurm_api::last_errno();
    const bool ok = result == SLURM_SUCCESS || error == SLURM_NO_CHANGE_IN_DATA;
    metrics::rpc(kind, ok ? RpcOutcome::ok : answered(error) ? RpcOutcome::refused : RpcOutcome::failed);
    return result;
}

std::string last_error() { return slurm_strerror(slurm_api::last_errno()); }

Submission failed_submission(int error, const std::string &said) {
    Submission out;
    out.problem = slurm_strerror(error);
    if (slurm_api::is_full(error)) {
        out.outcome = Submission::Outcome::full;
        if (slurm_api::is_max_job_count(error))
            out.problem = "it has as many jobs as MaxJobCount allows";
    } else if (answered(error)) {
        // One number for all limits; the name of the limit comes as text. Those on the number of submitted jobs pass, those on a job's size do not.
        const bool passes = error == ESLURM_ACCOUNTING_POLICY && said.find("Submit") != std::string::npos;
        out.outcome = passes ? Submission::Outcome::limit : Submission::Outcome::refused;
        if (error == SLURM_ERROR)
            out.problem = !said.empty() ? said : "it does not say why; one of the site's own JobSubmitPlugins may";
        else if (!said.empty())
            out.problem += ": " + said;
    }
    return out;
}

bool said_by_berth(std::string_view said) { return said.starts_with("berth: ") || said.find("; berth: ") != std::string_view::npos; }

std::uint32_t array_tasks(std::string_view tasks) {
    tasks = tasks.substr(0, tasks.find('%'));
    std::uint32_t count = 0;
    while (!tasks.empty()) {
        const std::string_view range = tasks.substr(0, tasks.find(','));
        tasks.remove_prefix(std::min(tasks.size(), range.size() + 1));
        std::uint32_t numbers[3] = {0, 0, 1};  // from, to, step
        int n = 0;
        for (const char *at = range.data(), *end = at + range.size(); n < 3 && at < end; ++at, ++n)
            at = std::from_chars(at, end, numbers[n]).ptr;
        count += n < 2 || numbers[1] < numbers[0] || numbers[2] == 0 ? 1 : (numbers[1] - numbers[0]) / numbers[2] + 1;
    }
    return count;
}

}  // namespace berth::slurm
