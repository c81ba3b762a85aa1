// submit_calls: loads job_submit_berth.so as slurmctld does and calls job_submit() so many times, for callgrind to count.
//
//     submit_calls PLUGIN native|placeholder COUNT UID          UID is the bridge's; SLURM_CONF says where berth.conf is
//
// Prints the nanoseconds that one call took. Exit status 1 when the plugin did not answer as it should.
#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "proto/slurm_api.h"
#include "proto/ticket.h"

// slurmctld's own, to which the plugin looks for the path of slurm.conf.
extern "C" {
extern slurm_conf_t slurm_conf;
slurm_conf_t slurm_conf;
}

namespace {

using Clock = std::chrono::steady_clock;
using JobSubmit = int (*)(job_desc_msg_t *, std::uint32_t, char **);

std::string ticket() {
    berth::Ticket ticket;
    ticket.cluster = "lab";
    ticket.ns = "default";
    ticket.kind = "Pod";
    ticket.name = "some-pod-of-usual-name-7d4b9c";
    ticket.uid = "6f1d3a52-0b8e-4c57-9a3e-2f4b7c1d9e80";
    ticket.nonce = "0123456789abcdef";
    ticket.user = ticket.group = 20001;
    ticket.cpus = 1;
    ticket.memory_mib = 64;
    ticket.plain = true;
    ticket.term = 1;
    return berth::to_json(ticket);
}

// What one call took, and whether it was answered as it should be.
std::pair<Clock::duration, int> call(JobSubmit job_submit, bool placeholder, std::uint32_t bridge) {
    job_desc_msg_t job;
    slurm_init_job_desc_msg(&job);
    std::string comment = ticket();
    char name[] = "job", *variable = slurm_xstrdup((std::string(berth::ticket_variable) + "=").c_str());
    job.name = name;
    job.user_id = job.group_id = placeholder ? bridge : 20001;
    if (placeholder) {
        job.admin_comment = comment.data();
        job.spank_job_env = &variable;
        job.spank_job_env_size = 1;
    }
    char *message = nullptr;
    const auto began = Clock::now();
    const int answer = job_submit(&job, placeholder ? bridge : 20001, &message);
    const auto took = Clock::now() - began;
    if (answer != SLURM_SUCCESS && message != nullptr)
        std::fprintf(stderr, "submit_calls: %s\n", message);
    slurm_xfree(reinterpret_cast<void **>(&variable));
    slurm_xfree(reinterpret_cast<void **>(&message));
    return {took, answer};
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 5) {
        std::fprintf(stderr, "usage: submit_calls PLUGIN native|placeholder COUNT UID\n");
        return 2;
    }
    slurm_conf.slurm_conf = std::getenv("SLURM_CONF");
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (plugin == nullptr) {
        std::fprintf(stderr, "submit_calls: %s\n", dlerror());
        return 1;
    }
    reinterpret_cast<int (*)()>(dlsym(plugin, "init"))();
    const auto job_submit = reinterpret_cast<JobSubmit>(dlsym(plugin, "job_submit"));
    const bool placeholder = std::string(argv[2]) == "placeholder";
    const auto bridge = static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10));
    const long count = std::strtol(argv[3], nullptr, 10);
    Clock::duration sum{};
    for (long i = 0; i < count; ++i) {
        const auto [took, answer] = call(job_submit, placeholder, bridge);
        if (answer != SLURM_SUCCESS)
            return 1;
        sum += took;
    }
    std::printf("%lld\n", static_cast<long long>(std::chrono::duration_cast<std::chrono::nanoseconds>(sum).count() / count));
    std::fflush(stdout);
    std::_Exit(0);  // the plugin's thread may go with the process
}
