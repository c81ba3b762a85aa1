// The taint that keeps other schedulers off the nodes that Slurm schedules. The annotation berth.dev/tainted says that it is ours: only such
// a taint is ever removed, and one that somebody set by hand is as good as ours. Pure.
#pragma once

#include <string>

#include "agent/kube/api.h"

namespace berth {

// Adds to `change` what makes the node carry a taint with this key, or none of ours where the key is empty.
void manage_taint(const kube::Node &node, const std::string &key, kube::NodeChange &change);

}  // namespace berth
