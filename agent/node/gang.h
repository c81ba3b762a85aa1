// Gang: one gang placeholder (one part of it, when the gang has several shapes) that Slurm allocated on this node, and what is known of
// the gang's pods. The pods themselves are Berths, each with its own way; the gang says which pod takes which slot.
//
//   - Nothing is bound before all pods of the gang are there (Ticket::gang, all parts together), or some node has begun.
//   - Each slot belongs to one node, and that node alone fills it: whatever others see later or earlier, no slot is taken twice. Two nodes
//     that see different members may want the same pod; the API gives it to one of them, and the other looks again.
//   - A bound pod keeps its slot until it is proven gone. Then the slot is free, and a pod that took the old one's place gets it.
//
// Everything here is pure; NodeAgent (muster.cc) keeps the members fresh and acts. On the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/kube/watch.h"
#include "agent/loop.h"
#include "agent/node/slots.h"
#include "agent/slurm/client.h"
#include "agent/workload/grouping.h"
#include "proto/records.h"
#include "proto/ticket.h"

namespace berth::node {

struct Gang {
    struct Member {
        kube::Pod pod;
        RankKey rank;
        bool of_this_part = true;  // by its shape
        bool outgrown = false;     // it asks for more than its place has
    };
    struct Seat {
        const kube::Pod *pod;  // good until the members change
        std::uint32_t slot;
    };

    std::uint32_t job = 0;
    Ticket ticket;
    std::string nodelist, cpus_per_node;  // as the prolog saw them
    std::chrono::steady_clock::time_point allocated{};  // when it told of them
    std::time_t allocated_at = 0;                       // likewise; pods that were made later do not count from there

    std::optional<slurm::Job> job_seen;  // slurmctld's last answer, and when it came
    std::chrono::steady_clock::time_point job_seen_at{};
    std::optional<Slots> slots;          // known once the job was found good
    std::string refusal;                 // what the job lacks: nothing is bound to it
    bool started = false;                // some pod was or is bound
    bool over = false;                   // Slurm ended the job

    std::map<std::string, Member> members;  // by uid; only while the watch is open
    std::unique_ptr<kube::Watcher> watch;
    bool check_open = false;
    SourcePtr timer;         // the next look at slurmctld, or the reopening of the watch
    SourcePtr muster_timer;  // members changed: who can be seated now
    bool muster_due = false;
    std::chrono::milliseconds backoff{0};

    std::string key() const { return RunDir::job_name(job, ticket.nonce); }

    // How the members are asked for: the query of a list or watch in the gang's namespace.
    std::string query(const std::string &scheduler_name) const;
    // Takes a pod's newest state; one that is no member is forgotten.
    void saw(kube::Pod &&pod, const std::string &scheduler_name, const Config &config);

    // Whether the gang is complete, all parts together, or has begun.
    bool whole() const;
    // The members that wait, and the slots that they take, wherever those are. `taken`: slots of pods that this node is not done with;
    // `settled`: uids of pods that are seated or over, although the members may not show it yet.
    std::vector<Seat> seats(const std::set<std::uint32_t> &taken, const std::set<std::string> &settled) const;
    // Whether no member can find a place here any more, until one is freed.
    bool full(const std::set<std::uint32_t> &taken) const;

  private:
    bool bound_by_us(const kube::Pod &pod) const;
};
using GangPtr = std::shared_ptr<Gang>;

}  // namespace berth::node
