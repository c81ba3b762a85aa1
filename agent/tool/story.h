// Story: why a pod is not running, told from what Kubernetes and Slurm say of it. Pure: a Case in, a Story out; explain.h fills the Case.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/json_object.h"
#include "agent/kube/pod.h"
#include "agent/slurm/queue.h"
#include "agent/tool/paint.h"

namespace berth::tool {

struct PodEvent {
    std::time_t at = 0;
    std::string type, reason, message;  // "Warning", "FailedScheduling", ...
};

// All that is known of one pod.
struct Case {
    std::string ns, name;
    std::time_t now = 0;
    std::optional<kube::Pod> pod;  // nothing: there is none of this name
    std::string disruption;        // message of the condition DisruptionTarget, where Slurm is its reason
    std::string container_waits;   // "ImagePullBackOff: ...", of a bound pod that does not run yet
    std::vector<PodEvent> events;  // oldest first

    std::string scheduler;       // Berth's, by the configuration or its default
    bool tenants_known = false;  // berth.yaml could be read
    std::string tenant;          // "alice", "" for nobody

    std::string slurm_problem;           // why slurmctld could not be asked
    std::vector<slurm::QueuedJob> jobs;  // the placeholder in force, all parts of it; empty: none is known
    std::string user;                    // the job's, by name
    std::size_t ahead = 0;               // pending jobs of higher priority in its partition
};

struct Story {
    // One of: absent, other_scheduler, gated, gathering, refused, unseen, unknown, pending, never, unbound, starting, running, suspended,
    // finished, ended, deleting. Scripts go by it.
    std::string verdict;
    std::string summary;                                       // one sentence
    std::vector<std::pair<std::string, std::string>> details;  // (name, text), in the order of the story
    std::string advice;                                        // what to do, one or two sentences
};

Story tell(const Case &facts);

std::string to_text(const Story &story, const Paint &paint = Paint());
JsonObject to_json(const Story &story, const Case &facts);

}  // namespace berth::tool
