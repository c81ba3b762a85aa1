// Roll: the placeholders on this node that slurmctld has called alive, so that the gate of the next job need not ask for each of them again. It lies in
// the run directory's gate/ and is believed only while nothing happened by which slurmctld could have lost one of them alone:
//
//   - it is the same slurmctld, and it has neither started, taken over nor read its configuration since (Epoch);
//   - slurmd is the same, and no epilog has failed to leave its mark (forget()).
//
// What takes all of a node's jobs at once, a node that is set DOWN, it does not show: that is why the gate asks for one placeholder of the roll.
// docs/protocol.md, "The gate", goes through the cases.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "proto/records.h"

namespace berth {

// A stretch of slurmctld's life from its start, take-over or last reading of slurm.conf to the next, named by a moment in it on slurmctld's own clock.
struct Epoch {
    unsigned long moment;
    bool same;  // as that of the moment that was asked about
};
// Of the slurmctld that answers now. `before`: the moment of an earlier answer, which slurmctld compares with when it last read slurm.conf; 0 for none.
std::optional<Epoch> ask_epoch(unsigned long before);

class Roll {
  public:
    // Reads the roll and asks slurmctld for its epoch. One of another epoch is empty, and so is one without an answer.
    explicit Roll(const RunDir &run_dir);
    const std::set<std::string> &names() const { return names_; }  // of RunDir::job_name()
    // Whom slurmctld has called alive since the constructor, or who is on the roll and answered for by one who was. Not written without an epoch.
    // What another gate of the same epoch has written meanwhile stays.
    void write(const std::set<std::string> &job_names) const;

    // Makes every roll of this node void, also one that is about to be written.
    static void forget(const RunDir &run_dir);

  private:
    // Those of the record, if it is of this watch and of the epoch with that moment.
    std::set<std::string> read(unsigned long moment) const;

    const RunDir &run_dir_;
    std::string watch_;  // which stretch without a forget() this is
    std::optional<Epoch> epoch_;
    std::set<std::string> names_;
};

// Whether a list of nodes, as Slurm writes it, may name more than one.
bool spans_nodes(std::string_view nodelist);

}  // namespace berth
