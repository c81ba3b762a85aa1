// Status: the controller's picture of both systems for the status page, and its JSON (/status.json). It is made of what the controller
// knows anyway: nobody is asked for it. Pure; agent/controller/picture.cc fills it in.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <vector>

namespace berth::web {

// How a node's cores, memory or devices are used.
struct Share {
    std::uint64_t total = 0, pods = 0, jobs = 0;

    // `allocated` is Slurm's count of all that is taken, `pods` what the pods there ask for. Slurm gives whole cores, so that a placeholder
    // may hold more than its pod asks for: without native jobs all of it is the pods'.
    static Share of(std::uint64_t total, std::uint64_t allocated, std::uint64_t pods, bool native_jobs);
};

struct NodeView {
    std::string name;
    std::string slurm, kubernetes;  // states, "" where that side has no such node
    std::string reason;             // why Slurm does not use it
    Share cpus, memory_mib, gpus;
    std::vector<std::string> pods, jobs;  // names, the first few
    std::size_t pod_count = 0, job_count = 0;
};

struct WorkloadView {
    std::string ns, name, kind;
    std::string state;         // "gathering", "refused", "waiting", "submitting", "pending", "starting", "running", "suspended", "ending"
    std::string reason;        // why it is not running
    std::string nodes;         // where it is
    std::uint32_t job = 0;     // 0: none
    std::size_t pods = 1, here = 0, bound = 0;  // that it is to have, that exist, that are bound
    std::time_t created = 0, start = 0, end = 0;  // start: expected while it waits; end: by the time limit; 0: not known
    std::string cpus;          // of one pod, "0.5"
    bool gang = false;
};

// A pod that was bound.
struct Landing {
    double at = 0;       // seconds since the epoch
    double seconds = 0;  // since its creation
    bool queued = false; // Slurm did not start it at once
    std::string name;
};

struct LogLine {
    double at = 0;
    std::string level, text;
};

struct Status {
    double now = 0;
    std::string version, cluster, identity, role;  // role: "leader" or "standby"
    std::string leader;                            // who leads, where it is not this one
    std::uint64_t term = 0;
    std::string waits_for;                         // "" when it is ready
    bool kubernetes_reachable = false;
    // Ages of what is shown, in seconds; negative: not known yet.
    double jobs_age = -1, nodes_age = -1, native_age = -1;
    std::vector<NodeView> nodes;
    std::vector<WorkloadView> workloads;
    std::size_t workloads_left_out = 0, nodes_left_out = 0, waiting = 0, running = 0, native_running = 0, native_pending = 0;
    std::vector<Landing> landings;
    std::vector<LogLine> events;
};

std::string to_json(const Status &status);

// What any process can say: the time, its version, the end of its log.
Status status_of_process();

// How many of a node's devices there are in "gpu:a100:2(S:0-1),gpu:2" (Slurm's gres): those of the kind gpu.
std::uint64_t gpus_in(const std::string &gres);

}  // namespace berth::web
