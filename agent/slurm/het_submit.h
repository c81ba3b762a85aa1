// Submits a heterogeneous job: several parts that slurmctld starts together or not at all.
//
// libslurm's only call for it waits for the allocation, and kills the job when it stops waiting. So the call is made in a
// child process, which leaves as soon as slurmctld has taken all parts, and libslurm never gets to kill anything. slurmctld
// would kill a job that starts when nobody listens on its alloc_resp_port; job_submit_berth.so clears that port.
//
// Whoever dies when:
//   child (or with it berthd) before slurmctld's answer     slurmctld cannot answer and cancels the parts; "unsure" for the caller
//   child after the answer                                  the job lives, and the controller finds it by its nonce
//   berthd while the child waits                            the child goes with it (PR_SET_PDEATHSIG)
//   slurmctld                                               as for any submission: libslurm's time-out, then "unsure"
//
// What slurmctld does with such a job (tried on 22.05): parts have consecutive ids, each its own ticket, prolog and doorbell. Backfill alone
// starts them, so within bf_interval, and only on different nodes: a part that finds no node of its own waits for ever. Parts wait
// through a restart of slurmctld. Cancelling or completing the first part ends all; a running part cancelled by its own id
// ends alone (unless SchedulerParameters has whole_hetjob); a node that fails ends all.
#pragma once

#include <string_view>

#include "agent/slurm/client.h"
#include "agent/slurm/request.h"

namespace berth::slurm {

// First argument of the child; the second is its parent's process id. A program that submits must hand both to submit_het_child() from
// main(), for it starts itself (/proc/self/exe).
constexpr std::string_view submit_het_argument = "--submit-het";

// Any thread; blocks for libslurm's time-out at most, and a little for the child.
Submission submit_het(Request request);

// The child's main().
int submit_het_child(const char *parent);

}  // namespace berth::slurm
