// From libslurm's records to those of queue.h. For agent/slurm/ alone.
#pragma once

#include "agent/slurm/queue.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

QueuedJob to_queued(const slurm_job_info_t &info);
QueueNode to_queue_node(const node_info_t &info);

}  // namespace berth::slurm
