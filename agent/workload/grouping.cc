#include "agent/workload/grouping.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "agent/keys.h"
#include "agent/kube/json_text.h"
#include "agent/workload/kinds.h"

namespace berth {

namespace {

using kube::KeyValues;
using kube::Object;
using kube::Pod;

constexpr std::string_view gang_key = keys::gang;

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t out = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
    if (code != std::errc() || end != text.data() + text.size() || out < 0 || out > std::numeric_limits<std::int32_t>::max())
        return std::nullopt;
    return out;
}

std::optional<std::int64_t> completion_index(const Pod &pod) {
    const std::string_view label = pod.label(labels::completion_index);
    return whole_number(label.empty() ? pod.annotation(labels::completion_index) : label);
}

const Object *find_owner(const Chain &chain, std::string_view group, std::string_view kind) {
    for (const auto &owner : chain.owners)
        if (owner && owner->is(group, kind))
            return owner.get();
    return nullptr;
}

const Object *find_set(const Chain &chain, std::string_view group, std::string_view kind) {
    return chain.set && chain.set->is(group, kind) ? chain.set.get() : find_owner(chain, group, kind);
}

std::vector<KeyValues> layers_of(const Pod &pod, const Chain &chain) {
    std::vector<KeyValues> out;
    const auto add = [&](const KeyValues &annotations) {
        if (!annotations.empty())
            out.push_back(annotations);
    };
    const bool own_api = chain.pod_group && chain.pod_group->group() == kube::x_scheduling_group;
    if (own_api)
        add(chain.pod_group->annotations);
    if (chain.workload)
        add(chain.workload->annotations);
    const auto is_set = [&](const ObjectPtr &owner) { return owner && chain.set && owner->uid == chain.set->uid; };
    if (chain.set && std::none_of(chain.owners.begin(), chain.owners.end(), is_set))
        add(chain.set->annotations);
    // A pod that owns others is the leader of a LeaderWorkerSet's group: what is said of the leader is not said of the workers.
    for (auto owner = chain.owners.rbegin(); owner != chain.owners.rend(); ++owner)
        if (*owner && !(*owner)->is("", "Pod"))
            add((*owner)->annotations);
    if (chain.pod_group && !own_api)
        add(chain.pod_group->annotations);
    out.push_back(pod.annotations);
    return out;
}

// What the layers say about gangs, the outermost first; nothing when they say nothing.
Result<std::optional<bool>> gang_wish(const std::vector<KeyValues> &layers) {
    std::optional<bool> out;
    for (const auto &layer : layers) {
        const std::string_view value = kube::value_of(layer, gang_key);
        if (value.empty())
            continue;
        if (value != "true" && value != "false")
            return Error{fmt::format("annotation {}: \"{}\" is not accepted; it is \"true\" or \"false\"", gang_key,
                                     kube::for_log(value, 80))};
        if (!out)
            out = value == "true";
    }
    return out;
}

Result<std::uint32_t> gang_size(std::int64_t size, std::string_view what) {
    if (size < 1 || size > std::numeric_limits<std::int32_t>::max())
        return Error{fmt::format("{} is {}: a gang has at least 1 pod, and no more than can be counted in 31 bits", what, size)};
    return static_cast<std::uint32_t>(size);
}

std::int64_t shorter(std::int64_t a, std::int64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

// Turns a single pod's membership into that of a gang around `object`.
Result<Membership> as_gang(Membership single, const Object &object, std::string_view key_suffix, std::int64_t size,
                           std::string_view size_name) {
    if (!object.problem.empty())
        return Error{fmt::format("{} {}: {}", object.kind, object.full_name(), object.problem)};
    const auto checked = gang_size(size, fmt::format("{} of {} {}", size_name, object.kind, object.full_name()));
    if (!checked)
        return Error{checked.error()};
    single.key = fmt::format("{}{}", object.uid, key_suffix);
    single.kind = object.kind;
    single.name = object.name;
    single.owner_uid = object.uid;
    single.gang = true;
    single.size = *checked;
    single.finished = object.finished || object.deleting;
    single.failed = object.failed;
    single.deleted = object.deleting && !object.finished;
    single.created = object.created;
    return single;
}

Result<Membership> as_pod_group(Membership single, const Object &group) {
    const bool own_api = group.group() == kube::x_scheduling_group;
    auto out = as_gang(std::move(single), group, "", std::max<std::int64_t>(1, group.min_member),
                       own_api ? "minMember" : "gang.minCount");
    if (!out)
        return out;
    if (own_api)
        out->selector = fmt::format("{}={}", labels::pod_group, group.name);
    else
        out->scheduling_group = group.name;
    out->schedule_timeout_seconds = group.schedule_timeout_seconds;
    out->min_resources = group.min_resources;
    return out;
}

Result<Membership> as_leader_worker_set(Membership single, const Pod &pod, const Object &set) {
    const std::string_view index = pod.label(labels::lws_group_index);
    if (!whole_number(index))
        return Error{fmt::format("label {}: \"{}\" is not accepted; a pod of a LeaderWorkerSet has the number of its group there",
                                 labels::lws_group_index, kube::for_log(index, 80))};
    const std::string_view said = pod.annotation(labels::lws_size);
    const auto size = whole_number(said);
    if (!said.empty() && !size)
        return Error{fmt::format("annotation {}: \"{}\" is not accepted; it is the number of pods in a group", labels::lws_size,
                                 kube::for_log(said, 80))};
    auto out = as_gang(std::move(single), set, fmt::format("/{}", index), size.value_or(set.size), "size");
    if (!out)
        return out;
    out->name = fmt::format("{}-{}", set.name, index);
    out->selector = fmt::format("{}={},{}={}", labels::lws_name, set.name, labels::lws_group_index, index);
    return out;
}

Result<Membership> as_job_set(Membership single, const Pod &pod, const Object &set) {
    if (set.in_order)
        return Error{fmt::format("annotation {}: \"true\" is not accepted for JobSet {}: its jobs begin one after the other "
                                 "(startupPolicy InOrder or dependsOn), so they cannot all start at once",
                                 gang_key, set.full_name())};
    const std::string_view said = pod.label(labels::jobset_attempt);
    const std::string attempt(said.empty() ? "0" : said);
    auto out = as_gang(std::move(single), set, "/" + attempt, set.pods, "the number of pods");
    if (!out)
        return out;
    out->selector = fmt::format("{}={},{}={}", labels::jobset_name, set.name, labels::jobset_attempt, attempt);
    if (set.restarts > whole_number(attempt).value_or(0))
        out->finished = out->failed = true;  // this attempt; the next one is another gang
    return out;
}

Result<Membership> as_job(Membership single, const Object &job) {
    const std::int64_t parallelism = job.parallelism.value_or(1);
    // No pod comes for an index that has succeeded: a gang that is begun again is the smaller for it.
    const std::int64_t left = job.completions ? std::max<std::int64_t>(1, *job.completions - job.succeeded) : parallelism;
    auto out = as_gang(std::move(single), job, "", std::min(parallelism, left), "parallelism");
    if (out)
        out->selector = fmt::format("{}={}", labels::controller_uid, job.uid);
    return out;
}

}  // namespace

Result<Membership> group_of(const Pod &pod, const Chain &chain, const Config &config) {
    if (!chain.missing.empty())
        return Error{fmt::format("the pod waits for {}, which is not there", chain.missing)};
    Membership out;
    out.key = out.owner_uid = pod.uid;
    out.kind = "Pod";
    out.ns = pod.ns;
    out.name = pod.name;
    out.created = pod.created;
    out.layers = layers_of(pod, chain);
    out.active_deadline_seconds = pod.active_deadline_seconds;
    const Object *job = find_owner(chain, kube::batch_group, "Job");
    const Object *job_set = find_set(chain, kube::jobset_group, "JobSet");
    const Object *leader_worker_set = find_set(chain, kube::lws_group, "LeaderWorkerSet");
    if (job) {
        out.active_deadline_seconds = shorter(out.active_deadline_seconds, job->active_deadline_seconds);
        out.suspended = job->suspended;
        out.finished = job->finished || job->deleting;
    }
    if (job_set)
        out.suspended = out.suspended || job_set->suspended;
    const auto wish = gang_wish(out.layers);
    if (!wish)
        return Error{wish.error()};

    // "false" says that a Job or JobSet is no gang; it does not take apart what is one by its nature.
    const Object *group = chain.pod_group.get();
    if (group && (group->group() == kube::x_scheduling_group || group->min_member > 0))
        return as_pod_group(std::move(out), *group);
    if (leader_worker_set && !pod.label(labels::lws_name).empty())
        return as_leader_worker_set(std::move(out), pod, *leader_worker_set);
    const bool asked = wish->value_or(false);
    if (job_set && asked)
        return as_job_set(std::move(out), pod, *job_set);
    // A PodGroup without a gang policy says that its pods start one by one, and what a user says goes before the site's default.
    const bool by_default = !*wish && !group && config.defaults.indexed_job_is_gang && job && job->indexed && job->completions &&
                            job->completions == job->parallelism.value_or(1);
    if (job && (asked || by_default))
        return as_job(std::move(out), *job);
    if (asked)
        return Error{fmt::format("annotation {}: \"true\" is not accepted for {}: a Job or a JobSet can be a gang; for other pods "
                                 "make a PodGroup and name it in the label {}",
                                 gang_key,
                                 pod.owner.empty() ? "a pod without an owner"
                                                   : fmt::format("a pod of {} {}", pod.owner.kind, kube::for_log(pod.owner.name, 80)),
                                 labels::pod_group)};
    return out;
}

RankKey rank_key(const Pod &pod) {
    RankKey out;
    out.name = pod.name;
    if (const auto worker = whole_number(pod.label(labels::lws_worker_index))) {
        out.index = *worker;
        return out;
    }
    const auto completion = completion_index(pod);
    if (!pod.label(labels::jobset_name).empty()) {
        // The index over all of its jobs keeps the order in which the JobSet lists them; older ones do not say it.
        if (const auto global = whole_number(pod.label(labels::jobset_global_index))) {
            out.job_index = *global;
        } else {
            out.job = pod.label(labels::jobset_job);
            out.job_index = whole_number(pod.label(labels::jobset_job_index)).value_or(0);
        }
        out.index = completion.value_or(0);
        return out;
    }
    if (completion) {
        out.job = pod.label(labels::job_name);  // in a PodGroup, several Jobs may meet
        out.index = *completion;
        return out;
    }
    // By name, numbers at its end as numbers: ring-2 before ring-10.
    const std::size_t digits = pod.name.find_last_not_of("0123456789") + 1;
    if (const auto number = whole_number(std::string_view(pod.name).substr(digits)); number && digits > 0) {
        out.job = pod.name.substr(0, digits);
        out.index = *number;
    } else {
        out.job = pod.name;
    }
    return out;
}

std::optional<std::uint32_t> own_rank(const Pod &pod) {
    // Completion indices of several Jobs may meet in one group: there, only the order of all tells ranks.
    if (!pod.label(labels::pod_group).empty() || !pod.scheduling_group.empty())
        return std::nullopt;
    auto rank = whole_number(pod.label(labels::lws_worker_index));
    if (!rank && pod.label(labels::jobset_name).empty())
        rank = completion_index(pod);
    return rank ? std::optional(static_cast<std::uint32_t>(*rank)) : std::nullopt;
}

}  // namespace berth
