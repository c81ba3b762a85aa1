// bench_stamp.so: a SPANK plugin that does nothing but write down when a prolog and an epilog ran: the raw limit that Berth's own
// hooks are measured against. Its argument is a file, which gets lines of "prolog JOB NODE SECONDS.NANOSECONDS"; a line is one write.
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "proto/slurm_api.h"

extern "C" {
#include <slurm/spank.h>

[[gnu::visibility("default")]] extern const char plugin_name[];
[[gnu::visibility("default")]] extern const char plugin_type[];
[[gnu::visibility("default")]] extern const unsigned int plugin_version;
[[gnu::visibility("default")]] extern const unsigned int spank_plugin_version;
const char plugin_name[] = "bench_stamp";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;
}

namespace {

int write_down(const char *what, spank_t spank, int count, char **arguments) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    std::uint32_t job = 0;
    if (count < 1 || spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS)
        return 0;
    const char *node = std::getenv("SLURMD_NODENAME");
    char line[256];
    const int size = std::snprintf(line, sizeof line, "%s %u %s %lld.%09ld\n", what, job, node != nullptr ? node : "-",
                                   static_cast<long long>(now.tv_sec), now.tv_nsec);
    const int file = open(arguments[0], O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0)
        return 0;
    if (write(file, line, static_cast<std::size_t>(size)) != size)
        slurm_error("bench: the stamp of job %u is lost", job);
    close(file);
    return 0;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] int slurm_spank_job_prolog(spank_t spank, int count, char **arguments) {
    return write_down("prolog", spank, count, arguments);
}

[[gnu::visibility("default")]] int slurm_spank_job_epilog(spank_t spank, int count, char **arguments) {
    return write_down("epilog", spank, count, arguments);
}
}
