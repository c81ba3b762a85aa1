// The annotation keys that Berth writes, under the names that users of slurm-bridge know, and its own.
#pragma once

namespace berth::keys {

constexpr const char *job_id = "scheduler.slinky.slurm.net/slurm-jobid";
constexpr const char *slurm_node = "slinky.slurm.net/slurm-node";
constexpr const char *slurm_node_name = "slinky.slurm.net/slurm-nodename";  // label of a Kubernetes node whose name differs
constexpr const char *gang = "berth.dev/gang";
constexpr const char *ending = "berth.dev/Ending";  // a pod's condition
constexpr const char *nonce = "berth.dev/nonce";
constexpr const char *slot = "berth.dev/slot";  // of a gang's pod: "PART.SLOT"
constexpr const char *warn = "berth.dev/warn";  // how long before its job's end a pod is warned

}  // namespace berth::keys
