// What all calls to slurmctld share: the process's slurm.conf, the time-out, and how a failed submission is told. Any thread, after start().
#pragma once

#include <chrono>
#include <string>

#include "agent/slurm/client.h"

namespace berth::slurm {

// How long libslurm waits for one answer.
std::chrono::seconds message_timeout();

// Waits no longer than this, for a person who waits behind it; for reads alone, after start().
void be_brief(std::chrono::seconds most);

// "Invalid account or account/partition combination specified": libslurm's words for its last error.
std::string last_error();

// From libslurm's error number, and what slurmctld or a job_submit plugin said with it (Sayings).
Submission failed_submission(int error, const std::string &said);

}  // namespace berth::slurm
