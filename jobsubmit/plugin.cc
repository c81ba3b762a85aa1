// job_submit_berth.so: every symbol that slurmctld looks for, and nothing else. slurmctld calls job_submit() and
// job_modify() under its locks; what they decide is in guard.cc. Nothing is thrown across this edge: trouble of our own
// lets ordinary jobs pass and refuses placeholders.
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "jobsubmit/guard.h"

extern "C" {
#include <slurm/spank.h>  // slurm_error()

[[gnu::visibility("default")]] extern const char plugin_name[];
[[gnu::visibility("default")]] extern const char plugin_type[];
[[gnu::visibility("default")]] extern const std::uint32_t plugin_version;
const char plugin_name[] = "Berth: placeholders for Kubernetes pods";
const char plugin_type[] = "job_submit/berth";
const std::uint32_t plugin_version = SLURM_VERSION_NUMBER;

extern slurm_conf_t slurm_conf;  // slurmctld's own; its layout is fixed by plugin_version
// slurmctld's own, too, in every version from 22.05 to 26.05. It looks into the users that slurmctld has in memory, as slurmctld itself has
// done in the same call, just before it asked us: nothing is read or waited for that was not there. Were it missing, root alone would be one.
[[gnu::weak]] bool validate_operator(uid_t uid);
}

namespace {

std::unique_ptr<berth::RulesWatch> watch;
berth::Terms terms;
int notify_fd = -1;

std::string conf_path() {
    const char *slurm_conf_path = slurm_conf.slurm_conf;
    if (slurm_conf_path == nullptr)
        slurm_conf_path = std::getenv("SLURM_CONF");
    std::string path = slurm_conf_path != nullptr ? slurm_conf_path : "/etc/slurm/slurm.conf";
    path.erase(path.rfind('/') + 1);
    return path + "berth.conf";
}

bool is_operator(std::uint32_t uid) { return validate_operator != nullptr && validate_operator(uid); }

int answer(const berth::Verdict &verdict, char **message) {
    if (!verdict.message.empty() && message != nullptr)
        *message = slurm_xstrdup(verdict.message.c_str());
    return verdict.code;
}

void stop() {
    watch.reset();
    if (notify_fd >= 0)
        close(notify_fd);
    notify_fd = -1;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int init() noexcept {
    try {
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        watch = std::make_unique<berth::RulesWatch>(conf_path());
    } catch (...) {
        slurm_error("berth: no memory or thread to start with; placeholders are refused");
    }
    return SLURM_SUCCESS;
}

#ifdef BERTH_FINI_RETURNS_VOID
[[gnu::visibility("default")]] void fini() noexcept { stop(); }
#else
[[gnu::visibility("default")]] int fini() noexcept {
    stop();
    return SLURM_SUCCESS;
}
#endif

[[gnu::visibility("default")]] int job_submit(job_desc_msg_t *job, std::uint32_t submit_uid, char **message) noexcept {
    try {
        return watch ? answer(berth::guard_submit(*watch, *job, submit_uid, &terms), message) : SLURM_SUCCESS;
    } catch (...) {
        return SLURM_SUCCESS;  // out of memory: an unsealed placeholder is ignored by every node
    }
}

#ifdef BERTH_JOB_MODIFY_HAS_MESSAGE
[[gnu::visibility("default")]] int job_modify(job_desc_msg_t *change, void *, std::uint32_t submit_uid,
                                              char **message) noexcept {
#else
[[gnu::visibility("default")]] int job_modify(job_desc_msg_t *change, void *, std::uint32_t submit_uid) noexcept {
    char **message = nullptr;  // slurmctld's log is the only place this version has for it
#endif
    try {
        if (!watch)
            return SLURM_SUCCESS;
        const berth::Verdict verdict = berth::guard_modify(*watch, *change, submit_uid, is_operator, notify_fd);
        if (message == nullptr && !verdict.message.empty())
            slurm_info("%s (uid %u)", verdict.message.c_str(), submit_uid);
        return answer(verdict, message);
    } catch (...) {
        return SLURM_SUCCESS;
    }
}

}  // extern "C"
