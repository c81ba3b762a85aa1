// Overview: the nodes and workloads of both systems as one picture. Pure; status.h gathers what it is made of.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "agent/kube/pod.h"
#include "agent/slurm/queue.h"
#include "agent/tool/node_pairs.h"
#include "agent/tool/paint.h"

namespace berth::tool {

struct NodeRow {
    std::string name;
    std::string slurm;   // state, "-" when Slurm has no such node
    std::string reason;  // why it is down or drained
    std::uint32_t cpus = 0, cpus_allocated = 0;
    std::uint64_t memory_mib = 0, memory_mib_allocated = 0;
    std::string kubernetes;  // "ready", "not ready", "ready, cordoned", "-"
    std::size_t pods = 0, native_jobs = 0;
};

struct WorkloadRow {
    std::string ns, name, kind;
    std::size_t bound = 0, pods = 1;
    std::uint32_t job = 0;  // 0: none yet
    std::string state;      // Slurm's word; without a job: "Gated", "Gathering", "Refused", "New"
    std::string nodes;      // where it runs
    std::string reason;     // why it waits
    std::time_t since = 0;  // waiting, or running
};

struct Overview {
    std::vector<NodeRow> nodes;
    std::vector<WorkloadRow> workloads;
    bool kube_nodes_known = true, pods_known = true;
    std::vector<std::string> notes;  // what could not be seen
};

// `pods` are those that name Berth's scheduler. Empty `cluster`: any; empty `ns`: all.
Overview make_overview(const std::vector<NodePair> &pairs, const std::vector<slurm::QueuedJob> &queue, const std::vector<kube::Pod> &pods,
                       const std::string &cluster, const std::string &ns);

std::string to_text(const Overview &overview, std::time_t now, const Paint &paint = Paint());
std::string to_json(const Overview &overview);

}  // namespace berth::tool
