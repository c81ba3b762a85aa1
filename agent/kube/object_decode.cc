#include <fmt/core.h>

#include <algorithm>

#include "agent/kube/json_text.h"
#include "agent/kube/pod_resources.h"
#include "agent/kube/record_decode.h"

namespace berth::kube {

namespace {

using simdjson::SUCCESS;

std::optional<std::int64_t> maybe_number(Json from, std::string_view key) {
    std::int64_t out;
    return from[key].get(out) == SUCCESS ? std::optional(out) : std::nullopt;
}

// How many pods a Job runs at once.
std::int64_t width(Json job_spec) {
    const std::int64_t parallelism = maybe_number(job_spec, "parallelism").value_or(1);
    return std::max<std::int64_t>(0, std::min(parallelism, maybe_number(job_spec, "completions").value_or(parallelism)));
}

// Calls fn with each condition of the whole object `root`.
template <class Fn>
void each_condition(Json root, Fn fn) {
    inside(root, "status", [&](Json status) { each(status, "conditions", fn); });
}

void read_end(Json root, std::string_view complete, Object &object) {
    each_condition(root, [&](Json condition) {
        const std::string_view type = text(condition, "type");
        if (text(condition, "status") != "True" || (type != complete && type != "Failed"))
            return;
        object.finished = true;
        object.failed = object.failed || type == "Failed";
    });
}

void read_job(Json spec, Json root, Object &object) {
    object.parallelism = maybe_number(spec, "parallelism");
    object.completions = maybe_number(spec, "completions");
    object.indexed = text(spec, "completionMode") == "Indexed";
    object.suspended = flag(spec, "suspend");
    object.active_deadline_seconds = std::max<std::int64_t>(0, number(spec, "activeDeadlineSeconds"));
    inside(root, "status", [&](Json status) { object.succeeded = std::max<std::int64_t>(0, number(status, "succeeded")); });
    read_end(root, "Complete", object);
}

void read_job_set(Json spec, Json root, Object &object) {
    object.suspended = flag(spec, "suspend");
    inside(spec, "startupPolicy",
           [&](Json policy) { object.in_order = text(policy, "startupPolicyOrder") == "InOrder"; });
    each(spec, "replicatedJobs", [&](Json job) {
        object.in_order = object.in_order || has_items(job, "dependsOn");
        inside(job, "template", [&](Json shape) {
            inside(shape, "spec", [&](Json job_spec) {
                std::int64_t made = 0;
                if (__builtin_mul_overflow(std::max<std::int64_t>(0, number(job, "replicas", 1)), width(job_spec), &made) ||
                    __builtin_add_overflow(object.pods, made, &object.pods))
                    object.problem = "its jobs make more pods than can be counted";
            });
        });
    });
    inside(root, "status", [&](Json status) { object.restarts = number(status, "restarts"); });
    read_end(root, "Completed", object);
}

void read_leader_worker_set(Json spec, Object &object) {
    object.replicas = number(spec, "replicas", 1);
    object.size = 1;
    inside(spec, "leaderWorkerTemplate", [&](Json shape) { object.size = number(shape, "size", 1); });
}

void read_x_pod_group(Json spec, Json root, Object &object) {
    object.min_member = number(spec, "minMember");
    object.schedule_timeout_seconds = std::max<std::int64_t>(0, number(spec, "scheduleTimeoutSeconds"));
    inside(spec, "minResources", [&](Json quantities) {
        auto least = resource_list(quantities);
        if (least)
            object.min_resources = std::move(*least);
        else
            object.problem = "minResources: " + least.error();
    });
    inside(root, "status", [&](Json status) {
        object.status = {std::string(text(status, "phase")),
                         std::string(text(status, "occupiedBy")),
                         std::string(text(status, "scheduleStartTime")),
                         number(status, "scheduled"),
                         number(status, "running"),
                         number(status, "succeeded"),
                         number(status, "failed")};
    });
}

void read_pod_group(Json spec, Json root, Object &object) {
    for (const char *name : {"schedulingPolicy", "policy"})
        inside(spec, name, [&](Json policy) {
            inside(policy, "gang", [&](Json gang) { object.min_member = std::max<std::int64_t>(1, number(gang, "minCount")); });
        });
    // v1alpha2; the other form is that of v1alpha3 and v1beta1.
    inside(spec, "podGroupTemplateRef", [&](Json from) {
        inside(from, "workload", [&](Json workload) { object.workload = text(workload, "workloadName"); });
    });
    inside(spec, "workloadRef", [&](Json workload) {
        object.workload = text(workload, "workloadName");
        if (object.workload.empty())
            object.workload = text(workload, "name");
    });
    each_condition(root, [&](Json condition) {
        const std::string_view type = text(condition, "type");
        if (type != "PodGroupInitiallyScheduled" && type != "PodGroupScheduled")
            return;
        object.condition_status = text(condition, "status");
        object.condition_reason = text(condition, "reason");
        object.condition_message = text(condition, "message");
    });
}

}  // namespace

std::string_view Object::label(std::string_view key) const { return value_of(labels, key); }
std::string_view Object::annotation(std::string_view key) const { return value_of(annotations, key); }

std::string_view Object::group_name(std::string_view api_version) {
    const auto slash = api_version.find('/');
    return slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
}

std::string_view scheduled_condition(std::string_view api_version) {
    return api_version.ends_with("/v1alpha2") ? "PodGroupScheduled" : "PodGroupInitiallyScheduled";
}

bool scheduled_for_good(std::string_view api_version) { return scheduled_condition(api_version) == "PodGroupInitiallyScheduled"; }

Result<void> read(Json from, Object &object) {
    Json metadata, spec;
    if (from["metadata"].get(metadata) != SUCCESS)
        return Error{"an object without metadata"};
    // PartialObjectMetadata says nothing of what it is the metadata of.
    if (const std::string_view kind = text(from, "kind"); !kind.empty() && kind != "PartialObjectMetadata") {
        object.kind = kind;
        object.api_version = text(from, "apiVersion");
    }
    object.ns = text(metadata, "namespace");
    object.name = text(metadata, "name");
    object.uid = text(metadata, "uid");
    object.resource_version = text(metadata, "resourceVersion");
    if (object.name.empty() || object.uid.empty())
        return Error{fmt::format("a {} without name or uid ('{}/{}')", for_log(object.kind, 80), for_log(object.ns, 80),
                                 for_log(object.name, 80))};
    object.owner = read_owner(metadata);
    object.annotations = read_annotations(metadata);
    object.labels = read_labels(metadata);
    object.created = read_time(text(metadata, "creationTimestamp"));
    object.deleting = !text(metadata, "deletionTimestamp").empty();

    if (from["spec"].get(spec) != SUCCESS)
        return {};
    if (object.is(batch_group, "Job"))
        read_job(spec, from, object);
    else if (object.is(jobset_group, "JobSet"))
        read_job_set(spec, from, object);
    else if (object.is(lws_group, "LeaderWorkerSet"))
        read_leader_worker_set(spec, object);
    else if (object.is(x_scheduling_group, "PodGroup"))
        read_x_pod_group(spec, from, object);
    else if (object.is(scheduling_group, "PodGroup"))
        read_pod_group(spec, from, object);
    return {};
}

Result<void> read(Json from, Claim &claim) {
    Json metadata;
    if (from["metadata"].get(metadata) != SUCCESS)
        return Error{"a claim without metadata"};
    claim.ns = text(metadata, "namespace");
    claim.name = text(metadata, "name");
    claim.uid = text(metadata, "uid");
    claim.resource_version = text(metadata, "resourceVersion");
    if (claim.name.empty() || claim.uid.empty())
        return Error{"a claim without name or uid"};
    inside(metadata, "annotations",
           [&](Json notes) { claim.selected_node = text(notes, "volume.kubernetes.io/selected-node"); });
    inside(from, "spec", [&](Json spec) {
        claim.storage_class = text(spec, "storageClassName");
        claim.volume = text(spec, "volumeName");
    });
    inside(from, "status", [&](Json status) { claim.phase = text(status, "phase"); });
    return {};
}

}  // namespace berth::kube
