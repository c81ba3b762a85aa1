#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>

#include "agent/keys.h"
#include "agent/kube/json_text.h"
#include "agent/kube/pod_resources.h"
#include "agent/kube/record_decode.h"

namespace berth::kube {

namespace {

using simdjson::SUCCESS;

constexpr std::string_view our_prefixes[] = {"slurmjob.slinky.slurm.net/", "slinky.slurm.net/",
                                             "scheduler.slinky.slurm.net/", "berth.dev/"};
// Of workload kinds, without what they say twice: a Job has two names for its name and uid, and a JobSet repeats a dozen of its
// labels as annotations of each of its pods.
constexpr std::string_view completion_index = "batch.kubernetes.io/job-completion-index";
constexpr std::string_view label_prefixes[] = {"jobset.sigs.k8s.io/", "leaderworkerset.sigs.k8s.io/", "scheduling.x-k8s.io/"};
constexpr std::string_view labels[] = {"job-name", "controller-uid", completion_index};
constexpr std::string_view annotation_prefixes[] = {"scheduling.x-k8s.io/"};
constexpr std::string_view annotations[] = {"leaderworkerset.sigs.k8s.io/size"};

template <class List>
bool any_begins(const List &prefixes, std::string_view key) {
    return std::any_of(std::begin(prefixes), std::end(prefixes),
                       [&](std::string_view prefix) { return key.starts_with(prefix); });
}

template <class List>
bool any_is(const List &keys, std::string_view key) {
    return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

// Sorted, and no larger than it must be: tens of thousands of pods are kept.
template <class Wanted>
KeyValues pick(Json from, std::string_view key, Wanted wanted) {
    KeyValues out;
    Json map;
    if (from[key].get(map) != SUCCESS)
        return out;
    std::size_t count = 0;
    for (const auto field : map)
        count += wanted(field.key) ? 1 : 0;
    out.reserve(count);
    for (const auto field : map) {
        std::string_view value;
        if (wanted(field.key) && field.value.get(value) == SUCCESS)
            out.emplace_back(field.key, value);
    }
    std::sort(out.begin(), out.end());
    return out;
}

Phase phase_of(std::string_view name) {
    if (name.empty() || name == "Pending")
        return Phase::pending;
    if (name == "Running")
        return Phase::running;
    if (name == "Succeeded")
        return Phase::succeeded;
    return name == "Failed" ? Phase::failed : Phase::unknown;
}

int small(std::int64_t value) {
    return static_cast<int>(
        std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

// The first container that failed, by the time it ended. Times are RFC 3339 in UTC, so their texts sort as they do;
// a container without one comes last.
class FirstFailure {
  public:
    void look_at(Json status) {
        Json state, ended;
        if (status["state"].get(state) != SUCCESS || state["terminated"].get(ended) != SUCCESS)
            return;
        any_ended_ = true;
        const int code = small(number(ended, "exitCode")), signal = small(number(ended, "signal"));
        const std::string_view at = text(ended, "finishedAt");
        if ((code == 0 && signal == 0) || (found_ && (at.empty() || (!at_.empty() && at_ <= at))))
            return;
        found_ = true;
        at_ = at;
        code_ = code;
        reason_ = text(ended, "reason");
        signal_ = reason_ == "OOMKilled" ? 9 : signal;
    }

    void put_into(Pod &pod, std::string_view pod_reason) const {
        pod.exit_known = any_ended_ || pod.terminal();
        if (found_ && pod.phase != Phase::succeeded) {
            pod.exit_code = code_;
            pod.exit_signal = signal_;
            pod.exit_reason = reason_;
        } else if (pod.phase == Phase::failed) {
            pod.exit_code = 1;
        }
        // Evicted, DeadlineExceeded and the like say more than the "Error" of a container that was killed for it.
        if (pod.phase == Phase::failed && !pod_reason.empty())
            pod.exit_reason = pod_reason;
    }

  private:
    bool any_ended_ = false, found_ = false;
    int code_ = 0, signal_ = 0;
    std::string_view at_, reason_;
};

void read_claims(Json spec, Pod &pod) {
    each(spec, "volumes", [&](Json volume) {
        inside(volume, "persistentVolumeClaim", [&](Json claim) { pod.claims.emplace_back(text(claim, "claimName")); });
        // A generic ephemeral volume has a claim that is named after the pod.
        inside(volume, "ephemeral", [&](Json) { pod.claims.push_back(fmt::format("{}-{}", pod.name, text(volume, "name"))); });
    });
    pod.claims.shrink_to_fit();
}

void read_spec(Json spec, Pod &pod) {
    pod.scheduler_name = text(spec, "schedulerName");
    pod.node_name = text(spec, "nodeName");
    pod.service_account = text(spec, "serviceAccountName");
    pod.priority_class = text(spec, "priorityClassName");
    pod.priority = number(spec, "priority");
    inside(spec, "schedulingGroup", [&](Json group) { pod.scheduling_group = text(group, "podGroupName"); });
    pod.grace_seconds = std::max<std::int64_t>(0, number(spec, "terminationGracePeriodSeconds", 30));
    pod.active_deadline_seconds = std::max<std::int64_t>(0, number(spec, "activeDeadlineSeconds"));
    pod.gated = has_items(spec, "schedulingGates");
    pod.placement = read_placement(spec);
    read_claims(spec, pod);
    auto need = pod_resources(spec, Counted::larger);
    if (need)
        pod.need = std::move(*need);
    else
        pod.problem = need.error();
    // Few pods have limits above their requests, and tens of thousands are kept.
    if (auto requests = pod_resources(spec, Counted::requests); requests && *requests != pod.need)
        pod.requests = std::make_shared<const Resources>(std::move(*requests));
    pod.memory_limited = memory_limited(spec);
    pod.memory_open = memory_open(spec);
}

void read_status(Json status, Json spec, bool has_spec, Pod &pod) {
    pod.phase = phase_of(text(status, "phase"));
    each(status, "conditions", [&](Json condition) {
        const std::string_view type = text(condition, "type");
        const bool holds = text(condition, "status") == "True";
        if (type == keys::suspended)
            pod.suspended = holds;
        if (type == keys::ending && holds) {
            pod.ending_reason = text(condition, "reason");
            pod.ending_message = text(condition, "message");
        }
        if (type != "PodScheduled")
            return;
        pod.scheduled_status = text(condition, "status");
        pod.scheduled_reason = text(condition, "reason");
        pod.scheduled_message = text(condition, "message");
    });
    // Sidecars are ended by force when the rest is done: how they end says nothing about the pod.
    std::vector<std::string_view> sidecars;
    if (has_spec)
        each(spec, "initContainers", [&](Json container) {
            if (is_sidecar(container))
                sidecars.push_back(text(container, "name"));
        });
    FirstFailure failure;
    each(status, "initContainerStatuses", [&](Json container) {
        if (std::find(sidecars.begin(), sidecars.end(), text(container, "name")) == sidecars.end())
            failure.look_at(container);
    });
    each(status, "containerStatuses", [&](Json container) { failure.look_at(container); });
    failure.put_into(pod, text(status, "reason"));
}

}  // namespace

OwnerRef read_owner(Json metadata) {
    OwnerRef out;
    each(metadata, "ownerReferences", [&](Json owner) {
        if (flag(owner, "controller"))
            out = {std::string(text(owner, "apiVersion")), std::string(text(owner, "kind")), std::string(text(owner, "name")),
                   std::string(text(owner, "uid"))};
    });
    return out;
}

KeyValues read_annotations(Json metadata) {
    bool has_index = false;
    inside(metadata, "labels", [&](Json map) { has_index = !text(map, completion_index).empty(); });
    return pick(metadata, "annotations", [&](std::string_view key) {
        return any_begins(our_prefixes, key) || any_begins(annotation_prefixes, key) || any_is(annotations, key) ||
               (key == completion_index && !has_index);
    });
}

KeyValues read_labels(Json metadata) {
    return pick(metadata, "labels", [](std::string_view key) {
        return any_begins(our_prefixes, key) || any_begins(label_prefixes, key) || any_is(labels, key);
    });
}

KeyValues read_all(Json from, std::string_view key) {
    return pick(from, key, [](std::string_view) { return true; });
}

std::int64_t read_time(std::string_view rfc3339) {
    std::tm tm{};
    const std::string copy(rfc3339.substr(0, 40));
    // The API writes UTC, "2026-01-31T12:00:00Z", sometimes with a fraction.
    if (std::sscanf(copy.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
                    &tm.tm_sec) != 6)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return timegm(&tm);
}

Result<void> read(Json from, Pod &pod) {
    Json metadata, spec, status;
    if (from["metadata"].get(metadata) != SUCCESS)
        return Error{"a pod without metadata"};
    pod.ns = text(metadata, "namespace");
    pod.name = text(metadata, "name");
    pod.uid = text(metadata, "uid");
    pod.resource_version = text(metadata, "resourceVersion");
    if (pod.name.empty() || pod.uid.empty() || pod.ns.empty())
        return Error{
            fmt::format("a pod without namespace, name or uid ('{}/{}')", for_log(pod.ns, 80), for_log(pod.name, 80))};
    pod.deleting = !text(metadata, "deletionTimestamp").empty();
    pod.annotations = read_annotations(metadata);
    pod.labels = read_labels(metadata);
    pod.owner = read_owner(metadata);
    pod.created = read_time(text(metadata, "creationTimestamp"));
    const bool has_spec = from["spec"].get(spec) == SUCCESS;
    if (has_spec)
        read_spec(spec, pod);
    if (from["status"].get(status) == SUCCESS)
        read_status(status, spec, has_spec, pod);
    return {};
}

}  // namespace berth::kube
