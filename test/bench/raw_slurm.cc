#include "test/bench/raw_slurm.h"

#include <unistd.h>

#include <csignal>

#include "proto/slurm_api.h"
#include "test/bench/moment.h"

namespace berth::bench {

namespace {

// The message and what it points to.
struct Description {
    explicit Description(const Size &size) : name(size.name) {
        slurm_init_job_desc_msg(&job);
        gethostname(host, sizeof host - 1);
        job.name = name.data();
        job.alloc_node = host;
        job.alloc_sid = static_cast<std::uint32_t>(getsid(0));
        job.work_dir = directory;
        job.user_id = job.group_id = size.user;
        job.num_tasks = size.tasks;
        job.cpus_per_task = static_cast<std::uint16_t>(size.cpus_per_task);
        job.min_cpus = size.tasks * size.cpus_per_task;
        job.min_nodes = job.max_nodes = size.nodes;
        job.pn_min_memory = size.memory_mib;
        job.time_limit = size.minutes;
    }
    job_desc_msg_t job;
    std::string name;
    char host[256] = "localhost", directory[2] = "/";
};

void failed(Call &call) { call.problem = slurm_strerror(slurm_api::last_errno()); }

}  // namespace

Call allocate(const Size &size) {
    Description description(size);
    resource_allocation_response_msg_t *answer = nullptr;
    Call call;
    call.sent = moment();
    const int code = slurm_allocate_resources(&description.job, &answer);
    call.answered = moment();
    if (code != SLURM_SUCCESS || answer == nullptr) {
        failed(call);
        return call;
    }
    call.job = slurm_api::job_id(*answer);
    call.started = answer->node_cnt > 0;
    slurm_free_resource_allocation_response_msg(answer);
    return call;
}

Call submit_batch(const Size &size) {
    Description description(size);
    char script[] = "#!/bin/sh\nexit 0\n", path[] = "PATH=/bin:/usr/bin", nowhere[] = "/dev/null";
    char *environment[] = {path, nullptr};
    job_desc_msg_t &job = description.job;
    job.script = script;
    job.environment = environment;
    job.env_size = 1;
    job.std_in = job.std_out = job.std_err = nowhere;
    if (size.held)
        job.priority = 0;
    submit_response_msg_t *answer = nullptr;
    Call call;
    call.sent = moment();
    const int code = slurm_submit_batch_job(&job, &answer);
    call.answered = moment();
    if (code != SLURM_SUCCESS || answer == nullptr) {
        failed(call);
        return call;
    }
#ifdef BERTH_STEP_ID_IN_RECORDS
    call.job = answer->step_id.job_id;
#else
    call.job = answer->job_id;
#endif
    slurm_free_submit_response_response_msg(answer);
    return call;
}

Call kill(std::uint32_t job) {
    Call call;
    call.job = job;
    call.sent = moment();
    if (slurm_api::kill_job(job, SIGKILL) != SLURM_SUCCESS)
        failed(call);
    call.answered = moment();
    return call;
}

}  // namespace berth::bench
