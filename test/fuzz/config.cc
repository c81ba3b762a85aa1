// berth.yaml.
#include "agent/config.h"

#include "test/fuzz/fuzz.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const auto config = parse_config(std::string(fuzz::as_text(data, size)), "berth.yaml");
    if (!config) {
        fuzz::require(config.error().starts_with("berth.yaml") && config.error().size() < 2000, "an error names the file", config.error());
        return 0;
    }
    fuzz::require(!config->clusters.empty(), "there is a cluster");
    fuzz::require(config->defaults.cpu_milli >= 0 && config->defaults.memory_mib >= 0, "defaults are no debts");
    for (const TenantConfig &tenant : config->tenants)
        fuzz::require(!tenant.ns.empty() && !tenant.user.empty(), "a tenant has a namespace and a user");
    fuzz::require(config->hold.limit.count() > 0 && config->hold.max_grace.count() > 0, "holds have an end");
    fuzz::require(config->controller.reconcile.count() > 0 && config->node.reconcile.count() > 0, "looks have a pause");
    return 0;
}
