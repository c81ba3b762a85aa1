#include "agent/controller/node_mirror.h"

#include <fmt/format.h>

#include <utility>

#include "agent/controller/managed_taint.h"
#include "agent/keys.h"
#include "agent/log.h"
#include "agent/metrics.h"
#include "agent/slurm/nodes.h"

namespace berth {

namespace {

constexpr std::chrono::seconds retry_delay{10};

std::optional<std::string> annotation(const kube::Node &node, const char *key) {
    for (const auto &[name, value] : node.annotations)
        if (name == key)
            return value;
    return std::nullopt;
}

}  // namespace

NodeMirror::NodeMirror(Loop &loop, kube::Api &api, Workers &workers, SiteNodes &nodes, const NodesConfig &config, std::string taint,
                       std::function<void()> look)
    : loop_(loop), api_(api), workers_(workers), nodes_(nodes), config_(config), taint_(std::move(taint)), look_(std::move(look)) {}

void NodeMirror::node_changed(const std::string &kube_name) {
    const kube::Node &node = *nodes_.kube(kube_name);
    KubeSide &side = kube_[kube_name];
    if (node.resource_version != side.writing)
        side.writing.clear();
    if (node.ready) {
        side.not_ready_since.reset();
        side.patience.reset();
    } else if (!side.not_ready_since) {
        be_patient(kube_name);
    }
    const std::string slurm_name = nodes_.names().slurm_of(kube_name);
    if (const auto known = slurm_.find(slurm_name); known != slurm_.end())
        known->second.deleted.clear();
    settle(slurm_name, kube_name);
}

void NodeMirror::be_patient(const std::string &kube_name) {
    KubeSide &side = kube_[kube_name];
    side.not_ready_since = loop_.now();
    side.patience = loop_.after(config_.not_ready_patience, [this, kube_name] {
        const SourcePtr fired = std::move(kube_[kube_name].patience);
        settle(nodes_.names().slurm_of(kube_name), kube_name);
    });
}

void NodeMirror::node_removed(const std::string &kube_name, const std::string &slurm_name) {
    kube_.erase(kube_name);
    if (slurm_name.empty())
        return;
    slurm_[slurm_name].deleted = kube_name;
    ++slurm_[slurm_name].deletions;
    settle(slurm_name, "");
}

void NodeMirror::slurm_looked(std::chrono::steady_clock::time_point began, bool changed) {
    for (auto &[name, side] : slurm_)
        if (side.writing && side.written <= began) {
            side.writing = false;
            changed = true;
        }
    if (changed)
        settle_all();
}

void NodeMirror::settle_all() {
    if (!nodes_.known())
        return;
    for (const auto &[name, node] : nodes_.all_kube())
        settle(nodes_.names().slurm_of(name), name);
    for (auto at = slurm_.begin(); at != slurm_.end();) {
        const auto here = at++;
        if (!here->second.deleted.empty())
            settle(here->first, "");
        else if (!here->second.writing && !here->second.retry)
            slurm_.erase(here);
    }
}

KubeNode NodeMirror::view(const kube::Node &node) {
    KubeNode out;
    out.cordoned = node.unschedulable;
    out.cordoned_for = annotation(node, keys::cordoned);
    out.marked_for = annotation(node, keys::slurm_state);
    out.ready = node.ready;
    out.ready_message = node.ready_message;
    out.pressures = node.pressures;
    const KubeSide &side = kube_[node.name];
    out.patience_over = side.not_ready_since && loop_.now() - *side.not_ready_since >= config_.not_ready_patience;
    return out;
}

// Either name may be empty, not both.
void NodeMirror::settle(const std::string &slurm_name, const std::string &kube_name) {
    if (!nodes_.known())
        return;
    const SlurmNode *slurm = nodes_.slurm(slurm_name);
    const kube::Node *node = nodes_.kube(kube_name);
    // A node that Slurm has just woken or rebooted has its patience anew.
    if (node != nullptr && slurm != nullptr && std::exchange(kube_[kube_name].asleep, slurm->asleep) && !slurm->asleep &&
        kube_[kube_name].not_ready_since)
        be_patient(kube_name);
    std::optional<KubeNode> kube;
    if (node != nullptr)
        kube = view(*node);
    const auto known = slurm_.find(slurm_name);
    const std::string gone = known != slurm_.end() && node == nullptr ? known->second.deleted : "";
    const MirrorSteps steps = mirror(slurm, kube ? &*kube : nullptr, !gone.empty(), gone.empty() ? kube_name : gone, config_.mirror);
    if (!gone.empty() && steps.drain.empty())
        known->second.deleted.clear();
    if (!steps.drain.empty() || steps.resume)
        write_slurm(slurm_name, gone.empty() ? kube_name : gone, steps);
    if (node == nullptr)
        return;
    kube::NodeChange change;
    change.unschedulable = steps.cordon;
    if (steps.cordoned_for)
        change.annotations.emplace_back(keys::cordoned, *steps.cordoned_for);
    if (steps.marked_for)
        change.annotations.emplace_back(keys::slurm_state, *steps.marked_for);
    manage_taint(*node, slurm != nullptr ? taint_ : "", change);
    if (!change.empty())
        write_kube(*node, steps, change);
}

void NodeMirror::write_kube(const kube::Node &node, const MirrorSteps &steps, const kube::NodeChange &change) {
    KubeSide &side = kube_[node.name];
    if (!side.writing.empty() || side.retry)
        return;
    side.writing = node.resource_version;
    const std::string why = steps.cordoned_for ? steps.cordoned_for->value_or("") : "";
    api_.patch_node(node, change,
                    [this, alive = std::weak_ptr<bool>(alive_), name = node.name, version = node.resource_version, cordon = steps.cordon, why,
                     tainted = change.taints.has_value()](const kube::Response &response) {
                        if (!alive.lock())
                            return;
                        if (response.ok()) {
                            if (cordon == true)
                                tell(name, "Warning", "SlurmDrained", "Cordoning", "cordoned, because Slurm says " + why);
                            else if (cordon == false)
                                tell(name, "Normal", "SlurmResumed", "Uncordoning", "uncordoned, because Slurm uses the node again");
                            if (tainted)
                                log::info("Kubernetes node {}: its taint for nodes of Slurm's is set right", name);
                            return;  // the watch shows it
                        }
                        const auto now = kube_.find(name);
                        if (now == kube_.end() || now->second.writing != version)
                            return;
                        if (response.status == 409)
                            return;  // somebody was faster: the watch shows that, too
                        log::warning("changing Kubernetes node {}: {}; trying again", name, response.error);
                        now->second.writing.clear();
                        now->second.retry = loop_.after(retry_delay, [this, name] {
                            const SourcePtr fired = std::move(kube_[name].retry);
                            settle(nodes_.names().slurm_of(name), name);
                        });
                    });
}

void NodeMirror::write_slurm(const std::string &slurm_name, const std::string &kube_name, const MirrorSteps &steps) {
    SlurmSide &side = slurm_[slurm_name];
    if (side.writing || side.retry)
        return;
    side.writing = true;
    side.written = std::chrono::steady_clock::time_point::max();
    const auto call = [slurm_name, reason = steps.drain] {
        return reason.empty() ? slurm::resume_node(slurm_name) : slurm::drain_node(slurm_name, reason);
    };
    workers_.submit(call, [this, slurm_name, kube_name, reason = steps.drain, deletions = side.deletions](const Result<bool> &done) {
        SlurmSide &now = slurm_[slurm_name];
        if (done) {
            now.written = loop_.now();
            if (now.deletions == deletions)  // else it was deleted again meanwhile, which this was not about
                now.deleted.clear();
            if (!*done)
                log::debug("Slurm node {} is somebody else's by now", slurm_name);
            else if (reason.empty())
                tell(kube_name, "Normal", "ResumedInSlurm", "Resuming", fmt::format("Slurm node {} is resumed", slurm_name));
            else {
                metrics::drained(metrics::Drain::kubernetes);
                tell(kube_name, "Warning", "DrainedInSlurm", "Draining", fmt::format("Slurm node {} is drained: {}", slurm_name, reason));
            }
            return look_();
        }
        log::warning("{}; trying again", done.error());
        now.writing = false;
        now.retry = loop_.after(retry_delay, [this, slurm_name] {
            const SourcePtr fired = std::move(slurm_[slurm_name].retry);
            settle(slurm_name, nodes_.names().kube_of(slurm_name));
        });
    });
}

void NodeMirror::tell(const std::string &kube_name, const char *type, const char *reason, const char *action, const std::string &message) {
    log::info("node {}: {}", kube_name, message);
    if (const kube::Node *node = nodes_.kube(kube_name))
        api_.post_node_event(*node, {type, reason, action, message});
}

}  // namespace berth
