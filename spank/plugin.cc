// spank_berth.so: every symbol that slurmd and slurmstepd look for; which hook runs is decided here, what it does in
// prolog.cc, epilog.cc, gate.cc and slurmd_start.cc. Nothing is thrown across this edge.
#include <cstdlib>

#include "proto/slurm_api.h"
#include "spank/hooks.h"
#include "spank/roll.h"

extern "C" {
#include <slurm/spank.h>
}

extern "C" {

[[gnu::visibility("default")]] extern const char plugin_name[];
[[gnu::visibility("default")]] extern const char plugin_type[];
[[gnu::visibility("default")]] extern const unsigned int plugin_version;
[[gnu::visibility("default")]] extern const unsigned int spank_plugin_version;
const char plugin_name[] = "berth";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;
}

namespace {

using Hook = int (*)(const berth::Options &, const berth::JobHere &);

int run(Hook hook, spank_t spank, int count, char **arguments) noexcept {
    try {
        std::uint32_t job = 0;
        uid_t uid = 0;
        gid_t gid = 0;
        if (spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS || spank_get_item(spank, S_JOB_UID, &uid) != ESPANK_SUCCESS ||
            spank_get_item(spank, S_JOB_GID, &gid) != ESPANK_SUCCESS) {
            slurm_error("berth: slurmd did not say which job this is; nothing done");
            return 0;
        }
        const char *node = std::getenv("SLURMD_NODENAME");
        const berth::JobHere here{job, uid, gid, node != nullptr ? node : ""};
        const berth::Options options = berth::parse_options(count, arguments, here.node.c_str());
        try {
            return hook(options, here);
        } catch (...) {
            berth::Roll::forget(berth::RunDir(options.run_dir));  // this may have been the end of a placeholder
            throw;
        }
    } catch (...) {
        slurm_error("berth: out of memory; nothing done");
        return 0;
    }
}

}  // namespace

extern "C" {

// Called everywhere, sbatch and srun included, and means something in slurmd alone.
[[gnu::visibility("default")]] int slurm_spank_init(spank_t, int count, char **arguments) {
    if (spank_context() != S_CTX_SLURMD)
        return 0;
    try {
        berth::on_slurmd(berth::parse_options(count, arguments, "*"));
    } catch (...) {
        slurm_error("berth: out of memory; nothing done");
    }
    return 0;
}

[[gnu::visibility("default")]] int slurm_spank_job_prolog(spank_t spank, int count, char **arguments) {
    return run(berth::on_prolog, spank, count, arguments);
}

[[gnu::visibility("default")]] int slurm_spank_job_epilog(spank_t spank, int count, char **arguments) {
    return run(berth::on_epilog, spank, count, arguments);
}

[[gnu::visibility("default")]] int slurm_spank_init_post_opt(spank_t spank, int count, char **arguments) {
    std::uint32_t step = 0;
    if (spank_context() != S_CTX_REMOTE || spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
        step == SLURM_EXTERN_CONT)
        return 0;
    return run(berth::on_step, spank, count, arguments);
}
}
