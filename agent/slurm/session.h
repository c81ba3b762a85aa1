// What all calls to slurmctld share: the process's slurm.conf, the time-out, and how a failed submission is told. Any thread, after start().
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "agent/metrics.h"
#include "agent/slurm/client.h"

namespace berth::slurm {

// How long libslurm waits for one answer.
std::chrono::seconds message_timeout();

// Waits no longer than this, for a person who waits behind it; for reads alone, after start().
void be_brief(std::chrono::seconds most);

// "Invalid account or account/partition combination specified": libslurm's words for its last error.
std::string last_error();

// Counts a call by its result, and returns that; libslurm's error stays as it is.
int counted(metrics::Rpc kind, int result);

// From libslurm's error number, and what slurmctld or a job_submit plugin said with it (Sayings).
Submission failed_submission(int error, const std::string &said);

// Whether job_submit_berth.so has a part in what was said (Sayings): it was asked, and no other plugin refused before it.
bool said_by_berth(std::string_view said);

// How many tasks a job array's record stands for, which all count against MaxJobCount: "0-9:3,17%4" is five.
std::uint32_t array_tasks(std::string_view tasks);

}  // namespace berth::slurm
