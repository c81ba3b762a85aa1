// Queue: all that slurmctld tells about jobs and nodes, native ones too, as people want to see it (squeue, sinfo). Blocks; any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/result.h"
#include "agent/slurm/client.h"

namespace berth::slurm {

struct QueuedJob {
    std::uint32_t id = 0;
    JobState state = JobState::ended;
    bool completing = false;
    std::string state_name;     // "PENDING", "COMPLETING", "TIMEOUT", ...
    std::string reason;         // Slurm's one word: "Resources", "Priority", "None"
    std::string reason_detail;  // its sentence, where it has one
    std::string name, partition, account, qos;
    std::uint32_t uid = 0;
    std::uint32_t priority = 0;  // 0: held
    std::uint32_t cpus = 0, node_count = 0;
    std::uint32_t time_limit_minutes = 0;                       // 0: none
    std::time_t submit_time = 0, start_time = 0, end_time = 0;  // start: expected while pending; 0: not known
    std::uint32_t exit_status = 0;                              // a wait status
    std::string nodes;                                          // a hostlist, empty while pending
    std::optional<Ticket> ticket;                               // of a placeholder

    bool pending() const { return state == JobState::pending; }
    bool lives() const { return state != JobState::ended; }
};

// The jobs that are not Berth's, by the hosts where they run.
struct NativeJobs {
    static constexpr std::size_t most_named = 6;
    struct OnHost {
        std::size_t count = 0;
        std::vector<std::string> names;  // "17 sweep", of the first few
    };
    std::map<std::string, OnHost> by_host;
    std::size_t running = 0, pending = 0;

    void add(const QueuedJob &job);
};

// Every job that slurmctld remembers and this user may see.
Result<std::vector<QueuedJob>> load_queue();
// Pending jobs that Slurm looks at before this one, as far as priority says: in one of its partitions, with a higher priority.
std::size_t ahead_of(const QueuedJob &job, const std::vector<QueuedJob> &queue);

struct QueueNode {
    std::string name;
    std::string state;    // "idle", "mixed", "allocated", "down", with "+drain", "+fail", "+maint", "*" (does not answer)
    std::string reason;   // why it is down or drained
    bool usable = false;  // jobs may start there
    std::uint32_t cpus = 0, cpus_allocated = 0;  // without what is kept for the system
    std::uint64_t memory_mib = 0, memory_mib_allocated = 0;
    std::string version;  // slurmd's
    std::string gres{}, gres_used{};  // "gpu:4(S:0)", "gpu:1(IDX:0)"; the latter where it was asked for in detail
};
Result<std::vector<QueueNode>> load_queue_nodes();

}  // namespace berth::slurm
