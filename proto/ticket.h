// Ticket: what a placeholder is for. It is the admin_comment of the Slurm job (Slurm lets only its admins set that), so
// that the controller finds its jobs again; and, sealed by job_submit_berth.so, the SPANK_BERTH variable that nodes
// trust. A small JSON object that begins with {"berth":1, which is also how a placeholder is recognised.
// Pure functions, safe in any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth {

// The variable that carries the sealed ticket into prolog and epilog.
constexpr std::string_view ticket_variable = "SPANK_BERTH";

struct Ticket {
    std::string cluster;
    std::string ns;
    std::string kind;  // "Pod", or the kind of a gang: "Job", "JobSet", "PodGroup", "LeaderWorkerSet"
    std::string name;  // the workload's name; the pod's for kind Pod
    std::string uid;   // the pod's uid; a gang's key, which begins with its owner's uid
    std::string nonce; // 16 hex digits: with the job id it names the placeholder for ever
    std::uint32_t user = 0, group = 0;  // the tenant
    // What a node must find in the allocation before it binds.
    std::uint32_t size = 1;  // pods
    std::uint32_t cpus = 0;  // per pod
    std::uint64_t memory_mib = 0;  // per pod
    std::string gres;              // per pod, "gpu:a100:2,shard:4"; may be empty
    // Of a single pod: it names no claims and no wishes about its node, so that it needs no look before it is bound.
    bool plain = false;

    // Gangs alone. One of several shapes is a heterogeneous job: a part for each shape, all with one nonce.
    std::uint32_t part = 0, parts = 1;
    std::string shape;            // shape_of() every pod of the part, when there are several
    std::uint32_t gang = 1;       // pods of all parts: nothing is bound before so many are there
    std::string selector;         // labels by which nodes find the members ("job-name=ring"); empty: by scheduling_group
    std::string scheduling_group; // the members' spec.schedulingGroup.podGroupName, when they have no labels in common
    std::string tenant;           // tenant_name() of the site's entry: pods of another one are no members, whatever their labels say
    std::uint32_t per_node = 0;   // at most so many pods of the part on one node, 0: no bound

    // Of several controllers: the leadership that submitted this, a number that only grows. 0: not said.
    std::uint64_t term = 0;

    // The bridge took the placeholder back itself: its end is no verdict on the pods.
    bool over = false;

    bool single() const { return kind == "Pod"; }
    bool operator==(const Ticket &) const = default;
};

// Whether the text claims to be a ticket, good or bad; cheap enough for every job that slurmctld sees.
bool looks_like_ticket(std::string_view text);
// Empty when the ticket holds text that is not UTF-8, or would be longer than 8 KiB.
std::string to_json(const Ticket &ticket);
// Refuses unknown versions, missing, empty, doubled or wrongly typed members, a gang that says in no way who its members
// are, and texts over 8 KiB; says why. What it takes looks_like_ticket() takes too.
std::optional<Ticket> parse_ticket(std::string_view json, std::string &why);

}  // namespace berth
