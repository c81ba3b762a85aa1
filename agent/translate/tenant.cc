#include "agent/translate/tenant.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "agent/translate/text.h"

namespace berth {
namespace {

bool contains(const std::vector<std::string> &words, const std::string &word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

std::string slurmjob_words(std::string_view key, std::string_view value) { return annotation_words(kAnnotationPrefix, key, value); }

// The annotation exists for files written for other bridges; it may confirm the site's choice, not make one.
Result<void> same_identity(std::string_view key, const std::string &wish, const std::string &name, std::uint32_t id,
                           const std::string &ns) {
    if (wish.empty() || wish == name)
        return {};
    std::uint32_t number = 0;
    const char *end = wish.data() + wish.size();
    const auto [rest, code] = std::from_chars(wish.data(), end, number);
    if (code == std::errc() && rest == end && number == id)
        return {};
    return Error{fmt::format("{} is refused, because the site's tenant entry decides it; accepted for namespace {} is {}",
                             slurmjob_words(key, wish), ns, id)};
}

Result<void> choose_names(const TenantConfig &tenant, const Annotations &wishes, const std::string &ns, Placeholder &out) {
    struct Choice {
        std::string_view key;
        const std::string &wish;
        const std::vector<std::string> &allowed;
        std::string &field;
        bool has_default;
    };
    const Choice choices[] = {
        {"account", wishes.account, tenant.accounts, out.account, true},
        {"partition", wishes.partition, tenant.partitions, out.partition, true},
        {"qos", wishes.qos, tenant.qos, out.qos, true},
        {"reservation", wishes.reservation, tenant.reservations, out.reservation, false},
    };
    for (const Choice &c : choices) {
        if (c.wish.empty()) {
            if (c.has_default && !c.allowed.empty())
                c.field = c.allowed.front();
        } else if (contains(c.allowed, c.wish)) {
            c.field = c.wish;
        } else if (c.allowed.empty()) {
            return Error{fmt::format("{} is refused, because the site lets namespace {} choose no {}", slurmjob_words(c.key, c.wish), ns,
                                     c.key)};
        } else {
            return Error{
                fmt::format("{} is refused; allowed for namespace {}: {}", slurmjob_words(c.key, c.wish), ns, joined(c.allowed))};
        }
    }
    return {};
}

// What the class means where no annotation says otherwise. Its nice is the site's own word, so it may be below zero.
Result<void> follow_class(const TenantConfig &tenant, const PriorityClassConfig &c, const Annotations &wishes, const std::string &ns,
                          Placeholder &out) {
    if (!c.qos.empty() && wishes.qos.empty()) {
        if (!contains(tenant.qos, c.qos))
            return Error{fmt::format("priority class {} means QOS {} here, which is refused; allowed for namespace {}: {}", shown(c.name),
                                     c.qos, ns, tenant.qos.empty() ? "none" : joined(tenant.qos))};
        out.qos = c.qos;
    }
    out.nice = c.nice;
    return {};
}

}  // namespace

const TenantConfig *find_tenant(const Config &config, std::string_view ns, std::string_view service_account) {
    for (const TenantConfig &tenant : config.tenants)
        if (matches(tenant.ns, ns) && (tenant.service_account.empty() || tenant.service_account == service_account))
            return &tenant;
    return nullptr;
}

std::string tenant_name(const Config &config, const kube::Pod &pod) {
    const TenantConfig *tenant = find_tenant(config, pod.ns, pod.service_account);
    if (tenant == nullptr)
        return {};
    return tenant->group.empty() ? tenant->user : tenant->user + ":" + tenant->group;
}

Result<const TenantConfig *> tenant_of(const kube::Pod &pod, const Config &config) {
    if (const TenantConfig *tenant = find_tenant(config, pod.ns, pod.service_account))
        return tenant;
    return Error{fmt::format("no tenant entry covers namespace {} (service account {}); the site would add one under tenants in "
                             "berth.yaml",
                             pod.ns, pod.service_account.empty() ? "none" : pod.service_account)};
}

// Slurm lets a root or SlurmUser submitter run jobs as anybody, so nothing behind us would stop uid 0.
Result<Identity> identity_of(const TenantConfig &tenant, const Annotations &wishes, const std::string &ns, const IdentityLookup &lookup) {
    const Result<Identity> identity = lookup(tenant.user, tenant.group);
    if (!identity)
        return Error{fmt::format("the tenant entry for namespace {} cannot be used: {}", ns, identity.error())};
    if (identity->uid == 0 || identity->gid == 0)
        return Error{fmt::format("the tenant entry for namespace {} leads to {} 0, and pods never run as root in Slurm", ns,
                                 identity->uid == 0 ? "user" : "group")};
    for (const Result<void> &same : {same_identity("user-id", wishes.user_id, tenant.user, identity->uid, ns),
                                     same_identity("group-id", wishes.group_id, tenant.group, identity->gid, ns)})
        if (!same)
            return Error{same.error()};
    return identity;
}

Result<void> choose(const TenantConfig &tenant, const Annotations &wishes, const PriorityClassConfig *priority_class, const std::string &ns,
                    Placeholder &out) {
    if (Result<void> names = choose_names(tenant, wishes, ns, out); !names)
        return names;
    if (priority_class != nullptr)
        if (Result<void> followed = follow_class(tenant, *priority_class, wishes, ns, out); !followed)
            return followed;
    if (wishes.priority && !tenant.may_set_priority)
        return Error{fmt::format("{} is refused, because the site does not let namespace {} set priorities",
                                 slurmjob_words("priority", std::to_string(*wishes.priority)), ns)};
    out.priority = wishes.priority;
    if (wishes.nice && *wishes.nice < 0 && !tenant.may_set_priority)
        return Error{fmt::format("{} is refused, because the site does not let namespace {} raise priorities; accepted is 0 or more",
                                 annotation_words(kOwnPrefix, "nice", std::to_string(*wishes.nice)), ns)};
    if (wishes.nice)
        out.nice = wishes.nice;
    return {};
}

}  // namespace berth
