#include "agent/translate/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <set>

#include "agent/translate/annotations.h"
#include "agent/translate/hostlist.h"

namespace berth {
namespace {

using Op = kube::Requirement::Op;

// Taints by which Kubernetes tells of a passing state. The job waits in the queue for longer than those last, and the node's agent looks
// again before it binds.
constexpr std::array<std::string_view, 7> kPassingTaints = {
    "node.kubernetes.io/not-ready",       "node.kubernetes.io/unreachable",   "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/disk-pressure",   "node.kubernetes.io/memory-pressure", "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable"};

const std::string *find_label(const kube::KeyValues &labels, std::string_view key) {
    const auto at = std::lower_bound(labels.begin(), labels.end(), key,
                                     [](const auto &entry, std::string_view k) { return std::string_view(entry.first) < k; });
    return at != labels.end() && at->first == key ? &at->second : nullptr;
}

bool contains(const std::vector<std::string> &words, const std::string &word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool as_integer(const std::string &text, std::int64_t &value) {
    const char *end = text.data() + text.size();
    const auto [rest, code] = std::from_chars(text.data(), end, value);
    return code == std::errc() && rest == end && !text.empty();
}

// As Kubernetes has it: NotIn and DoesNotExist also hold where the label is not there at all.
bool holds(const kube::Requirement &r, const SiteNode &node) {
    const std::string *value = !r.field ? find_label(node.labels, r.key) : r.key == "metadata.name" ? &node.kube_name : nullptr;
    if (r.field && value == nullptr)
        return false;
    std::int64_t have = 0, bound = 0;
    switch (r.op) {
    case Op::in: return value != nullptr && contains(r.values, *value);
    case Op::not_in: return value == nullptr || !contains(r.values, *value);
    case Op::exists: return value != nullptr;
    case Op::does_not_exist: return value == nullptr;
    case Op::gt:
    case Op::lt:
        return value != nullptr && r.values.size() == 1 && as_integer(*value, have) && as_integer(r.values[0], bound) &&
               (r.op == Op::gt ? have > bound : have < bound);
    case Op::unknown: return false;
    }
    return false;
}

// A term without requirements matches no node.
bool holds(const kube::Term &term, const SiteNode &node) {
    return !term.empty() && std::all_of(term.begin(), term.end(), [&](const auto &r) { return holds(r, node); });
}

std::string words_of(const kube::Requirement &r) {
    const std::string values = shown(joined(r.values));
    const std::string key = shown(r.key);
    switch (r.op) {
    case Op::in: return fmt::format("{} In ({})", key, values);
    case Op::not_in: return fmt::format("{} NotIn ({})", key, values);
    case Op::exists: return fmt::format("{} Exists", key);
    case Op::does_not_exist: return fmt::format("{} DoesNotExist", key);
    case Op::gt: return fmt::format("{} Gt {}", key, values);
    case Op::lt: return fmt::format("{} Lt {}", key, values);
    case Op::unknown: break;
    }
    return fmt::format("{} with an operator that is not known here", key);
}

std::string words_of(const std::vector<kube::Term> &terms) {
    std::string out;
    for (const kube::Term &term : terms) {
        std::string all;
        for (const kube::Requirement &r : term)
            all += (all.empty() ? "" : " and ") + words_of(r);
        out += (out.empty() ? "" : ", or ") + (all.empty() ? "nothing" : all);
    }
    constexpr std::size_t longest = 200;
    if (out.size() > longest)
        out = out.substr(0, longest) + "...";
    return out.empty() ? "nothing that a node could have" : out;
}

bool tolerates(const kube::Toleration &t, const kube::Taint &taint) {
    if (!t.effect.empty() && t.effect != taint.effect)
        return false;
    if (t.op == "Exists")
        return t.key.empty() || t.key == taint.key;
    return (t.op.empty() || t.op == "Equal") && !t.key.empty() && t.key == taint.key && t.value == taint.value;
}

bool keeps_off(const kube::Taint &taint, const kube::Placement *placement, const Config &config) {
    if (taint.effect != "NoSchedule" && taint.effect != "NoExecute")
        return false;
    if (taint.key == config.defaults.managed_taint ||
        std::find(kPassingTaints.begin(), kPassingTaints.end(), taint.key) != kPassingTaints.end())
        return false;
    return placement == nullptr || std::none_of(placement->tolerations.begin(), placement->tolerations.end(),
                                                [&](const auto &t) { return tolerates(t, taint); });
}

std::string mismatch(const kube::Placement *placement, const SiteNode &node, const Config &config) {
    if (placement != nullptr) {
        for (const auto &[key, value] : placement->node_selector) {
            const std::string *have = find_label(node.labels, key);
            if (have == nullptr || *have != value)
                return fmt::format("its nodeSelector asks for {}={}", shown(key), shown(value));
        }
        if (placement->has_required && std::none_of(placement->required.begin(), placement->required.end(),
                                                    [&](const auto &term) { return holds(term, node); }))
            return fmt::format("its required node affinity asks for {}", words_of(placement->required));
    }
    for (const kube::Taint &taint : node.taints)
        if (keeps_off(taint, placement, config))
            return fmt::format("it does not tolerate the taint {}{}{}:{}", shown(taint.key), taint.value.empty() ? "" : "=",
                               shown(taint.value), taint.effect);
    return {};
}

// "2 because its nodeSelector asks for disk=ssd, 1 because ...": the commonest first.
std::string counted(const std::map<std::string, std::size_t> &reasons) {
    constexpr std::size_t most = 6;
    std::vector<std::pair<std::size_t, std::string>> sorted;
    for (const auto &[reason, count] : reasons)
        sorted.emplace_back(count, reason);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
    std::vector<std::string> words;
    for (std::size_t i = 0; i < sorted.size() && i < most; i++)
        words.push_back(fmt::format("{} because {}", sorted[i].first, sorted[i].second));
    if (sorted.size() > most)
        words.push_back(fmt::format("{} other reasons", sorted.size() - most));
    return joined(words);
}

// Pods of one template share one opinion, which is asked once.
std::vector<const kube::Pod *> with_placements_of_their_own(const std::vector<const kube::Pod *> &pods) {
    std::vector<const kube::Pod *> out;
    const auto same = [](const kube::Pod *a, const kube::Pod *b) {
        return a->placement == b->placement || (a->placement && b->placement && *a->placement == *b->placement);
    };
    for (const kube::Pod *pod : pods)
        if (std::none_of(out.begin(), out.end(), [&](const kube::Pod *known) { return same(known, pod); }))
            out.push_back(pod);
    return out;
}

// The values of a label that some node has.
std::set<std::string> known_values(std::string_view key, std::span<const SiteNode> nodes) {
    std::set<std::string> out;
    for (const SiteNode &node : nodes)
        if (const std::string *value = find_label(node.labels, key))
            out.insert(*value);
    return out;
}

}  // namespace

SiteNode make_site_node(const std::string &slurm_name, const kube::Node *kube) {
    SiteNode node;
    node.slurm_name = slurm_name;
    if (kube == nullptr)
        return node;
    node.in_kubernetes = true;
    node.kube_name = kube->name;
    node.labels = kube->labels;
    node.taints = kube->taints;
    node.unschedulable = kube->unschedulable;
    node.cpu_milli = kube->cpu_milli;
    node.memory_bytes = kube->memory_bytes;
    return node;
}

std::string mismatch(const kube::Pod &pod, const SiteNode &node, const Config &config) {
    return mismatch(pod.placement.get(), node, config);
}

Result<std::string> excluded_nodes(const std::vector<const kube::Pod *> &pods, const std::vector<std::string> &by_name,
                                   const Site &site) {
    if (site.nodes.empty())
        return compress_hostlist(by_name);
    const std::set<std::string> named(by_name.begin(), by_name.end());
    std::set<std::string> unknown = named;
    const std::vector<const kube::Pod *> opinions = with_placements_of_their_own(pods);
    std::vector<bool> suits(opinions.size(), false);  // some node, for each opinion by itself
    std::vector<std::string> excluded;
    std::map<std::string, std::size_t> reasons;
    for (const SiteNode &node : site.nodes) {
        unknown.erase(node.slurm_name);
        std::string reason;
        if (!node.in_kubernetes) {
            reason = "Kubernetes knows no such node";
        } else if (named.contains(node.slurm_name)) {
            reason = fmt::format("annotation {}exclude says so", kOwnPrefix);
        } else {
            for (std::size_t i = 0; i < opinions.size(); i++) {
                const std::string why = mismatch(*opinions[i], node, site.config);
                if (why.empty())
                    suits[i] = true;
                else if (reason.empty())
                    reason = why;
            }
        }
        if (reason.empty())
            continue;
        excluded.push_back(node.slurm_name);
        reasons[reason]++;
    }
    if (!unknown.empty())
        return Error{fmt::format("{} is refused, because Slurm has no such node; accepted are names of its nodes",
                                 annotation_words(kOwnPrefix, "exclude", compress_hostlist({unknown.begin(), unknown.end()})))};
    if (excluded.size() < site.nodes.size())
        return compress_hostlist(excluded);
    if (opinions.size() > 1 && std::all_of(suits.begin(), suits.end(), [](bool any) { return any; }))
        return Error{fmt::format("no node suits all of the {} pods that ask for the same size, though each alone would find one: their "
                                 "node selectors, affinities or tolerations differ, and Berth places pods of one size alike; give them "
                                 "the same",
                                 pods.size())};
    return Error{fmt::format("no node can take pod {}: of Slurm's {} nodes all are out, {}", pods.front()->full_name(), site.nodes.size(),
                             counted(reasons))};
}

std::string preferred_features(const kube::Pod &pod, const Site &site, std::vector<std::string> &notes) {
    if (!pod.placement)
        return {};
    const std::vector<FeatureConfig> &features = site.config.features;
    for (const auto &[weight, term] : pod.placement->preferred) {
        const bool simple = term.size() == 1 && !term[0].field && (term[0].op == Op::in || term[0].op == Op::exists);
        if (!simple || std::none_of(features.begin(), features.end(), [&wish = term](const auto &f) { return f.label == wish[0].key; })) {
            notes.push_back(fmt::format("the preferred node affinity for {} is ignored, because Slurm knows no feature for it",
                                        words_of(std::vector<kube::Term>{term})));
            continue;
        }
        // A feature that no node has would have Slurm refuse the job.
        const std::set<std::string> known = known_values(term[0].key, site.nodes);
        std::string out;
        const auto add = [&](const std::string &value) {
            if (is_safe_name(value))
                out += (out.empty() ? "" : "|") + value;
        };
        if (term[0].op == Op::exists) {
            std::for_each(known.begin(), known.end(), add);
        } else {
            for (const std::string &value : term[0].values)
                if (site.nodes.empty() || known.contains(value))
                    add(value);
        }
        if (!out.empty())
            return out;
    }
    return {};
}

}  // namespace berth
