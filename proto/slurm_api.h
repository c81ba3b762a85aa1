// The one file that knows how Slurm's versions differ. Everything else includes Slurm through it.
// Supported: 22.05 to 26.05 (configure refuses others).
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <ctime>

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
void *slurm_list_peek(decltype(slurm_list_create(nullptr)) list);
[[gnu::weak]] void slurm_free_will_run_response_msg(void *answer);
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

// libslurm's log, of which no installed header speaks: the levels, where they go, and the call that sends them to a stream.
extern "C" {
struct berth_slurm_log_options {
    int stderr_level, syslog_level, logfile_level;
    bool prefix_level, buffered, raw;
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
    int logfile_format;
#endif
};
[[gnu::weak]] int slurm_log_alter_with_fp(struct berth_slurm_log_options options, int facility, FILE *stream);
}

namespace berth::slurm_api {

// slurm_get_errno() is gone from 24.11 on; it never was more than this.
inline int last_errno() { return errno; }

// MaxJobCount, of which slurmctld makes sure before it does anything else. The number was another error's before 26.05.2.
inline bool is_max_job_count(int error) {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 2)
    if (error == ESLURM_MAX_JOB_COUNT)
        return true;
#endif
    return error == EAGAIN;
}
// slurmctld takes nobody's job, or is not the one to ask yet.
inline bool is_full(int error) {
    return is_max_job_count(error) || error == ESLURM_IN_STANDBY_MODE || error == ESLURM_IN_STANDBY_USE_BACKUP ||
           error == ESLURM_SUBMISSIONS_DISABLED;
}

// The process in which slurmd runs a SPANK prolog or epilog has loaded no plugins, and from 23.02 on a call to slurmctld is fatal
// without them: the epilog would fail and drain the node. To be called before the first such call; once is enough.
inline void load_plugins() {
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
    [[maybe_unused]] static const bool once = (slurm_init(nullptr), true);
#endif
}

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

// Without SHOW_LOCAL libslurm asks slurmctld for its federation before each job, which doubles the calls. A placeholder is always here.
constexpr std::uint16_t one_job = SHOW_ALL | SHOW_DETAIL | SHOW_LOCAL;
#ifdef BERTH_STEP_ID_IN_CALLS
inline int load_job(job_info_msg_t **answer, std::uint32_t job) { return slurm_load_job(answer, whole_job(job), one_job); }
inline int kill_job(std::uint32_t job, std::uint16_t signal) { return slurm_kill_job(whole_job(job), signal, 0); }
inline void free_conf(slurm_conf_t *conf) { slurm_free_conf(conf); }
#else
inline int load_job(job_info_msg_t **answer, std::uint32_t job) { return slurm_load_job(answer, job, one_job); }
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

inline void log_errors_to(FILE *stream) {
    constexpr int quiet = 0, errors = 2, user_facility = 1 << 3;
    berth_slurm_log_options options{};
    options.stderr_level = options.syslog_level = quiet;
    options.logfile_level = errors;
    if (slurm_log_alter_with_fp != nullptr)
        slurm_log_alter_with_fp(options, user_facility, stream);
}

// A heterogeneous job. The call returns when all parts are allocated, or after having killed the job: pending(), which gets
// the first part's id once slurmctld has all of them, is the place to leave the process instead.
using List = decltype(slurm_list_create(nullptr));
template <void (*pending)(std::uint32_t job)>
List allocate_het_job(List parts) {
#if defined(BERTH_STEP_ID_IN_CALLS)
    return slurm_allocate_het_job_blocking(parts, 0, [](slurm_step_id_t *id) { pending(id->job_id); }, -1);
#elif defined(BERTH_STEP_ID_IN_RECORDS)
    return slurm_allocate_het_job_blocking(parts, 0, [](slurm_step_id_t *id) { pending(id->job_id); });
#else
    return slurm_allocate_het_job_blocking(parts, 0, pending);
#endif
}

// CPUs of the job on its nth node, 0 where this version does not say (from 24.11 on lookup_allocation() has to be asked).
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(24, 11, 0)
inline std::uint32_t cpus_on_node(const slurm_job_info_t &job, int node) {
    const int cpus = job.job_resrcs != nullptr ? slurm_job_cpus_allocated_on_node_id(job.job_resrcs, node) : 0;
    return cpus > 0 ? static_cast<std::uint32_t>(cpus) : 0;
}
#else
inline std::uint32_t cpus_on_node(const slurm_job_info_t &, int) { return 0; }
#endif
inline int lookup_allocation(std::uint32_t job, resource_allocation_response_msg_t **answer) {
#ifdef BERTH_STEP_ID_IN_CALLS
    return slurm_allocation_lookup(whole_job(job), answer);
#else
    return slurm_allocation_lookup(job, answer);
#endif
}

// Who drained a node: said by the caller up to 25.11, then taken from its credential.
template <class Update>
inline void set_reason_uid(Update &update, std::uint32_t uid) {
    if constexpr (requires { update.reason_uid; })
        update.reason_uid = uid;
}

// What a node has given away: in its record from 25.05 on, before that in what the select plugin packed beside it.
template <class Node>
inline void allocated(const Node &node, std::uint32_t &cpus, std::uint64_t &memory_mib) {
    if constexpr (requires { node.alloc_cpus; }) {
        cpus = node.alloc_cpus;
        memory_mib = node.alloc_memory;
    } else {
#if SLURM_VERSION_NUMBER < SLURM_VERSION_NUM(25, 5, 0)
        std::uint16_t count = 0;
        slurm_get_select_nodeinfo(node.select_nodeinfo, SELECT_NODEDATA_SUBCNT, NODE_STATE_ALLOCATED, &count);
        slurm_get_select_nodeinfo(node.select_nodeinfo, SELECT_NODEDATA_MEM_ALLOC, NODE_STATE_ALLOCATED, &memory_mib);
        cpus = count;
#endif
    }
}

// PrologEpilogTimeout, seconds; NO_VAL16 where it is not set. Later there is one for each, of which the shorter counts here.
template <class Conf>
inline std::uint16_t prolog_epilog_timeout(const Conf &conf) {
    if constexpr (requires { conf.prolog_epilog_timeout; })
        return conf.prolog_epilog_timeout;
    else
        return conf.prolog_timeout < conf.epilog_timeout ? conf.prolog_timeout : conf.epilog_timeout;
}

// AccountingStoreFlags=job_comment: the same bit under two names.
constexpr std::uint32_t store_job_comment = SLURM_BIT(1);

// The answer of slurm_job_will_run2().
inline void free_answer(will_run_response_msg_t *answer) {
    if (answer != nullptr && slurm_free_will_run_response_msg != nullptr)
        slurm_free_will_run_response_msg(answer);
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
