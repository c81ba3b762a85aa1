// Freezer: stops all processes of a pod where they are, and lets them go on. By the pod's own cgroup, so that what a kubelet starts in it
// later stands still as well: cgroup.freeze of v2, freezer.state of v1. The kernel does the rest; no call waits for it.
// Plain file writes; any thread.
//
// On v1 a frozen process does not even die of SIGKILL: thaw before anybody is to end the pod.
#pragma once

#include "agent/node/pod_cgroup.h"
#include "agent/result.h"

namespace berth::node {

// False: the pod has no cgroup that can be frozen, for the kubelet has not begun.
Result<bool> freeze(const PodCgroup &pod);
// Writes only where something is frozen.
Result<void> thaw(const PodCgroup &pod);
// Whether freeze() was called and thaw() not since, by this process or an earlier one.
bool frozen(const PodCgroup &pod);

}  // namespace berth::node
