#include "agent/kube/discovery.h"

#include <fmt/core.h>

#include "agent/kube/http.h"
#include "agent/kube/json_fields.h"

namespace berth::kube {

namespace {

// The parser must outlive the object that it returns.
Result<Json> parse(simdjson::dom::parser &parser, const std::string &body) {
    Json root;
    if (const auto code = parser.parse(body).get(root); code != simdjson::SUCCESS)
        return Error{fmt::format("not a JSON object: {}", simdjson::error_message(code))};
    return root;
}

bool lists(Json from, std::string_view key, std::string_view wanted) {
    simdjson::dom::array list;
    if (from[key].get(list) != simdjson::SUCCESS)
        return false;
    for (const auto element : list) {
        std::string_view word;
        if (element.get(word) == simdjson::SUCCESS && word == wanted)
            return true;
    }
    return false;
}

}  // namespace

Result<ApiGroups> read_api_groups(const std::string &body) {
    simdjson::dom::parser parser;
    const auto root = parse(parser, body);
    if (!root)
        return Error{root.error()};
    simdjson::dom::array list;
    if ((*root)["groups"].get(list) != simdjson::SUCCESS)
        return Error{"a list of API groups without groups"};
    ApiGroups out;
    each(*root, "groups", [&](Json group) {
        auto &versions = out[std::string(text(group, "name"))];
        each(group, "versions", [&](Json version) { versions.emplace_back(text(version, "version")); });
    });
    return out;
}

Result<std::vector<ApiResource>> read_api_resources(const std::string &body) {
    simdjson::dom::parser parser;
    const auto root = parse(parser, body);
    if (!root)
        return Error{root.error()};
    std::vector<ApiResource> out;
    each(*root, "resources", [&](Json resource) {
        const std::string_view name = text(resource, "name");
        // It becomes part of a path: a subresource is left out, and so is what could lead elsewhere.
        if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") != std::string_view::npos)
            return;
        out.push_back({std::string(name), std::string(text(resource, "kind")), flag(resource, "namespaced"),
                       lists(resource, "verbs", "list") && lists(resource, "verbs", "watch")});
    });
    return out;
}

std::string api_root(std::string_view api_version) {
    const auto slash = api_version.find('/');
    if (slash == std::string_view::npos)
        return fmt::format("/api/{}", url_escape(api_version));
    return fmt::format("/apis/{}/{}", url_escape(api_version.substr(0, slash)), url_escape(api_version.substr(slash + 1)));
}

std::string resource_path(std::string_view api_version, std::string_view resource, std::string_view ns, std::string_view name) {
    return fmt::format("{}{}{}/{}{}{}", api_root(api_version), ns.empty() ? "" : "/namespaces/", url_escape(ns), resource,
                       name.empty() ? "" : "/", url_escape(name));
}

}  // namespace berth::kube
