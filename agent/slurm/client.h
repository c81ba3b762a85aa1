// The calls that Berth makes to slurmctld, through libslurm. All block; all may be called from any thread (Workers does).
#pragma once

#include <csignal>
#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/result.h"
#include "agent/translate/placeholder.h"
#include "proto/ticket.h"

namespace berth::slurm {

// Reads slurm.conf; once per process, before anything else here.
void start();
std::uint32_t slurm_user();       // SlurmUser's uid
std::uint16_t inactive_limit();   // InactiveLimit, seconds

enum class JobState { pending, running, suspended, ended };

struct Job {
    std::uint32_t id = 0;
    JobState state = JobState::ended;
    bool completing = false;
    std::string state_name;  // "PENDING", "CANCELLED", "TIMEOUT", ...
    std::string reason;      // "Resources", "Priority", ...; with Slurm's own detail where there is one
    std::uint32_t uid = 0;
    std::uint32_t exit_status = 0;  // a wait status
    std::uint32_t cpus = 0;         // allocated, when running
    std::uint64_t memory_mib_per_node = 0;  // least over the nodes as far as is known (see cpus_by_node); 0: a node's whole memory
    std::uint64_t memory_mib_per_cpu = 0;   // where memory goes by CPUs: a node has this times its CPUs
    // In the order of nodes, empty while pending. By load() alone, and empty where slurmctld does not say.
    std::vector<std::uint32_t> cpus_by_node;
    std::uint32_t tasks = 0;
    std::vector<std::string> gres_by_node;  // "gpu:a100:2(IDX:0-1)", likewise
    std::uint32_t het_leader = 0;           // of a part of a heterogeneous job: the first part's id, else 0
    std::time_t end_time = 0;               // when it ended, or will by its time limit or a preemption; 0: not known
    std::time_t preempt_time = 0;           // when Slurm decided to preempt it
    std::uint32_t time_limit_minutes = 0;   // 0: none
    std::time_t suspend_time = 0;           // when it was last suspended or resumed; 0: never
    std::time_t ran_before = 0;             // seconds that it had run by the time it was last suspended
    std::string partition;
    std::string nodes;       // a hostlist, empty while pending
    std::uint32_t node_count = 0;
    std::time_t start_time = 0;     // expected, while pending; 0 when Slurm does not know
    Ticket ticket;

    // How an end, or the preemption that leads to it, is told to people: "SlurmTimeout", and a sentence.
    std::string end_word() const;
    std::string end_sentence() const;

    bool lives() const { return state != JobState::ended && !completing; }
    bool active() const { return (state == JobState::running || state == JobState::suspended) && !completing; }
    // It runs on for the grace that Slurm gives preempted jobs, until end_time.
    bool preempting() const;
    bool has_node(const std::string &node) const;
};

// slurmctld could not deliver its answer to a submission and killed the job again, or refused it and keeps the record of a job that never
// had a node: nobody decided anything about the pod. Killed while it waits, such a job is CANCELLED like one that a person cancelled, who
// leaves it with the same start as end.
template <class AnyJob>
bool no_verdict(const AnyJob &job) {
    if (job.state != JobState::ended)
        return false;
    if (job.state_name == "CANCELLED")
        return job.nodes.empty() && job.start_time != job.end_time;
    return job.state_name == "FAILED" && (job.exit_status == SIGTERM || job.nodes.empty());
}

struct NativeJobs;  // queue.h

// How a submission went. `limit`: the tenant has as many jobs in the queue as an association or a QOS allows; `full`: slurmctld takes nobody's
// job now. `unsure`: the request may have been carried out or may still be; look for the nonce before another try.
struct Submission {
    enum class Outcome { queued, running, refused, limit, full, unsure } outcome = Outcome::unsure;
    std::uint32_t job = 0;
    std::string problem;  // what slurmctld said, for all but queued and running
};

// One part is an ordinary job, several are one heterogeneous job that starts whole; tickets are in the order of the parts. `job` of the
// answer is the first part's id. A heterogeneous job is always queued first: slurmctld starts it in its next backfill cycle (bf_interval,
// 30 s unless the site says less), each part on nodes of its own. The calling program must be able to play the child of het_submit.h.
Submission submit(const std::vector<Placeholder> &parts, const std::vector<Ticket> &tickets, std::uint16_t doorbell_port);

// Names of all nodes, in Slurm's order.
Result<std::vector<std::string>> node_names();
// The nodes of a hostlist, in its order. Works without slurmctld.
std::vector<std::string> expand_hosts(const std::string &hostlist);
std::string compress_hosts(const std::vector<std::string> &hosts);

// The job, if slurmctld knows it and it carries a ticket of ours; nothing when slurmctld says that there is no such
// placeholder; an error when it cannot be asked.
Result<std::optional<Job>> load(std::uint32_t job);
// All placeholders of one cluster, ended ones included while slurmctld remembers them.
// `records`: how many jobs there are in slurmctld's table, of everybody.
// `native`: where the others are noted, too.
Result<std::vector<Job>> load_all(const std::string &cluster, std::uint32_t &records, NativeJobs *native = nullptr);

// Tells job_submit_berth.so that this leadership has begun, by a question whether a job would run that it refuses: nothing is made. What kept
// the plugin from hearing it: slurmctld cannot be asked, or a plugin of the site's own comes before ours and refuses all by itself; empty when
// nothing did. That it has heard of a newer one is said to what is submitted.
std::string announce_term(const std::string &cluster, std::uint64_t term);

// When slurmctld started, and its MaxJobCount; 0 when it does not say.
std::pair<std::time_t, std::uint32_t> boot_time();

// Both look first whether the job is still the placeholder of this pod or gang, for a slurmctld that crashed gives ids twice; both
// succeed when it has ended already, and end all parts whichever part is named.
Result<void> complete(std::uint32_t job, const std::string &pod_uid, std::uint32_t wait_status);
Result<void> cancel(std::uint32_t job, const std::string &pod_uid);
// Cancels, but leaves a job alone that is being preempted: Slurm is about to end it, and says so in its records.
Result<void> give_back(std::uint32_t job, const std::string &pod_uid);
// Cancels, and marks the ticket first, so that nobody takes the end for a verdict on the pods.
Result<void> withdraw(std::uint32_t job, const std::string &key);

// Minutes that a job may have in the partition; 0: no limit.
Result<std::uint32_t> longest_time(const std::string &partition);
// Needs SlurmUser or an operator. Looks first, like cancel().
// Changes nothing when the limit is no longer what was `seen`, or the job is being preempted.
Result<void> set_time_limit(std::uint32_t job, const std::string &pod_uid, std::uint32_t seen, std::uint32_t minutes);

}  // namespace berth::slurm
