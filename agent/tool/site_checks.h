// The doctor's checks of Berth's own files and of Kubernetes and the nodes. Pure: facts in, findings out.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.h"
#include "agent/lifecycle/election.h"
#include "agent/result.h"
#include "agent/slurm/settings.h"
#include "agent/tool/finding.h"
#include "agent/tool/node_pairs.h"
#include "jobsubmit/rules.h"

namespace berth::tool {

// --- berth.yaml, berth.conf, the key, the sockets

struct KeyFacts {
    std::string path;
    std::string problem;  // why it could not be looked at
    std::uint32_t uid = 0, mode = 0;
    std::uint64_t size = 0;
    bool slurm_user_reads = true;  // as far as owner, group and mode say
};
void check_key(const KeyFacts &key, std::uint32_t slurm_uid, Findings &out);

struct RulesFacts {
    std::string path, problem;
    std::optional<Rules> rules;
};
void check_rules(const RulesFacts &facts, const Config &config, const slurm::Settings *settings, const IdentityLookup &identities,
                 Findings &out);

struct SocketFacts {
    std::string who;  // "the controller", "the agent of node n1"
    std::string path;
    bool there = false, answers = false;
};
void check_sockets(const std::vector<SocketFacts> &sockets, Findings &out);

void check_pam(std::string_view pam_file_with_adopt, Findings &out);

// --- Kubernetes

struct Right {
    std::string group, resource, subresource, verb;
};
// What a manifest grants in its ClusterRoles (etc/kubernetes/controller.yaml).
Result<std::vector<Right>> granted_rights(std::string_view manifest);
// The manifest that this program was built with.
std::string_view controller_manifest();

struct KubeFacts {
    std::string problem;  // why the API server could not be asked
    std::string version;  // "v1.31.2"
    int minor = 0;
    std::vector<std::pair<Right, bool>> rights;  // allowed?
    std::string rights_problem;
    std::optional<LeaseRecord> lease;  // of the controllers
    std::string lease_problem;         // why it could not be read; neither: it was not asked for
    std::optional<bool> pod_group_crd, flow_schema, admission_policy;  // nothing: could not be looked at, or the server is too old
};
void check_kubernetes(const KubeFacts &facts, Findings &out);

// --- nodes and clocks

void check_nodes(const std::vector<NodePair> &pairs, const Config *config, Findings &out);
// Differences to this host's clock; nothing: not known.
void check_clocks(std::optional<std::int64_t> api_server, std::optional<std::int64_t> slurmctld, Findings &out);

}  // namespace berth::tool
