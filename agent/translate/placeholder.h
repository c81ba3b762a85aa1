// translate(): a workload + the site's config + its nodes -> the Slurm job that holds its berths. Pure: talks to neither server, reads no
// clock.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/config.h"
#include "agent/kube/pod.h"
#include "agent/result.h"
#include "agent/workload/grouping.h"
#include "proto/ticket.h"

namespace berth {

// What slurm_allocate_resources() is asked for: one task per pod, all of one shape. Empty strings and zeros leave Slurm's default.
struct Placeholder {
    std::string job_name;
    std::string comment;  // for people: "pod namespace/pod", "Job namespace/name: 8 pods"
    std::uint32_t uid = 0, gid = 0;
    std::string account, partition, qos, reservation, constraints, prefer, licenses, wckey;
    std::uint32_t tasks = 1;
    std::uint16_t cpus_per_task = 1;
    std::uint64_t memory_mib = 0;  // per pod; always set; rounded up
    std::vector<std::pair<std::string, std::uint64_t>> gres;  // ("gpu:a100", 2): per pod
    std::uint64_t tmp_disk_mib = 0;
    std::uint32_t min_nodes = 1, max_nodes = 1;  // max_nodes 0: as many as tasks
    std::uint16_t tasks_per_node = 0;            // at most, 0: no bound
    std::uint32_t time_limit_minutes = 0;
    std::optional<std::uint32_t> priority;
    std::optional<std::int32_t> nice;
    bool exclusive = false, spread = false, pack = false;
    std::time_t begin = 0, deadline = 0;
    std::string dependency;      // Slurm's own words, job ids filled in: "afterok:12:13"
    std::uint32_t switches = 0;  // at most; 0: not said
    std::uint32_t switches_wait_seconds = 0;
    std::string excluded_nodes;  // a hostlist
};

// A node that Slurm knows, and what Kubernetes says of it.
struct SiteNode {
    std::string slurm_name;
    bool in_kubernetes = false;
    kube::KeyValues labels;
    std::vector<kube::Taint> taints;
    bool unschedulable = false;
    std::string kube_name;
    std::int64_t cpu_milli = 0, memory_bytes = 0;  // allocatable; 0: not known
};

// `kube` null: Kubernetes has no such node.
SiteNode make_site_node(const std::string &slurm_name, const kube::Node *kube);

struct Identity {
    std::uint32_t uid, gid;
};
// Looks a tenant's user and group up (getpwnam and friends in production, a table in tests).
using IdentityLookup = std::function<Result<Identity>(const std::string &user, const std::string &group)>;
IdentityLookup system_identities();

// What translation may ask of the world; all of it given, so that tests need none.
struct Site {
    const Config &config;
    IdentityLookup identities;
    // Empty: nodes are not known yet or not used, and nothing is excluded.
    std::span<const SiteNode> nodes;
    // The jobs of a workload of the same namespace, for berth.dev/dependency: ("Job", "prepare") -> 12, 13; an error says what is missing.
    std::function<Result<std::vector<std::uint32_t>>(const std::string &ns, const std::string &kind, const std::string &name)> jobs_of;
    std::time_t now = 0;  // for what has passed; "now+2h" of an annotation counts from the workload's creation
};

// One shape of a gang: pods that ask for the same, in one Placeholder.
struct Shape {
    Placeholder placeholder;
    std::string name;                   // shape_of() its pods
    std::vector<std::string> pod_uids;  // in rank order
    // Wishes that were passed over because Slurm cannot be told and the site lets them pass: sentences for an event.
    std::vector<std::string> notes;
};

// `pods` are the members in rank order, at least one; a single pod is a gang of one. Members are taken up to membership.size, by rank.
// Shapes are in the order of their lowest ranks, so a leader comes first. An error is a sentence for the author: it names the annotation,
// its value and what is accepted. A namespace without a tenant entry is an error too; so is a workload that no node can take.
Result<std::vector<Shape>> translate(const Membership &membership, const std::vector<const kube::Pod *> &pods, const Site &site);

// What one pod asks of Slurm, the same on the controller and on every node: pods with equal needs share a shape.
struct Need {
    std::uint16_t cpus = 1;
    std::uint64_t memory_mib = 0;
    std::vector<std::pair<std::string, std::uint64_t>> gres;  // sorted by name

    bool operator==(const Need &) const = default;
};
// With the annotations cpu-per-task, mem-per-node and gres taken into account.
Result<Need> need_of(const kube::Pod &pod, const std::vector<kube::KeyValues> &layers, const Config &config);

// What a placeholder has for each of its pods, by its ticket.
Need place_of(const Ticket &ticket);
// Whether the pod itself, whatever annotations say, asks for more than a place of this size has.
bool outgrows(const kube::Pod &pod, const Need &place, const Config &config);

// "2c 4096m gpu:a100:1": the need by the pod and its own annotations alone, which is all that a node can see of it; "" for a pod that cannot be
// translated.
std::string shape_of(const kube::Pod &pod, const Config &config);

// Whether a pod may be on a node by its nodeSelector, required node affinity and taints (NoSchedule, NoExecute); "" or why not. The
// controller's choice is checked again by the node's agent right before it binds.
std::string mismatch(const kube::Pod &pod, const SiteNode &node, const Config &config);

// "gpu:a100:2,shard:4"; the reverse is parse_gres().
std::string gres_text(const std::vector<std::pair<std::string, std::uint64_t>> &gres);

// The tenant entry for a pod, nullptr when there is none.
const TenantConfig *find_tenant(const Config &config, std::string_view ns, std::string_view service_account);
// "alice", "alice:staff": who a pod is in Slurm, by its namespace and service account; "" for nobody.
std::string tenant_name(const Config &config, const kube::Pod &pod);

}  // namespace berth
