// translate(): pod + site config -> the Slurm job that holds its berth. Pure: talks to neither server, reads no clock.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/config.h"
#include "agent/kube/pod.h"
#include "agent/result.h"

namespace berth {

// What slurm_allocate_resources() is asked for. Empty strings and zeros leave Slurm's default.
struct Placeholder {
    std::string job_name;  // "namespace/pod"
    std::string comment;   // for people: "pod namespace/pod"
    std::uint32_t uid = 0, gid = 0;
    std::string account, partition, qos, reservation, constraints, licenses, wckey;
    std::uint32_t tasks = 1;
    std::uint16_t cpus_per_task = 1;
    std::uint64_t memory_mib_per_node = 0;  // always set; rounded up
    std::vector<std::pair<std::string, std::uint64_t>> gres;  // ("gpu:a100", 2): per node
    std::uint32_t min_nodes = 1, max_nodes = 1;
    std::uint32_t time_limit_minutes = 0;
    std::optional<std::uint32_t> priority;
    bool exclusive = false;
};

struct Identity {
    std::uint32_t uid, gid;
};
// Looks a tenant's user and group up (getpwnam and friends in production, a table in tests).
using IdentityLookup = std::function<Result<Identity>(const std::string &user, const std::string &group)>;
IdentityLookup system_identities();

// An error is a sentence for the pod's author: it names the annotation, its value and what is accepted. A namespace
// without a tenant entry is an error too.
Result<Placeholder> translate(const kube::Pod &pod, const Config &config, const IdentityLookup &identities);

// The tenant entry for a pod, nullptr when there is none.
const TenantConfig *find_tenant(const Config &config, std::string_view ns, std::string_view service_account);

}  // namespace berth
