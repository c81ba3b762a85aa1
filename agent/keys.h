// The names that Berth writes into pods, as users of slurm-bridge know them, and its own. Annotations, where nothing else is said.
#pragma once

namespace berth::keys {

constexpr const char *job_id = "scheduler.slinky.slurm.net/slurm-jobid";
constexpr const char *slurm_node = "slinky.slurm.net/slurm-node";
constexpr const char *slurm_node_name = "slinky.slurm.net/slurm-nodename";  // label of a Kubernetes node whose name differs
constexpr const char *cordoned = "berth.dev/cordoned";        // of a Kubernetes node that Berth cordoned: what Slurm says of it
constexpr const char *slurm_state = "berth.dev/slurm-state";  // the same where nodes are only marked
constexpr const char *tainted = "berth.dev/tainted";          // of a Kubernetes node that Berth tainted: the taint's key
constexpr const char *gang = "berth.dev/gang";
constexpr const char *ending = "berth.dev/Ending";  // a pod's condition
constexpr const char *nonce = "berth.dev/nonce";
constexpr const char *slot = "berth.dev/slot";  // of a gang's pod: "PART.SLOT"
constexpr const char *term = "berth.dev/term";  // of the controllers' Lease: which leadership this is; a number that only grows
constexpr const char *warn = "berth.dev/warn";  // how long before its job's end a pod is warned

constexpr const char *suspended = "berth.dev/Suspended";  // a condition: slurmctld has suspended the pod's job

}  // namespace berth::keys
