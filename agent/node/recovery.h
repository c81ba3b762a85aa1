// What a node's agent takes up again when it starts, and what it ends: from the records that the one before it and the plugins left in the
// run directory. (Pods that no record speaks of: adoption.h.) NodeAgent asks slurmctld and the API about each, and acts. Nothing here
// talks to a server; only the run directory is read.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/kube/api.h"
#include "agent/node/slots.h"
#include "proto/records.h"

namespace berth::node {

// A pod that held/ speaks of: it is or may be bound here.
struct HeldPod {
    std::uint32_t job = 0;
    std::string nonce;
    kube::PodRef pod;
    std::optional<SlotName> slot;       // of a gang's pod
    std::optional<Message> allocation;  // its jobs/ record: without one nothing more is bound for the job
    bool ended = false;                 // the epilog was here: the pod goes
};

struct Held {
    std::vector<HeldPod> pods;
    std::vector<std::string> unreadable;  // names of records by another version. They go on counting as held, for everybody
};
Held read_held(const RunDir &run_dir);

using KnownJob = std::function<bool(const std::string &job_key)>;
// Allocations in jobs/ that nobody has taken up. Of jobs that have ended the record goes.
std::vector<Message> untaken_allocations(const RunDir &run_dir, const KnownJob &known);
// Marks in ended/ that are so old that nobody can come any more who would bind for the job.
void drop_old_ends(const RunDir &run_dir, const KnownJob &known, long keep_seconds);

}  // namespace berth::node
