// will_run(): when and where slurmctld would start a placeholder, without submitting it (sbatch --test-only). Blocks; any thread.
//
// The question carries no ticket, so job_submit_berth.so sees an ordinary job in it: nothing has to be trusted, for nothing is made, and
// everybody may ask. slurmctld lets SlurmUser and root ask for another user; all others ask as themselves.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

#include "agent/result.h"
#include "agent/translate/placeholder.h"

namespace berth::slurm {

struct Forecast {
    std::time_t start = 0;
    std::string nodes, partition;
    std::uint32_t cpus = 0;
    std::vector<std::uint32_t> preempts;  // jobs that would have to go
};

// Whether the calling user may ask for any other.
bool may_ask_for_others();
// For placeholder.uid and gid. An error is what slurmctld, or a job_submit plugin of the site, says against the job.
Result<Forecast> will_run(const Placeholder &placeholder);

}  // namespace berth::slurm
