// What each side's state of one node asks of the other. Pure: the controller's NodeMirror gives the facts and carries the answer out.
//
// Each side has causes of its own: Slurm drained, failed, is down or under maintenance; Kubernetes has cordoned, is not ready, lacks disk,
// memory or processes, or lost the node. A cause on one side has an effect on the other, and goes with it:
//
//   Slurm's cause       -> the Kubernetes node is cordoned, and the annotation berth.dev/cordoned says why
//   Kubernetes' cause   -> the Slurm node is drained, with a reason that begins with "berth: kubernetes"
//
// 1. An effect is no cause: a drain with that reason cordons nothing, and a cordon with that annotation drains nothing.
// 2. Only our own effect is undone: a drain only while the reason is ours, a cordon only while the annotation stands. So the mark is the
//    claim: who gives the drain another reason, or removes the annotation, takes the node over.
// 3. What is off already is left alone: no reason is overwritten, and no annotation is put on somebody's cordon. When that one ends and
//    the other side's cause still stands, the effect comes then.
// 4. A person who uncordons what we cordoned (the annotation stays) is not overruled while Slurm's cause lasts. In Slurm a resume leaves no
//    trace: the drain is renewed while Kubernetes' cause lasts, and its reason says what to end.
// 5. A deleted node drains once. Nothing tells it from a node that Kubernetes never had, so a resume by a person stays.
//
// All of it is read from both sides: whoever starts anew comes to the same answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace berth {

struct SlurmNode {
    std::string name;
    bool drain = false;  // draining or drained
    bool down = false, fail = false;
    bool maint = false;   // in a maintenance reservation that has begun
    bool asleep = false;  // Slurm has powered it down, wakes it or reboots it: that Kubernetes misses it is no news
    std::string reason{};

    bool operator==(const SlurmNode &) const = default;
};

struct KubeNode {
    bool cordoned = false;
    std::optional<std::string> cordoned_for;  // berth.dev/cordoned: we cordoned it
    std::optional<std::string> marked_for;    // berth.dev/slurm-state
    bool ready = true;
    bool patience_over = false;  // of not being ready
    std::string ready_message;
    std::vector<std::pair<std::string, std::string>> pressures;  // "DiskPressure" and its message
};

// "nodes.on_slurm_drain".
enum class OnSlurmDrain : std::uint8_t { cordon, mark, nothing };

struct MirrorPolicy {
    OnSlurmDrain on_slurm_drain = OnSlurmDrain::cordon;
    bool drain_in_slurm = true;  // "nodes.on_kubernetes_trouble: drain"
};

// What to do; all empty: the two agree.
struct MirrorSteps {
    std::string drain;    // the reason to drain with in Slurm; empty: no drain
    bool resume = false;  // end our drain in Slurm
    std::optional<bool> cordon;  // set spec.unschedulable so
    // Annotations to write; an inner nothing removes.
    std::optional<std::optional<std::string>> cordoned_for, marked_for;

    bool changes_kubernetes() const { return cordon || cordoned_for || marked_for; }
    bool empty() const { return drain.empty() && !resume && !changes_kubernetes(); }
    bool operator==(const MirrorSteps &) const = default;
};

// `slurm` null: Slurm has no such node (any more). `kube` null: Kubernetes has none; `deleted` says that it was seen to go.
MirrorSteps mirror(const SlurmNode *slurm, const KubeNode *kube, bool deleted, std::string_view kube_name, const MirrorPolicy &policy);

// Whether a drain's reason is the mirror's. Epilog and gate drain with "berth: pod ...", which only a person undoes.
bool is_mirror_reason(std::string_view reason);
// "DRAIN: disk is broken", "DOWN+DRAIN: Not responding", "MAINT"; "" when Slurm would use the node, or does not because of us alone.
std::string slurm_cause(const SlurmNode &node);

}  // namespace berth
