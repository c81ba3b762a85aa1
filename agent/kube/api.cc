#include "agent/kube/api.h"

#include <fmt/core.h>

#include <ctime>
#include <vector>

#include "agent/kube/decode.h"
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

std::string pod_path(const PodRef &ref, std::string_view sub = "") {
    return fmt::format("/api/v1/namespaces/{}/pods/{}{}", url_escape(ref.ns), url_escape(ref.name), sub);
}

std::string utc(std::chrono::system_clock::time_point when, bool micro) {
    const auto since = when.time_since_epoch();
    const std::time_t seconds = std::chrono::duration_cast<std::chrono::seconds>(since).count();
    std::tm tm{};
    gmtime_r(&seconds, &tm);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    if (!micro)
        return fmt::format("{}Z", text);
    return fmt::format("{}.{:06}Z", text,
                       std::chrono::duration_cast<std::chrono::microseconds>(since).count() % 1'000'000);
}

// `"uid":"...",` or nothing: an empty uid is no precondition.
std::string uid_field(const PodRef &ref) {
    return ref.uid.empty() ? "" : fmt::format("\"uid\":{},", json_quote(ref.uid));
}

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
    http_.send(std::move(request), [done = std::move(done)](Response response) {
        if (!response.ok())
            return done(std::move(response), std::nullopt);
        auto pod = Decoder().pod(padded(response.body));
        if (pod)
            return done(std::move(response), std::move(*pod));
        Response bad;  // as if it had not arrived: the caller tries again
        bad.error = fmt::format("a pod that was read could not be understood: {}", pod.error());
        done(std::move(bad), std::nullopt);
    });
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
        uid_field(ref), json_quote(ref.ns), json_quote(ref.name), notes, json_quote(node));
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

void Api::set_condition(const PodRef &ref, const Condition &condition, Done done) {
    Request request;
    request.method = "PATCH";
    request.path = pod_path(ref, "/status");
    request.content_type = "application/strategic-merge-patch+json";
    request.body =
        fmt::format(R"({{"metadata":{{{}"name":{}}},"status":{{"conditions":[{{"type":{},"status":{},"reason":{},)"
                    R"("message":{}{}}}]}}}})",
                    uid_field(ref), json_quote(ref.name), json_quote(condition.type), json_quote(condition.status),
                    json_quote(condition.reason), json_quote(condition.message),
                    condition.changes_status ? fmt::format(R"(,"lastTransitionTime":"{}")", utc(clock_(), false)) : "");
    http_.send(std::move(request), [done = std::move(done)](Response response) {
        // Old servers (1.20) call another uid invalid where newer ones speak of a conflict. To callers it is one thing.
        if (response.status == 422 && response.body.find("\"field\":\"metadata.uid\"") != std::string::npos)
            response.status = 409;
        done(std::move(response));
    });
}

void Api::post_event(const PodRef &ref, const Event &event) {
    const auto word = [](std::string_view text) {
        return json_quote(cut_utf8(text, longest_word));
    };
    Request request;
    request.method = "POST";
    request.path = fmt::format("/apis/events.k8s.io/v1/namespaces/{}/events", url_escape(ref.ns));
    request.body = fmt::format(
        R"({{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{{"namespace":{},"generateName":{}}},)"
        R"("eventTime":"{}",)"
        R"("reportingController":{},"reportingInstance":{},"type":{},"reason":{},"action":{},"note":{},)"
        R"("regarding":{{"apiVersion":"v1","kind":"Pod",{}"namespace":{},"name":{}}}}})",
        json_quote(ref.ns), json_quote(event_prefix(ref.name)), utc(clock_(), true), word(reporter_), word(instance_),
        json_quote(event.type), word(event.reason), word(event.action),
        json_quote(cut_utf8(event.message, longest_note)), uid_field(ref), json_quote(ref.ns), json_quote(ref.name));
    http_.send(std::move(request), [reason = event.reason](Response response) {
        if (!response.ok())
            log::debug("the event {} was not recorded: {}", reason, response.error);
    });
}

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
