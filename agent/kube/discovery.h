// What an API server has: the answers to GET /apis and GET /apis/GROUP/VERSION. Pure.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"

namespace berth::kube {

// API groups by name, each with its versions as the server lists them ("v1", "v1beta1").
using ApiGroups = std::map<std::string, std::vector<std::string>, std::less<>>;
Result<ApiGroups> read_api_groups(const std::string &body);

struct ApiResource {
    std::string name;  // in paths: "rayclusters"
    std::string kind;
    bool namespaced = true;
    bool watchable = false;  // can be listed and watched
};
// Subresources are left out.
Result<std::vector<ApiResource>> read_api_resources(const std::string &body);

// "/apis/batch/v1", "/api/v1".
std::string api_root(std::string_view api_version);
// The path of a resource's objects, of one object when a name is given; ns empty: in all namespaces, or not namespaced.
std::string resource_path(std::string_view api_version, std::string_view resource, std::string_view ns, std::string_view name = "");

}  // namespace berth::kube
