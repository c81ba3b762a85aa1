// forge: submits a job as no command of Slurm would, for tests of what must be refused. It runs as whoever calls it.
//
//     forge [--admin-comment TEXT] [--env NAME=VALUE]... [--user UID] [--group GID] [--node NAME] [--script] [--time MINUTES]
//
// A step-less allocation of one CPU and 16 MiB; with --script a batch job that sleeps. Prints the job's id. Exit status 1
// with what slurmctld said on standard error when it refuses.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "proto/slurm_api.h"

namespace {

struct Wish {
    std::string admin_comment, node;
    std::vector<std::string> variables;
    std::uint32_t user = getuid(), group = getgid(), minutes = 60;
    bool script = false;
};

bool read_arguments(int count, char **arguments, Wish &wish) {
    for (int i = 1; i < count; ++i) {
        const std::string_view word = arguments[i];
        if (word == "--script") {
            wish.script = true;
            continue;
        }
        if (i + 1 >= count)
            return false;
        const char *value = arguments[++i];
        const auto number = [value] { return static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10)); };
        if (word == "--admin-comment")
            wish.admin_comment = value;
        else if (word == "--env")
            wish.variables.emplace_back(value);
        else if (word == "--user")
            wish.user = number();
        else if (word == "--group")
            wish.group = number();
        else if (word == "--time")
            wish.minutes = number();
        else if (word == "--node")
            wish.node = value;
        else
            return false;
    }
    return true;
}

int refused(const char *message) {
    const int error = berth::slurm_api::last_errno();
    std::fprintf(stderr, "forge: %s%s%s\n", slurm_strerror(error), message != nullptr ? ": " : "", message != nullptr ? message : "");
    return 1;
}

int submit(Wish &wish) {
    std::vector<char *> variables;
    for (std::string &variable : wish.variables)
        variables.push_back(variable.data());
    char name[] = "forged", host[256] = "localhost", directory[] = "/tmp", nowhere[] = "/dev/null";
    char script[] = "#!/bin/sh\nsleep 1000\n";
    char path[] = "PATH=/bin:/usr/bin";
    char *environment[] = {path, nullptr};
    gethostname(host, sizeof host - 1);

    job_desc_msg_t job;
    slurm_init_job_desc_msg(&job);
    job.name = name;
    job.alloc_node = host;
    job.alloc_sid = static_cast<std::uint32_t>(getsid(0));
    job.work_dir = directory;
    job.user_id = wish.user;
    job.group_id = wish.group;
    job.num_tasks = job.min_cpus = 1;
    job.cpus_per_task = 1;
    job.min_nodes = job.max_nodes = 1;
    job.pn_min_memory = 16;
    job.time_limit = wish.minutes;
    if (!wish.node.empty())
        job.req_nodes = wish.node.data();
    if (!wish.admin_comment.empty())
        job.admin_comment = wish.admin_comment.data();
    if (!variables.empty()) {
        job.spank_job_env = variables.data();
        job.spank_job_env_size = static_cast<std::uint32_t>(variables.size());
    }
    if (wish.script) {
        job.script = script;
        job.environment = environment;
        job.env_size = 1;
        job.std_in = job.std_out = job.std_err = nowhere;
        submit_response_msg_t *answer = nullptr;
        if (slurm_submit_batch_job(&job, &answer) != SLURM_SUCCESS)
            return refused(answer != nullptr ? answer->job_submit_user_msg : nullptr);
        if (answer->error_code != SLURM_SUCCESS) {
            errno = static_cast<int>(answer->error_code);
            return refused(answer->job_submit_user_msg);
        }
#ifdef BERTH_STEP_ID_IN_RECORDS
        std::printf("%u\n", answer->step_id.job_id);
#else
        std::printf("%u\n", answer->job_id);
#endif
        return 0;
    }
    resource_allocation_response_msg_t *answer = nullptr;
    if (slurm_allocate_resources(&job, &answer) != SLURM_SUCCESS)
        return refused(answer != nullptr ? answer->job_submit_user_msg : nullptr);
    std::printf("%u\n", berth::slurm_api::job_id(*answer));
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    Wish wish;
    if (!read_arguments(argc, argv, wish)) {
        std::fprintf(stderr, "usage: forge [--admin-comment TEXT] [--env NAME=VALUE]... [--user UID] [--group GID] [--node NAME] "
                             "[--time MINUTES] [--script]\n");
        return 2;
    }
    slurm_init(nullptr);
    return submit(wish);
}
