// Kubernetes: version, rights, what should be installed there; and the nodes of both systems.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "agent/slurm/client.h"
#include "agent/tool/moments.h"
#include "agent/tool/site_checks.h"
#include "agent/yaml.h"

namespace berth::tool {

namespace {

constexpr int flow_schema_minor = 29, admission_policy_minor = 30;
constexpr std::int64_t skew_noticed = 5, skew_harmful = 60;  // seconds
constexpr std::int64_t mebibyte = 1024 * 1024;

std::string text_of(const Right &right) {
    return fmt::format("{} {}{}{}{}{}", right.verb, right.resource, right.subresource.empty() ? "" : "/", right.subresource,
                       right.group.empty() ? "" : " in ", right.group);
}

void check_installed(Section &section, const char *check, const std::optional<bool> &there, std::string_view what, std::string_view without,
                     std::string_view file) {
    if (!there)
        return;
    if (*there)
        section.ok(check, fmt::format("{} is there", what));
    else
        section.warn(check, fmt::format("{} is not there: {}", what, without), fmt::format("kubectl apply -f {}", file));
}

// Node names that share a finding, as one hostlist.
class Group {
  public:
    void add(const std::string &name) { names_.push_back(name); }
    bool empty() const { return names_.empty(); }
    std::string text() const { return slurm::compress_hosts(names_); }

  private:
    std::vector<std::string> names_;
};

bool for_control_plane(const kube::Node &node) {
    return std::any_of(node.labels.begin(), node.labels.end(), [](const auto &label) {
        return label.first == "node-role.kubernetes.io/control-plane" || label.first == "node-role.kubernetes.io/master";
    });
}

}  // namespace

std::string_view controller_manifest() {
    static constexpr std::string_view text =
#include "agent/tool/controller_manifest.inc"
        ;
    return text;
}

Result<std::vector<Right>> granted_rights(std::string_view manifest) {
    std::vector<Right> rights;
    for (std::size_t at = 0; at < manifest.size();) {
        const std::size_t end = std::min(manifest.find("\n---\n", at), manifest.size());
        const auto document = yaml::parse(manifest.substr(at, end - at), "controller.yaml");
        if (!document)
            return Error{document.error()};
        at = end + 5;
        const yaml::Node *kind = document->find("kind"), *rules = document->find("rules");
        if (kind == nullptr || kind->text() != "ClusterRole" || rules == nullptr)
            continue;
        for (const yaml::Node &rule : rules->children()) {
            std::vector<std::string> lists[3];
            const char *const keys[] = {"apiGroups", "resources", "verbs"};
            for (int i = 0; i < 3; ++i) {
                const yaml::Node *list = rule.find(keys[i]);
                auto words = list != nullptr ? list->as_strings()
                                             : Result<std::vector<std::string>>(rule.error("lacks apiGroups, resources or verbs"));
                if (!words)
                    return Error{words.error()};
                lists[i] = std::move(*words);
            }
            for (const std::string &group : lists[0])
                for (const std::string &resource : lists[1])
                    for (const std::string &verb : lists[2]) {
                        const std::size_t slash = resource.find('/');
                        rights.push_back(
                            {group, resource.substr(0, slash), slash == std::string::npos ? "" : resource.substr(slash + 1), verb});
                    }
        }
    }
    return rights;
}

void check_kubernetes(const KubeFacts &facts, Findings &out) {
    Section section("Kubernetes", out);
    if (!facts.problem.empty())
        return section.problem("api_server", fmt::format("the API server cannot be asked: {}", facts.problem),
                               "Check clusters[].kubeconfig in berth.yaml, and --kubeconfig or $KUBECONFIG.");
    section.ok("api_server", fmt::format("the API server answers, version {}", facts.version));
    if (!facts.rights_problem.empty()) {
        section.warn("rights", fmt::format("the controller's rights were not checked: {}", facts.rights_problem),
                     "Run berth doctor as root or SlurmUser on slurmctld's host.");
    } else if (!facts.rights.empty()) {
        std::vector<std::string> missing;
        for (const auto &[right, allowed] : facts.rights)
            if (!allowed)
                missing.push_back(text_of(right));
        if (missing.empty())
            section.ok("rights", fmt::format("the controller has its {} rights", facts.rights.size()));
        else
            section.problem(
                "rights", fmt::format("the controller may not: {}", fmt::join(missing, ", ")),
                "kubectl apply -f controller.yaml, and see that its ClusterRoleBinding names the identity in clusters[].kubeconfig.");
    }
    if (facts.lease && !facts.lease->holder.empty())
        section.ok("leader", fmt::format("{} leads the controllers, since {}; last renewed {}", facts.lease->holder, facts.lease->acquired,
                                         facts.lease->renewed));
    else if (facts.lease)
        section.problem("leader", "no controller leads: the last one stopped and let the lease go",
                        "Start berthd --controller on slurmctld's host.");
    else if (!facts.lease_problem.empty())
        section.problem("leader", fmt::format("who leads the controllers cannot be read: {}", facts.lease_problem),
                        "kubectl apply -f controller.yaml, and start berthd --controller on slurmctld's host.");
    check_installed(section, "pod_group_crd", facts.pod_group_crd, "the API scheduling.x-k8s.io (PodGroup)", "users cannot make PodGroups",
                    "podgroup-crd.yaml");
    if (facts.minor >= flow_schema_minor)
        check_installed(section, "flow_schema", facts.flow_schema, "the FlowSchema berth",
                        "a busy API server may let Berth wait behind others", "flowschema.yaml");
    if (facts.minor >= admission_policy_minor)
        check_installed(section, "admission_policy", facts.admission_policy, "the ValidatingAdmissionPolicy berth-node-binding",
                        "a node's identity may bind pods to other nodes than its own", "admission-policy.yaml");
}

void check_nodes(const std::vector<NodePair> &pairs, const Config *config, Findings &out) {
    Section section("Nodes", out);
    const std::string taint_key = (config != nullptr ? config->defaults : DefaultsConfig()).managed_taint;
    Group slurm_only, kube_only, no_taint, not_ready, cordoned;
    std::size_t both = 0;
    for (const NodePair &pair : pairs) {
        const auto tainted = [&taint_key, &pair] {
            return std::any_of(pair.kube->taints.begin(), pair.kube->taints.end(),
                               [&taint_key](const kube::Taint &taint) { return taint.key == taint_key; });
        };
        if (pair.kube == nullptr) {
            slurm_only.add(pair.slurm->name);
            continue;
        }
        if (pair.slurm == nullptr) {
            if (!taint_key.empty() && tainted())
                section.problem("pairs",
                                fmt::format("Kubernetes node {} has the taint {}, but Slurm has no such node: nothing can be placed there",
                                            pair.kube->name, taint_key),
                                "Remove the taint, or name its Slurm node with the label slinky.slurm.net/slurm-nodename.");
            else if (!for_control_plane(*pair.kube))
                kube_only.add(pair.kube->name);
            continue;
        }
        ++both;
        const std::int64_t cpus = pair.kube->cpu_milli, memory = pair.kube->memory_bytes;
        if (cpus != 0 && cpus < std::int64_t{pair.slurm->cpus} * 1000)
            section.problem("capacity",
                            fmt::format("node {}: Slurm gives out {} CPUs, the kubelet has {:.1f}: it will refuse pods (OutOfcpu)",
                                        pair.slurm->name, pair.slurm->cpus, static_cast<double>(cpus) / 1000),
                            "Lower CPUs, or raise CoreSpecCount, of this node in slurm.conf.");
        if (memory != 0 && memory < static_cast<std::int64_t>(pair.slurm->memory_mib) * mebibyte)
            section.problem("capacity",
                            fmt::format("node {}: Slurm gives out {} MiB, the kubelet has {} MiB: it will refuse pods (OutOfmemory)",
                                        pair.slurm->name, pair.slurm->memory_mib, memory / mebibyte),
                            "Lower RealMemory, or raise MemSpecLimit, of this node in slurm.conf.");
        if (!taint_key.empty() && !tainted())
            no_taint.add(pair.kube->name);
        if (!pair.kube->ready && pair.slurm->usable)
            not_ready.add(pair.slurm->name);
        if (pair.kube->unschedulable && pair.slurm->usable)
            cordoned.add(pair.slurm->name);
    }
    if (both == 0)
        section.problem("pairs", "no node is in both systems: no pod can be placed",
                        "Join Slurm's nodes to Kubernetes under the same names; docs/admin.md, \"Kubernetes\".");
    else
        section.ok("pairs", fmt::format("{} {} in both systems", both, both == 1 ? "node is" : "nodes are"));
    if (!slurm_only.empty())
        section.warn("pairs", fmt::format("in Slurm but not in Kubernetes: {}; they never get a pod", slurm_only.text()),
                     "Nothing, if that is meant. Else join them, or set the label slinky.slurm.net/slurm-nodename where the names differ.");
    if (!kube_only.empty())
        section.warn("pairs", fmt::format("in Kubernetes but not in Slurm: {}; they never get a pod of Berth", kube_only.text()),
                     "Nothing, if that is meant. Else set the label slinky.slurm.net/slurm-nodename where the names differ.");
    if (!no_taint.empty())
        section.warn("taint",
                     fmt::format("without the taint {}: {}; other schedulers may put pods there of which Slurm does not know", taint_key,
                                 no_taint.text()),
                     fmt::format("kubectl taint node NAME {}=slurm:NoSchedule", taint_key));
    if (!not_ready.empty())
        section.problem(
            "ready", fmt::format("not Ready in Kubernetes, but Slurm uses them: {}; pods that Slurm places there wait", not_ready.text()),
            "Look at the kubelets there, and drain the nodes in Slurm until they are back.");
    if (!cordoned.empty())
        section.warn("cordoned",
                     fmt::format("cordoned in Kubernetes, but Slurm uses them: {}; pods that Slurm places there wait", cordoned.text()),
                     "kubectl uncordon them, or drain them in Slurm.");
}

void check_clocks(std::optional<std::int64_t> api_server, std::optional<std::int64_t> slurmctld, Findings &out) {
    Section section("Clocks", out);
    const auto compare = [&section](const char *check, const char *who, std::optional<std::int64_t> skew) {
        if (!skew)
            return;
        const std::int64_t size = std::abs(*skew);
        const std::string text =
            fmt::format("{}'s clock is {} {} this host's", who, duration_words(size), *skew < 0 ? "behind" : "ahead of");
        const std::string advice = "Let all hosts follow one time server (chrony, ntpd).";
        if (size <= skew_noticed)
            section.ok(check, fmt::format("{}'s clock agrees with this host's", who));
        else if (size < skew_harmful)
            section.warn(check, text, advice);
        else
            section.problem(check, text + ": credentials and time limits go wrong", advice);
    };
    compare("api_server_clock", "the API server", api_server);
    compare("slurmctld_clock", "slurmctld", slurmctld);
}

}  // namespace berth::tool
