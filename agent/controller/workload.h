// Workload: what the controller knows of one placeholder's pods: one pod, or the members of a gang. Values and questions about them,
// no server; agent/lifecycle/ says what follows from the answers. On the loop's thread.
#pragma once

#include <chrono>
#include <ctime>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/kube/api.h"
#include "agent/kube/pod.h"
#include "agent/lifecycle/lifecycle.h"
#include "agent/loop.h"
#include "agent/slurm/client.h"
#include "agent/workload/grouping.h"

namespace berth {

struct Member {
    kube::Pod pod;
    std::chrono::steady_clock::time_point arrived{};  // when the watch told of it; the epoch: it was there before
    std::string told;  // the last condition message written
    std::chrono::steady_clock::time_point told_at{};
    bool dismissal_told = false;
    std::time_t lost_since = 0;  // its job has ended, it is being deleted, and its node is lost
    std::optional<bool> suspension_told;  // what was last written as berth.dev/Suspended
    bool suspension_open = false;         // that write is under way
    std::string ending_reason, ending_message;  // of its condition berth.dev/Ending as it was last told; no reason: it goes on
    bool ending_open = false;                   // that write is under way

    kube::PodRef ref() const { return {pod.ns, pod.name, pod.uid}; }
    bool bound() const { return !pod.node_name.empty(); }
    // It runs, or may still come to run.
    bool live() const { return !pod.terminal() && (bound() || !pod.deleting); }
    bool docked() const { return live() && bound(); }
    bool ready() const { return live() && !bound() && !pod.gated; }
};

struct Workload {
    Membership who;
    std::vector<std::string> interests;     // uids of the objects that `who` was made from, or the name of one that is missing
    std::string group;                      // uid of the PodGroup that it, or the gang that it was split off from, belongs to
    std::string obstacle;                   // why nothing can be submitted for it as its owners stand
    std::map<std::string, Member> members;  // by pod uid: what the API has, ended ones too
    State state = State::idle;

    std::uint32_t tenant = 0;               // the uid that owns the job
    std::uint32_t job = 0, parts = 1;       // the first part's id
    std::string nonce;                      // of the placeholder in force
    std::uint32_t placed = 0;               // pods that it has a place for; its owner may ask for another number meanwhile
    bool late = false;                      // split off from a gang that had no room for it
    std::chrono::steady_clock::time_point job_known{};  // looks that began earlier say nothing about this job
    std::optional<slurm::Job> seen;         // what the last look showed
    bool suspended = false;                 // likewise: some part of it is
    std::time_t told_start = 0;             // the expected start that its pods were told of
    std::string problem;                    // why it was refused
    unsigned refusals = 0;                  // since it last had a job
    std::chrono::steady_clock::time_point waiting_since{};  // in the controller
    bool queued = true;                     // Slurm did not start its job at once
    std::vector<std::string> notes;         // what could not be honoured, told once
    std::chrono::steady_clock::time_point unbound_since{};  // of the running job
    std::chrono::steady_clock::time_point jobless_since{};  // bound pods whose job slurmctld does not know
    bool replaced = false;                  // its job was given up for an unnoticed one
    std::map<std::string, std::uint32_t> ends;  // a gang's: slot -> the wait status of the last pod that ended there by itself
    std::time_t started_scheduling = 0;     // when its placeholder was first submitted
    SourcePtr timer, patience, deadline;    // the next try; how long it may lack pods; its schedule timeout
    std::optional<Event> patient_for;       // what happens when the patience is over
    std::chrono::milliseconds backoff{0};
    SourcePtr ending;                       // the next look at when its job ends
    std::time_t ending_at = 0;              // when that is
    std::uint32_t first_limit = 0;          // minutes: the time limit that its job had when it was first seen to run
    bool renewing = false, evicting = false;  // asked, and not answered yet
    bool unrenewable = false;               // its time limit is as long as the site allows, or slurmctld refused
    std::time_t renew_again = 0;            // when to try after a refusal

    bool gang() const { return who.gang; }
    // A pod that its owner wants to run on.
    bool service() const;
    std::string full_name() const { return who.ns + "/" + who.name; }
    // "pod team-a/x", "PodGroup team-a/ring"
    std::string title() const { return (gang() ? who.kind : "pod") + " " + full_name(); }
    // The only member of a workload that is no gang.
    Member &only() { return members.begin()->second; }
    const Member &only() const { return members.begin()->second; }

    // Members in rank order.
    std::vector<const kube::Pod *> ranked(bool (Member::*which)() const) const;
    std::size_t count(bool (Member::*which)() const) const;
    // Bound for the placeholder in force.
    std::size_t docked() const;

    // The job that live pods are bound by, as they say themselves; 0: none is.
    std::uint32_t bound_by() const;
    // The job that all pods which wait were last told to wait for, by this controller or one before it; 0: not all, or not of one.
    std::uint32_t told_to_wait_for() const;
    std::int64_t oldest() const;  // when the first of its pods was created

    void note_end(const kube::Pod &pod);
    // How a gang's job ends: nothing when no pod of it ended by itself, and it is to be cancelled.
    std::optional<std::uint32_t> exit_status() const;
};

using WorkloadPtr = std::shared_ptr<Workload>;

// The jobs of one submission: one, or the parts of a heterogeneous one, which live and die together.
struct Placing {
    std::vector<const slurm::Job *> parts;  // by part

    const slurm::Job &first() const { return *parts.front(); }
    const slurm::Job &soonest() const;  // the part that ends first
    bool lives() const;
    bool pending() const;
    bool running() const;  // suspended too
};

// Of several placings for one workload: the one its pods are bound by, else the lowest live id, else the one that ended last. Those that
// we withdrew ourselves, and those that ended before any of the pods was there, do not count.
const Placing *choose(const Workload &workload, const std::vector<Placing> &placings);

}  // namespace berth
