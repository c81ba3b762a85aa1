#include "agent/kube/lease.h"

#include <fmt/core.h>

#include <charconv>

#include "agent/keys.h"
#include "agent/kube/discovery.h"
#include "agent/kube/json_fields.h"
#include "agent/kube/json_text.h"

namespace berth::kube {

namespace {

constexpr const char *api_version = "coordination.k8s.io/v1";

// The members of the object that are ours, with `version` as precondition when there is one.
std::string body_of(const LeaseRecord &record, std::string_view name) {
    const std::string now = utc_time(std::chrono::system_clock::now(), true);
    return fmt::format(R"({{"apiVersion":"{}","kind":"Lease","metadata":{{"name":{},{}"annotations":{{"{}":"{}"}}}},)"
                       R"("spec":{{"holderIdentity":{},"leaseDurationSeconds":{},"leaseTransitions":{},"acquireTime":{},"renewTime":"{}"}}}})",
                       api_version, json_quote(name),
                       record.version.empty() ? "" : fmt::format("\"resourceVersion\":{},", json_quote(record.version)), keys::term,
                       record.term, json_quote(record.holder), record.duration.count(), record.transitions,
                       json_quote(record.acquired.empty() ? now : record.acquired), now);
}

}  // namespace

std::string lease_path(std::string_view ns, std::string_view name) { return resource_path(api_version, "leases", ns, name); }

Result<LeaseRecord> decode_lease(std::string_view body) {
    simdjson::dom::parser parser;
    Json root;
    if (const auto code = parser.parse(body.data(), body.size()).get(root); code != simdjson::SUCCESS)
        return Error{fmt::format("not a JSON object: {}", simdjson::error_message(code))};
    LeaseRecord out;
    inside(root, "metadata", [&](Json metadata) {
        out.version = text(metadata, "resourceVersion");
        inside(metadata, "annotations", [&](Json annotations) {
            const std::string_view term = text(annotations, keys::term);
            std::from_chars(term.data(), term.data() + term.size(), out.term);
        });
    });
    inside(root, "spec", [&](Json spec) {
        out.holder = text(spec, "holderIdentity");
        out.transitions = number(spec, "leaseTransitions");
        out.duration = std::chrono::seconds(number(spec, "leaseDurationSeconds"));
        out.acquired = text(spec, "acquireTime");
        out.renewed = text(spec, "renewTime");
    });
    if (out.version.empty())
        return Error{"a Lease without resourceVersion"};
    return out;
}

LeaseStore::LeaseStore(Http &http, std::string ns, std::string name, std::chrono::milliseconds timeout)
    : http_(http), ns_(std::move(ns)), name_(std::move(name)), timeout_(timeout) {}

void LeaseStore::send(Request request, Done done) {
    request.timeout = timeout_;
    http_.send(std::move(request), [done = std::move(done)](Response response) {
        if (!response.ok())
            return done(std::move(response), std::nullopt);
        auto record = decode_lease(response.body);
        if (record)
            return done(std::move(response), std::move(*record));
        Response bad;
        bad.error = fmt::format("a Lease that could not be understood: {}", record.error());
        done(std::move(bad), std::nullopt);
    });
}

void LeaseStore::read(Done done) {
    Request request;
    request.path = lease_path(ns_, name_);
    send(std::move(request), std::move(done));
}

void LeaseStore::create(const LeaseRecord &record, Done done) {
    Request request;
    request.method = "POST";
    request.path = lease_path(ns_, "");
    request.body = body_of(record, name_);
    send(std::move(request), std::move(done));
}

void LeaseStore::write(const LeaseRecord &record, Done done) {
    Request request;
    request.method = "PATCH";
    request.path = lease_path(ns_, name_);
    request.content_type = "application/merge-patch+json";
    request.body = body_of(record, name_);
    send(std::move(request), std::move(done));
}

}  // namespace berth::kube
