#include "agent/kube/lease.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "agent/keys.h"
#include "agent/kube/discovery.h"
#include "agent/kube/json_fields.h"
#include "agent/kube/json_text.h"

namespace berth::kube {

namespace {

constexpr const char *api_version = "coordination.k8s.io/v1";

// 0, which is no term, for what a ticket cannot carry.
std::uint64_t to_term(std::string_view text) {
    std::uint64_t term = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), term);
    return error == std::errc() && end == text.data() + text.size() && term <= most_term ? term : 0;
}

// Whether a member is there that is not what it should be: an unreadable holder must not be taken for none.
template <class Kind>
bool is_other_than(Json from, std::string_view key) {
    simdjson::dom::element found;
    return from[key].get(found) == simdjson::SUCCESS && !found.is_null() && !found.is<Kind>();
}

}  // namespace

std::string encode_lease(const LeaseRecord &record, std::string_view name) {
    const std::string now = utc_time(std::chrono::system_clock::now(), true);
    return fmt::format(R"({{"apiVersion":"{}","kind":"Lease","metadata":{{"name":{},{}"annotations":{{"{}":"{}"}}}},)"
                       R"("spec":{{"holderIdentity":{},"leaseDurationSeconds":{},"leaseTransitions":{},"acquireTime":{},"renewTime":"{}"}}}})",
                       api_version, json_quote(name),
                       record.version.empty() ? "" : fmt::format("\"resourceVersion\":{},", json_quote(record.version)), keys::term,
                       record.term, json_quote(record.holder), record.duration.count(), record.transitions,
                       json_quote(record.acquired.empty() ? now : record.acquired), now);
}

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
            out.term = to_term(text(annotations, keys::term));
        });
    });
    bool wrong = is_other_than<Json>(root, "spec");
    inside(root, "spec", [&](Json spec) {
        wrong = is_other_than<std::string_view>(spec, "holderIdentity");
        out.holder = for_log(text(spec, "holderIdentity"));
        out.transitions = std::clamp<std::int64_t>(number(spec, "leaseTransitions"), 0, most_transitions);
        // Kept up to what Kubernetes allows, which is far from an overflow, so that people are told what was asked.
        out.duration = std::chrono::seconds(std::clamp<std::int64_t>(number(spec, "leaseDurationSeconds"), 0, std::numeric_limits<std::int32_t>::max()));
        out.acquired = text(spec, "acquireTime");
        out.renewed = text(spec, "renewTime");
    });
    if (wrong)
        return Error{"a Lease whose holder cannot be read"};
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
    request.body = encode_lease(record, name_);
    send(std::move(request), std::move(done));
}

void LeaseStore::write(const LeaseRecord &record, Done done) {
    Request request;
    request.method = "PATCH";
    request.path = lease_path(ns_, name_);
    request.content_type = "application/merge-patch+json";
    request.body = encode_lease(record, name_);
    send(std::move(request), std::move(done));
}

}  // namespace berth::kube
