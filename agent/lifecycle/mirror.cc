#include "agent/lifecycle/mirror.h"

#include <fmt/core.h>

#include <algorithm>

namespace berth {

namespace {

constexpr std::string_view reason_prefix = "berth: kubernetes node ";
constexpr std::size_t longest_detail = 200;

std::string reason_of(std::string_view node, std::string_view what, std::string_view detail) {
    std::string text(detail.substr(0, longest_detail));
    while (detail.size() > longest_detail && !text.empty() && static_cast<unsigned char>(text.back()) >= 0x80)
        text.pop_back();  // half a character
    // sinfo and scontrol show a reason on one line.
    std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }, ' ');
    return fmt::format("{}{} {}{}", reason_prefix, node, what, text.empty() ? "" : " (" + text + ")");
}

// Without the detail, which may change with every heartbeat.
std::string_view gist(std::string_view reason) { return reason.substr(0, reason.find(" (")); }

// Reasons to drain, the gravest first. Once drained, a node has no more patience with itself: it comes back when it is ready.
std::vector<std::string> kubernetes_causes(const SlurmNode &slurm, const KubeNode &kube, std::string_view name) {
    std::vector<std::string> out;
    const bool patient = !kube.patience_over && !(slurm.drain && is_mirror_reason(slurm.reason));
    if (!kube.ready && !slurm.asleep && !patient)
        out.push_back(reason_of(name, "is NotReady", kube.ready_message));
    for (const auto &[type, message] : kube.pressures)
        out.push_back(reason_of(name, "has " + type, message));
    if (kube.cordoned && !kube.cordoned_for)
        out.push_back(reason_of(name, "is cordoned", ""));
    return out;
}

void mirror_to_slurm(const SlurmNode &slurm, const KubeNode *kube, bool deleted, std::string_view name, const MirrorPolicy &policy,
                     MirrorSteps &steps) {
    const bool ours = slurm.drain && is_mirror_reason(slurm.reason);
    const bool available = !slurm.drain && !slurm.down && !slurm.fail;
    if (kube == nullptr) {
        if (!policy.drain_in_slurm)
            steps.resume = ours;
        else if (deleted && (available || ours) && !slurm.asleep)
            steps.drain = reason_of(name, "is deleted", "");
        return;
    }
    std::vector<std::string> causes;
    if (policy.drain_in_slurm)
        causes = kubernetes_causes(slurm, *kube, name);
    if (causes.empty()) {
        steps.resume = ours;
        return;
    }
    const bool still_true = std::any_of(causes.begin(), causes.end(), [&](const auto &cause) { return gist(cause) == gist(slurm.reason); });
    if (available || (ours && !still_true))
        steps.drain = causes.front();
}

void mirror_to_kubernetes(const std::string &cause, const KubeNode &kube, const MirrorPolicy &policy, MirrorSteps &steps) {
    const bool cordon = !cause.empty() && policy.on_slurm_drain == OnSlurmDrain::cordon;
    const bool mark = !cause.empty() && policy.on_slurm_drain == OnSlurmDrain::mark;
    if (cordon && kube.cordoned_for) {
        if (kube.cordoned && *kube.cordoned_for != cause)
            steps.cordoned_for.emplace(cause);
    } else if (cordon && !kube.cordoned) {
        steps.cordon = true;
        steps.cordoned_for.emplace(cause);
    } else if (!cordon && kube.cordoned_for) {
        steps.cordoned_for.emplace(std::nullopt);
        if (kube.cordoned)
            steps.cordon = false;
    }
    if (mark && kube.marked_for != cause)
        steps.marked_for.emplace(cause);
    else if (!mark && kube.marked_for)
        steps.marked_for.emplace(std::nullopt);
}

}  // namespace

bool is_mirror_reason(std::string_view reason) { return reason.starts_with(reason_prefix); }

std::string slurm_cause(const SlurmNode &node) {
    const bool ours = is_mirror_reason(node.reason);
    std::string out;
    const auto add = [&out](bool is, std::string_view word) {
        if (is)
            out.append(out.empty() ? "" : "+").append(word);
    };
    add(node.down, "DOWN");
    add(node.fail, "FAIL");
    add(node.drain && !ours, "DRAIN");
    add(node.maint, "MAINT");
    if (!out.empty() && !ours && !node.reason.empty())
        out.append(": ").append(node.reason);
    return out;
}

MirrorSteps mirror(const SlurmNode *slurm, const KubeNode *kube, bool deleted, std::string_view kube_name, const MirrorPolicy &policy) {
    MirrorSteps steps;
    if (slurm != nullptr)
        mirror_to_slurm(*slurm, kube, deleted, kube_name, policy, steps);
    if (kube != nullptr)
        mirror_to_kubernetes(slurm != nullptr ? slurm_cause(*slurm) : "", *kube, policy, steps);
    return steps;
}

}  // namespace berth
