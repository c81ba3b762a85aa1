// Confinement: bounds on a pod's cgroup that the kubelet does not set, so that a pod cannot take what Slurm gave to others on the node.
// cgroup v1 and v2. Each call may be repeated. Any thread; limit_memory() may take long, for the kernel reclaims memory before it
// answers.
#pragma once

#include <cstdint>
#include <string>

#include "agent/node/pod_cgroup.h"
#include "agent/result.h"

namespace berth::node {

// What the pod may use at most: memory.max of v2, memory.limit_in_bytes of v1. A lower bound that is there stays. False: not yet. Either
// the kubelet has made no cgroup, or the pod uses more at this moment; then nothing is killed: v2 holds it back by memory.high, v1
// refuses the limit, and the next call sees whether it is below.
Result<bool> limit_memory(const PodCgroup &pod, std::uint64_t bytes);

// The CPUs of the pod and of all in it, as a list ("0-3,8"). False: no cgroup yet.
Result<bool> confine_cpus(const PodCgroup &pod, const std::string &cpus);

// The CPUs that Slurm allotted to a job on this node, by the machine's numbers: the cpuset of its extern step. Empty when there is none,
// which is so without PrologFlags=Contain, or without ConstrainCores in cgroup.conf. `node` is Slurm's name of it.
std::string job_cpus(const std::string &cgroup_mount, const std::string &node, std::uint32_t job, std::uint32_t uid);

}  // namespace berth::node
