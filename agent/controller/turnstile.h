// Turnstile: the workloads that are ready and wait for their submission, and whose turn is next.
//
//  1. Namespaces take turns, one workload each; a gang is one. Within a namespace the oldest comes first, and one that Slurm has refused
//     before comes after those that have not been tried.
//  2. At most `most_under_way` submissions are on their way to slurmctld. The queue is here, where it is fair, and not behind the workers.
//  3. At most `places` placeholders live in Slurm. One namespace gets no more than four times what is left to the others: alone it can have
//     four fifths of the places, and the first pod of another finds room at once although nothing of the first one's ever starts.
//  4. slurmctld's table of jobs, which native jobs share, is never filled up by us.
//  5. Where Slurm says that there is no room, nobody asks again for a while, and then one alone (gate.h). A limit of a user, account or QOS
//     holds back only the namespace's workloads that name the same account, QOS and partition (their `allowance`). The oldest of them asks;
//     every fourth time another, for what is said of one may not hold for all, but not when a job of theirs has just ended.
//
// Holds no clock, no timer and no server: the Controller asks next() when something has changed. On the loop's thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>

#include "agent/lifecycle/gate.h"

namespace berth {

struct Workload;
using WorkloadPtr = std::shared_ptr<Workload>;

// What the last look at slurmctld showed.
struct Occupancy {
    std::map<std::string, std::uint32_t> placeholders;  // that live, by namespace
    std::uint32_t records = 0;      // jobs in slurmctld's table: everybody's, ended ones too until it forgets them
    std::uint32_t max_records = 0;  // MaxJobCount
};

class Turnstile {
  public:
    using Time = Gate::Time;
    struct Entrant {
        std::string ns, allowance;
        unsigned refusals = 0;
        std::time_t created = 0;
        std::uint32_t parts = 1;
    };
    enum class Answer { taken, refused, unasked, limit, full };
    enum class Why { turn, places, share, records, limit, full };  // it waits

    Turnstile(unsigned most_under_way, std::uint32_t seed);

    void set_places(std::uint32_t places) { places_ = places; }
    void looked(Occupancy occupancy);

    void join(const WorkloadPtr &workload, Entrant entrant);
    bool waits(const WorkloadPtr &workload) const { return waiting_.count(workload.get()) != 0; }
    void leave(const WorkloadPtr &workload);  // nothing happens to one that is not waiting
    // Whose turn it is; it is under way from then on until answered() says how that went. Nothing: nobody waits, or nobody may go now.
    WorkloadPtr next(Time now);
    // `refused`: the workload's own fault; `unasked`: the same, and slurmctld has not heard of it. `limit`: its allowance is used up, `said` says how. `full`: slurmctld takes nobody's job.
    void answered(const WorkloadPtr &workload, Answer answer, Time now, const std::string &said = "");
    // When next() may say something else by the mere passing of time.
    std::optional<Time> opens() const;

    std::size_t waiting() const { return waiting_.size(); }
    std::size_t under_way() const { return under_way_.size(); }
    Why why(const WorkloadPtr &workload) const;
    std::string said(const WorkloadPtr &workload) const;  // the words of the limit that it waits for
    std::uint32_t places() const { return places_; }

  private:
    using Rank = std::tuple<unsigned, std::time_t, std::uint64_t>;  // refusals, created, joined
    struct Queue {
        std::map<Rank, WorkloadPtr> waiting;
        Gate gate;
        std::string said;  // by slurmctld, when it last refused
        unsigned asked = 0;  // while the gate was shut
        Rank other{};        // who asked in the oldest one's stead
    };
    struct Lane {
        std::map<std::string, Queue> queues;  // by allowance
        std::uint32_t placeholders = 0;       // the last look's, and what was taken since
        std::uint32_t under_way = 0;
    };
    struct Spot {
        Entrant entrant;
        Rank rank;
    };
    void hint(const std::string &ns);
    Queue *first_of(Lane &lane, Time now);
    static std::map<Rank, WorkloadPtr>::iterator who_asks(Queue &queue);
    bool room() const;
    bool within_share(const Lane &lane) const;
    std::uint32_t most_records() const;
    void tidy(const std::string &ns, const std::string &allowance);

    const unsigned most_under_way_;
    std::uint32_t places_ = UINT32_MAX;
    std::uint32_t placeholders_ = 0, parts_under_way_ = 0, records_ = 0, max_records_ = 0;
    std::map<std::string, Lane> lanes_;  // by namespace
    std::string served_;                 // the namespace whose turn it was
    Gate gate_;
    std::string said_;
    std::uint64_t joined_ = 0;
    std::unordered_map<const Workload *, Spot> waiting_;
    std::unordered_map<const Workload *, Entrant> under_way_;
    mutable std::minstd_rand random_;
};

}  // namespace berth
