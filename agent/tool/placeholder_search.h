// Which of Slurm's jobs holds a pod's place. Pure.
#pragma once

#include <string>
#include <vector>

#include "agent/kube/pod.h"
#include "agent/slurm/queue.h"

namespace berth::tool {

// Of all that slurmctld knows, the placeholder of this pod: the one that it was bound by, else the lowest live one, else the one that ended
// last while the pod was there. Empty `cluster`: any. For a pod that is not there, `pod` has its name alone.
std::vector<slurm::QueuedJob> placeholder_of(const kube::Pod &pod, const std::string &cluster, const std::vector<slurm::QueuedJob> &queue);

}  // namespace berth::tool
