// Metrics: what berthd counts about itself, and the text in which Prometheus reads it. The table is fixed: each thing that is counted has its
// place from the start, and counting is one relaxed addition, from any thread. Names, labels and meanings are in docs/admin.md.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace berth::metrics {

using Count = std::atomic<std::uint64_t>;

// Seconds in buckets that reach from a hundredth of a second to half a day.
class Histogram {
  public:
    static constexpr std::array<double, 16> bounds{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 43200};

    void observe(double seconds);
    void observe(std::chrono::steady_clock::duration time) { observe(std::chrono::duration<double>(time).count()); }
    // "NAME_bucket{LABELS,le=...}" and so on; labels "" or `start="queued"`.
    void write(std::string &out, std::string_view name, std::string_view labels) const;

  private:
    std::array<Count, bounds.size() + 1> buckets_{};  // not yet summed up
    Count microseconds_{0};
};

// What slurmctld is asked for.
enum class Rpc : std::uint8_t { submit, load_job, load_jobs, load_nodes, load_partitions, load_config, announce, update_job, complete_job, cancel_job, update_node };
constexpr std::size_t rpc_count = static_cast<std::size_t>(Rpc::update_node) + 1;
// ok; slurmctld said no; no answer.
enum class RpcOutcome : std::uint8_t { ok, refused, failed };

// What a push should have told, or nobody could, and a slow comparison found.
enum class Healed : std::uint8_t {
    missed_end,     // a job that had ended, of which no doorbell rang
    unknown_job,    // a job that slurmctld no longer knew
    orphan_job,     // a job without a pod
    jobless_pods,   // pods without a job
    unnoticed_job,  // a job that its node had not heard of
    lost_job,       // a node's pod whose job slurmctld no longer knew
};
constexpr std::size_t healed_count = static_cast<std::size_t>(Healed::lost_job) + 1;

// Why a node was drained: for Kubernetes' sake, or because a pod there could not be proven gone.
enum class Drain : std::uint8_t { kubernetes, pod };
constexpr std::size_t drain_count = 2;

// The controller's: from a pod's creation until it is bound, for jobs that Slurm started at once and for those that had to queue.
extern Histogram created_to_bound_at_once, created_to_bound_queued;
// The nodes': from the prolog's word until the pod is bound; from the end until the pod is proven gone, by whose end it was.
extern Histogram allocated_to_bound, hold_after_job, hold_after_pod;

void api_call(std::string_view method, bool watch, int status);  // status 0: no answer
void rpc(Rpc kind, RpcOutcome outcome);
void healed(Healed what);
void drained(Drain why);

// What is so now, rather than counted; asked for when somebody reads.
struct Gauges {
    bool controller = false;                 // without this role there is no queue and no leader
    bool leader = false;
    bool ready = false;
    std::map<std::string, std::uint64_t> queue;          // by reason: workloads that wait
    std::map<std::string, std::uint64_t> workloads;      // by state
    std::map<std::string, std::uint64_t> drained_nodes;  // by whose sake: "kubernetes", "pod", "site"
    std::uint64_t nodes = 0;
    double slurm_age = -1;                   // seconds since slurmctld last answered a look; negative: never
};

// In Prometheus' text format, version 0.0.4.
std::string text(const Gauges &now);

}  // namespace berth::metrics
