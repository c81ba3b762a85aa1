#include "agent/kube/api.h"

#include <fmt/core.h>

#include <vector>

#include "agent/kube/decode.h"
#include "agent/kube/discovery.h"
#include "agent/kube/json_text.h"
#include "agent/log.h"

namespace berth::kube {

struct Api::Version {
    int minor = 0;
    std::vector<std::function<void(int)>> waiting;
};

namespace {

constexpr std::size_t longest_note = 1024;  // bounds of events.k8s.io
constexpr std::size_t longest_word = 128;
constexpr int eviction_v1_minor = 22;  // the first that takes an Eviction of policy/v1

std::string pod_path(const PodRef &ref, std::string_view sub = "") {
    return fmt::format("/api/v1/namespaces/{}/pods/{}{}", url_escape(ref.ns), url_escape(ref.name), sub);
}

// `"uid":"...",` or nothing: an empty uid is no precondition.
std::string uid_field(const std::string &uid) { return uid.empty() ? "" : fmt::format("\"uid\":{},", json_quote(uid)); }

// Old servers (1.20) call another uid invalid where newer ones speak of a conflict. To callers it is one thing.
Http::Done with_uid_conflict(Http::Done done) {
    return [done = std::move(done)](Response response) {
        if (response.status == 422 && response.body.find("\"field\":\"metadata.uid\"") != std::string::npos)
            response.status = 409;
        done(std::move(response));
    };
}

// A status for people to read: absent rather than empty.
std::string text_or_null(const std::string &text) { return text.empty() ? "null" : json_quote(text); }

// The answer to a read of one record: 2xx with what could not be understood counts as no answer, so that the caller tries again.
template <class Record>
Http::Done decoded(std::string what, Result<Record> (Decoder::*decode)(std::string_view),
                   std::function<void(Response, std::optional<Record>)> done) {
    return [what = std::move(what), decode, done = std::move(done)](Response response) {
        if (!response.ok())
            return done(std::move(response), std::nullopt);
        Decoder decoder;
        auto record = (decoder.*decode)(padded(response.body));
        if (record)
            return done(std::move(response), std::move(*record));
        Response bad;
        bad.error = fmt::format("a {} that was read could not be understood: {}", what, record.error());
        done(std::move(bad), std::nullopt);
    };
}

std::string claim_path(const ClaimRef &ref) { return resource_path("v1", "persistentvolumeclaims", ref.ns, ref.name); }

// Names of events begin with the pod's, cut so that the server's random ending fits.
std::string event_prefix(const std::string &name) {
    std::string out = name.substr(0, 50);
    while (!out.empty() && (out.back() == '.' || out.back() == '-'))
        out.pop_back();
    return out + "-";
}

}  // namespace

Api::Api(Http &http, std::string reporter, std::string instance, Clock clock)
    : http_(http),
      reporter_(std::move(reporter)),
      instance_(std::move(instance)),
      clock_(std::move(clock)),
      version_(std::make_shared<Version>()) {}

void Api::get_pod(const PodRef &ref, PodDone done) {
    Request request;
    request.path = pod_path(ref);
    http_.send(std::move(request), decoded<Pod>("pod", &Decoder::pod, std::move(done)));
}

void Api::bind(const PodRef &ref, std::string_view node, const KeyValues &annotations, Done done) {
    std::string notes;
    for (const auto &[key, value] : annotations)
        notes += fmt::format("{}{}:{}", notes.empty() ? "" : ",", json_quote(key), json_quote(value));
    Request request;
    request.method = "POST";
    request.path = pod_path(ref, "/binding");
    request.body = fmt::format(
        R"({{"apiVersion":"v1","kind":"Binding","metadata":{{{}"namespace":{},"name":{},"annotations":{{{}}}}},)"
        R"("target":{{"apiVersion":"v1","kind":"Node","name":{}}}}})",
        uid_field(ref.uid), json_quote(ref.ns), json_quote(ref.name), notes, json_quote(node));
    http_.send(std::move(request), std::move(done));
}

void Api::remove(const PodRef &ref, std::int64_t grace_seconds, Done done) {
    Request request;
    request.method = "DELETE";
    request.path = pod_path(ref);
    request.body = R"({"apiVersion":"v1","kind":"DeleteOptions")";
    if (!ref.uid.empty())
        request.body += fmt::format(R"(,"preconditions":{{"uid":{}}})", json_quote(ref.uid));
    if (grace_seconds >= 0)
        request.body += fmt::format(R"(,"gracePeriodSeconds":{})", grace_seconds);
    request.body += "}";
    http_.send(std::move(request), std::move(done));
}

void Api::evict(const PodRef &ref, Done done) {
    server_version([this, ref, done = std::move(done)](int minor) {
        Request request;
        request.method = "POST";
        request.path = pod_path(ref, "/eviction");
        request.body = fmt::format(R"({{"apiVersion":"{}","kind":"Eviction","metadata":{{"namespace":{},"name":{}}},)"
                                   R"("deleteOptions":{{"preconditions":{{"uid":{}}}}}}})",
                                   minor >= eviction_v1_minor ? "policy/v1" : "policy/v1beta1", json_quote(ref.ns), json_quote(ref.name),
                                   json_quote(ref.uid));
        http_.send(std::move(request), done);
    });
}

void Api::set_condition(const PodRef &ref, const Condition &condition, Done done) {
    Request request;
    request.method = "PATCH";
    request.path = pod_path(ref, "/status");
    request.content_type = "application/strategic-merge-patch+json";
    request.body =
        fmt::format(R"({{"metadata":{{{}"name":{}}},"status":{{"conditions":[{{"type":{},"status":{},"reason":{},)"
                    R"("message":{}{}}}]}}}})",
                    uid_field(ref.uid), json_quote(ref.name), json_quote(condition.type), json_quote(condition.status),
                    json_quote(condition.reason), json_quote(condition.message),
                    condition.changes_status ? fmt::format(R"(,"lastTransitionTime":"{}")", utc_time(clock_(), false)) : "");
    http_.send(std::move(request), with_uid_conflict(std::move(done)));
}

void Api::post_event(const PodRef &ref, const Event &event) {
    post_event(ObjectRef("v1", "Pod", ref.ns, ref.name, ref.uid), event);
}

void Api::post_event(const ObjectRef &ref, const Event &event) {
    const auto word = [](std::string_view text) {
        return json_quote(cut_utf8(text, longest_word));
    };
    Request request;
    request.can_wait = event.can_wait;
    request.method = "POST";
    const std::string ns = ref.ns.empty() ? "kube-system" : ref.ns;  // all servers take events on what has no namespace there
    request.path = fmt::format("/apis/events.k8s.io/v1/namespaces/{}/events", url_escape(ns));
    request.body = fmt::format(
        R"({{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{{"namespace":{},"generateName":{}}},)"
        R"("eventTime":"{}",)"
        R"("reportingController":{},"reportingInstance":{},"type":{},"reason":{},"action":{},"note":{},)"
        R"("regarding":{{"apiVersion":{},"kind":{},{}{}"name":{}}}}})",
        json_quote(ns), json_quote(event_prefix(ref.name)), utc_time(clock_(), true), word(reporter_), word(instance_),
        json_quote(event.type), word(event.reason), word(event.action),
        json_quote(cut_utf8(event.message, longest_note)), json_quote(ref.api_version), json_quote(ref.kind),
        uid_field(ref.uid), ref.ns.empty() ? "" : fmt::format("\"namespace\":{},", json_quote(ref.ns)), json_quote(ref.name));
    http_.send(std::move(request), [reason = event.reason](Response response) {
        if (!response.ok())
            log::debug("the event {} was not recorded: {}", reason, response.error);
    });
}

void Api::patch_group_status(const Object &group, const Object::GroupStatus &status, Done done) {
    std::string changes;
    const auto change = [&](const char *key, const std::string &value) {
        changes += fmt::format("{}\"{}\":{}", changes.empty() ? "" : ",", key, value);
    };
    const auto &now = group.status;
    if (status.phase != now.phase)
        change("phase", text_or_null(status.phase));
    if (status.occupied_by != now.occupied_by)
        change("occupiedBy", text_or_null(status.occupied_by));
    if (status.schedule_start_time != now.schedule_start_time)
        change("scheduleStartTime", text_or_null(status.schedule_start_time));
    if (status.scheduled != now.scheduled)
        change("scheduled", std::to_string(status.scheduled));
    if (status.running != now.running)
        change("running", std::to_string(status.running));
    if (status.succeeded != now.succeeded)
        change("succeeded", std::to_string(status.succeeded));
    if (status.failed != now.failed)
        change("failed", std::to_string(status.failed));
    if (changes.empty()) {
        Response nothing;
        nothing.status = 200;
        return done(std::move(nothing));
    }
    Request request;
    request.method = "PATCH";
    request.path = resource_path(group.api_version, "podgroups", group.ns, group.name) + "/status";
    request.content_type = "application/merge-patch+json";
    request.body = fmt::format(R"({{"metadata":{{{}"name":{}}},"status":{{{}}}}})", uid_field(group.uid), json_quote(group.name),
                               changes);
    http_.send(std::move(request), with_uid_conflict(std::move(done)));
}

void Api::set_group_condition(const Object &group, const Condition &condition, Done done) {
    const bool own = condition.type.empty();
    const bool moves = own ? condition.status != group.condition_status : condition.changes_status;
    Request request;
    request.method = "PATCH";
    request.path = resource_path(group.api_version, "podgroups", group.ns, group.name) + "/status";
    request.content_type = "application/strategic-merge-patch+json";
    request.body = fmt::format(R"({{"metadata":{{{}"name":{}}},"status":{{"conditions":[{{"type":{},"status":{},"reason":{},)"
                               R"("message":{}{}}}]}}}})",
                               uid_field(group.uid), json_quote(group.name),
                               json_quote(own ? scheduled_condition(group.api_version) : condition.type),
                               json_quote(condition.status), json_quote(condition.reason), json_quote(condition.message),
                               moves ? fmt::format(R"(,"lastTransitionTime":"{}")", utc_time(clock_(), false)) : "");
    http_.send(std::move(request), with_uid_conflict(std::move(done)));
}

void Api::get_claim(const ClaimRef &ref, ClaimDone done) {
    Request request;
    request.path = claim_path(ref);
    http_.send(std::move(request), decoded<Claim>("claim", &Decoder::claim, std::move(done)));
}

void Api::select_node_for_claim(const ClaimRef &ref, std::string_view node, Done done) {
    Request request;
    request.method = "PATCH";
    request.path = claim_path(ref);
    request.content_type = "application/merge-patch+json";
    request.body =
        fmt::format(R"({{"metadata":{{{}"name":{},"annotations":{{"volume.kubernetes.io/selected-node":{}}}}}}})",
                    uid_field(ref.uid), json_quote(ref.name), json_quote(node));
    http_.send(std::move(request), with_uid_conflict(std::move(done)));
}

void Api::patch_node(const Node &node, const NodeChange &change, Done done) {
    const auto join = [](std::string &list, const std::string &item) { list += (list.empty() ? "" : ",") + item; };
    std::string notes, taints, spec;
    for (const auto &[key, value] : change.annotations)
        join(notes, fmt::format("{}:{}", json_quote(key), value ? json_quote(*value) : "null"));
    if (change.unschedulable)
        join(spec, fmt::format("\"unschedulable\":{}", *change.unschedulable ? "true" : "null"));
    if (change.taints) {
        for (const Taint &taint : *change.taints)
            join(taints, fmt::format(R"({{"key":{},"value":{},"effect":{}{}}})", json_quote(taint.key), json_quote(taint.value),
                                     json_quote(taint.effect),
                                     taint.time_added.empty() ? "" : ",\"timeAdded\":" + json_quote(taint.time_added)));
        join(spec, fmt::format("\"taints\":[{}]", taints));
    }
    Request request;
    request.method = "PATCH";
    request.path = "/api/v1/nodes/" + url_escape(node.name);
    request.content_type = "application/merge-patch+json";
    request.body = fmt::format(R"({{"metadata":{{{}"resourceVersion":{},"annotations":{{{}}}}},"spec":{{{}}}}})", uid_field(node.uid),
                               json_quote(node.resource_version), notes, spec);
    http_.send(std::move(request), with_uid_conflict(std::move(done)));
}

// The kubelet gives a node's name for its uid, and all versions of `kubectl describe node` look for that.
void Api::post_node_event(const Node &node, const Event &event) { post_event(ObjectRef("v1", "Node", "", node.name, node.name), event); }

void Api::server_version(std::function<void(int minor)> done) {
    if (version_->minor > 0)
        return done(version_->minor);
    version_->waiting.push_back(std::move(done));
    if (version_->waiting.size() > 1)
        return;
    Request request;
    request.path = "/version";
    http_.send(std::move(request), [version = version_](Response response) {
        version->minor = response.ok() ? version_minor(response.body) : 0;
        if (version->minor == 0)
            log::debug("the API server's version is unknown{}{}", response.error.empty() ? "" : ": ", response.error);
        for (const auto &waiting : std::exchange(version->waiting, {}))
            waiting(version->minor);
    });
}

}  // namespace berth::kube
