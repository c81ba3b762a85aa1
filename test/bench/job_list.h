// JobList: all jobs and all nodes of slurmctld, listed as a client does that knows no other way: from slurmrestd, or through libslurm.
// Blocking; safe in several threads.
#pragma once

#include <cstdint>
#include <string>

#include "agent/result.h"

namespace berth::bench {

// The node on which the job runs, among all jobs that slurmctld has; empty while it does not run. Two calls: the jobs, then the nodes.
Result<std::string> list_and_find(const std::string &rest_socket, std::uint32_t job);

}  // namespace berth::bench
