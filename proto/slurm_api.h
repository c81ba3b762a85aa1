// The one file that knows how Slurm's versions differ. Everything else includes Slurm through it.
// Supported: 22.05 to 26.05 (configure refuses others).
#pragma once

#include <cerrno>
#include <cstdint>

extern "C" {
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

// Exported by libslurm and by the daemons, but declared in no installed header.
void slurm_xfree(void **item);
char *slurm_xstrdup(const char *text);
char *slurm_job_state_string(uint32_t state);
[[gnu::weak]] char *slurm_job_reason_string(int reason);                               // up to 23.02
[[gnu::weak]] const char *slurm_job_state_reason_string(enum job_state_reason reason);  // after it
}

// job_modify() gained err_msg in 23.02; fini() returns nothing from 25.11.
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
#define BERTH_JOB_MODIFY_HAS_MESSAGE 1
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(25, 11, 0)
#define BERTH_FINI_RETURNS_VOID 1
#define BERTH_STEP_ID_IN_RECORDS 1
#endif
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 0)
#define BERTH_STEP_ID_IN_CALLS 1
#endif

namespace berth::slurm_api {

// slurm_get_errno() is gone from 24.11 on; it never was more than this.
inline int last_errno() { return errno; }

#ifdef BERTH_STEP_ID_IN_RECORDS
inline slurm_step_id_t whole_job(std::uint32_t job) {
    slurm_step_id_t id = SLURM_STEP_ID_INITIALIZER;
    id.job_id = job;
    return id;
}
inline std::uint32_t job_id(const slurm_job_info_t &job) { return job.step_id.job_id; }
inline std::uint32_t job_id(const resource_allocation_response_msg_t &answer) { return answer.step_id.job_id; }
inline int complete_job(std::uint32_t job, std::uint32_t status) {
    slurm_step_id_t id = whole_job(job);
    return slurm_complete_job(&id, status);
}
#else
inline std::uint32_t job_id(const slurm_job_info_t &job) { return job.job_id; }
inline std::uint32_t job_id(const resource_allocation_response_msg_t &answer) { return answer.job_id; }
inline int complete_job(std::uint32_t job, std::uint32_t status) { return slurm_complete_job(job, status); }
#endif

#ifdef BERTH_STEP_ID_IN_CALLS
inline int load_job(job_info_msg_t **answer, std::uint32_t job) {
    return slurm_load_job(answer, whole_job(job), SHOW_ALL);
}
inline int kill_job(std::uint32_t job, std::uint16_t signal) { return slurm_kill_job(whole_job(job), signal, 0); }
inline void free_conf(slurm_conf_t *conf) { slurm_free_conf(conf); }
#else
inline int load_job(job_info_msg_t **answer, std::uint32_t job) { return slurm_load_job(answer, job, SHOW_ALL); }
inline int kill_job(std::uint32_t job, std::uint16_t signal) { return slurm_kill_job(job, signal, 0); }
inline void free_conf(slurm_conf_t *conf) { slurm_free_ctl_conf(conf); }
#endif

// libslurm 22.05 forgets admin_comment when it frees jobs: one ticket per placeholder and look. It frees what is left
// of it nowhere twice, for slurm_xfree() clears the pointer.
inline void free_jobs(job_info_msg_t *jobs) {
    for (std::uint32_t i = 0; jobs != nullptr && i < jobs->record_count; ++i)
        slurm_xfree(reinterpret_cast<void **>(&jobs->job_array[i].admin_comment));
    slurm_free_job_info_msg(jobs);
}

// Who drained a node: said by the caller up to 25.11, then taken from its credential.
template <class Update>
inline void set_reason_uid(Update &update, std::uint32_t uid) {
    if constexpr (requires { update.reason_uid; })
        update.reason_uid = uid;
}

inline const char *reason_string(std::uint32_t reason) {
    if (slurm_job_state_reason_string != nullptr)
        return slurm_job_state_reason_string(static_cast<enum job_state_reason>(reason));
    if (slurm_job_reason_string != nullptr)
        return slurm_job_reason_string(static_cast<int>(reason));
    return "Unknown";
}

// "gpu:a100" x 2 in tres_per_node: gres:gpu:a100:2 up to 22.05, gres/gpu:a100:2 after it.
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
constexpr const char *gres_prefix = "gres/";
#else
constexpr const char *gres_prefix = "gres:";
#endif

}  // namespace berth::slurm_api
