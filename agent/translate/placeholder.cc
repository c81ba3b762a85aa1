#include "agent/translate/placeholder.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "agent/translate/annotations.h"
#include "agent/translate/quantity.h"

namespace berth {
namespace {

// '*' stands for any run of characters, also an empty one.
bool matches(std::string_view pattern, std::string_view text) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos)
        return pattern == text;
    if (!text.starts_with(pattern.substr(0, star)))
        return false;
    const std::string_view rest = pattern.substr(star + 1);
    for (std::size_t at = star; at <= text.size(); at++)
        if (matches(rest, text.substr(at)))
            return true;
    return false;
}

std::string joined(const std::vector<std::string> &words) {
    std::string out;
    for (const std::string &word : words)
        out += (out.empty() ? "" : ", ") + word;
    return out;
}

// One translation: the steps fill in `out`, and each returns the first thing that is not allowed.
class Translation {
  public:
    Translation(const kube::Pod &pod, const Config &config, const TenantConfig &tenant, Annotations wishes)
        : pod_(pod), config_(config), tenant_(tenant), wishes_(std::move(wishes)) {}

    Result<Placeholder> run(const IdentityLookup &identities) {
        out_.job_name = wishes_.job_name.empty() ? pod_.full_name() : wishes_.job_name;
        out_.comment = "pod " + pod_.full_name();
        out_.constraints = wishes_.constraints;
        out_.licenses = wishes_.licenses;
        out_.wckey = wishes_.wckey;
        out_.exclusive = wishes_.exclusive.value_or(config_.defaults.exclusive);
        set_time_limit();
        for (Result<void> step :
             {set_identity(identities), set_names(), set_priority(), set_cpus(), set_memory(), set_gres()})
            if (!step)
                return Error{step.error()};
        return std::move(out_);
    }

  private:
    // Slurm lets a root or SlurmUser submitter run jobs as anybody, so nothing behind us would stop uid 0.
    Result<void> set_identity(const IdentityLookup &identities) {
        const Result<Identity> identity = identities(tenant_.user, tenant_.group);
        if (!identity)
            return Error{
                fmt::format("the tenant entry for namespace {} cannot be used: {}", pod_.ns, identity.error())};
        if (identity->uid == 0 || identity->gid == 0)
            return Error{
                fmt::format("the tenant entry for namespace {} leads to {} 0, and pods never run as root in Slurm",
                            pod_.ns, identity->uid == 0 ? "user" : "group")};
        out_.uid = identity->uid;
        out_.gid = identity->gid;
        if (Result<void> user = same_identity("user-id", wishes_.user_id, tenant_.user, out_.uid); !user)
            return user;
        return same_identity("group-id", wishes_.group_id, tenant_.group, out_.gid);
    }

    // The annotation exists for files written for other bridges; it may confirm the site's choice, not make one.
    Result<void> same_identity(std::string_view key, const std::string &wish, const std::string &name,
                               std::uint32_t id) const {
        if (wish.empty() || wish == name)
            return {};
        std::uint32_t number = 0;
        const char *end = wish.data() + wish.size();
        const auto [rest, code] = std::from_chars(wish.data(), end, number);
        if (code == std::errc() && rest == end && number == id)
            return {};
        return Error{
            fmt::format("{} is refused, because the site's tenant entry decides it; accepted for namespace {} is {}",
                        annotation_words(key, wish), pod_.ns, id)};
    }

    Result<void> set_names() {
        struct Choice {
            std::string_view key;
            const std::string &wish;
            const std::vector<std::string> &allowed;
            std::string &field;
            bool has_default;
        };
        const Choice choices[] = {
            {"account", wishes_.account, tenant_.accounts, out_.account, true},
            {"partition", wishes_.partition, tenant_.partitions, out_.partition, true},
            {"qos", wishes_.qos, tenant_.qos, out_.qos, true},
            {"reservation", wishes_.reservation, tenant_.reservations, out_.reservation, false},
        };
        for (const Choice &c : choices) {
            if (c.wish.empty()) {
                if (c.has_default && !c.allowed.empty())
                    c.field = c.allowed.front();
            } else if (std::find(c.allowed.begin(), c.allowed.end(), c.wish) != c.allowed.end()) {
                c.field = c.wish;
            } else if (c.allowed.empty()) {
                return Error{fmt::format("{} is refused, because the site lets namespace {} choose no {}",
                                         annotation_words(c.key, c.wish), pod_.ns, c.key)};
            } else {
                return Error{fmt::format("{} is refused; allowed for namespace {}: {}", annotation_words(c.key, c.wish),
                                         pod_.ns, joined(c.allowed))};
            }
        }
        return {};
    }

    Result<void> set_priority() {
        if (wishes_.priority && !tenant_.may_set_priority)
            return Error{fmt::format("{} is refused, because the site does not let namespace {} set priorities",
                                     annotation_words("priority", std::to_string(*wishes_.priority)), pod_.ns)};
        out_.priority = wishes_.priority;
        return {};
    }

    Result<void> set_cpus() {
        const std::int64_t milli = pod_.need.cpu_milli > 0 ? pod_.need.cpu_milli : config_.defaults.cpu_milli;
        std::int64_t cpus = std::max<std::int64_t>(1, milli / 1000 + (milli % 1000 > 0));
        if (wishes_.cpus) {
            if (pod_.need.cpu_milli > 0 && *wishes_.cpus < cpus)
                return too_small("cpu-per-task", *wishes_.cpus, cpus, pod_.need.cpu_milli, "m CPU", "");
            cpus = *wishes_.cpus;
        }
        if (cpus > kMaxCpus)
            return Error{fmt::format("the pod asks for {} CPUs; accepted are up to {}", cpus, kMaxCpus)};
        out_.cpus_per_task = static_cast<std::uint16_t>(cpus);
        return {};
    }

    Result<void> set_memory() {
        const std::int64_t own = mib_rounded_up(pod_.need.memory_bytes);
        std::uint64_t mib =
            static_cast<std::uint64_t>(own > 0 ? own : std::max<std::int64_t>(1, config_.defaults.memory_mib));
        if (wishes_.memory_mib) {
            if (own > 0 && *wishes_.memory_mib < mib)
                return too_small("mem-per-node", *wishes_.memory_mib, mib, pod_.need.memory_bytes, " bytes of memory",
                                 "Mi");
            mib = *wishes_.memory_mib;
        }
        out_.memory_mib = mib;
        return {};
    }

    // A berth smaller than its pod would break the promise to whoever else has work on the node.
    Error too_small(std::string_view key, std::uint64_t wish, std::uint64_t least, std::int64_t need,
                    std::string_view need_unit, std::string_view unit) const {
        return Error{
            fmt::format("{} is less than the pod itself asks for ({}{}); accepted is {}{} or more, or no annotation",
                        annotation_words(key, fmt::format("{}{}", wish, unit)), need, need_unit, least, unit)};
    }

    Result<void> set_gres() {
        GresList need;
        for (const auto &[resource, count] : pod_.need.extended) {
            if (count <= 0)
                continue;
            const auto at = std::find_if(
                config_.gres.begin(), config_.gres.end(),
                [&, name = std::string_view(resource)](const GresConfig &g) { return g.resource == name; });
            if (at == config_.gres.end())
                return Error{fmt::format(
                    "the pod asks for {} of {}, which Slurm knows nothing of here; the site would map it with an "
                    "entry \"resource: {}\" under gres in berth.yaml",
                    count, resource, resource)};
            add_gres(need, at->gres, static_cast<std::uint64_t>(count));
        }
        if (Result<void> enough = check_gres(need); !enough)
            return enough;
        // The annotation speaks for each name that it mentions ("gpu" also for a need of "gpu:a100"), the pod for the
        // others.
        out_.gres = wishes_.gres;
        for (const auto &[name, count] : need)
            if (total(wishes_.gres, base(name)) == 0)
                add_gres(out_.gres, name, count);
        return {};
    }

    Result<void> check_gres(const GresList &need) const {
        for (const auto &[name, count] : need) {
            const std::string_view kind = base(name);
            if (total(wishes_.gres, kind) == 0)
                continue;
            const std::uint64_t of_type = name == kind ? total(wishes_.gres, kind) : exactly(wishes_.gres, name);
            const std::uint64_t needed = name == kind ? total(need, kind) : count;
            if (of_type < needed)
                return Error{fmt::format(
                    "annotation {}gres: {} of {} is less than the pod itself asks for; accepted is {} or more, or "
                    "no {} in the annotation",
                    kAnnotationPrefix, of_type, name, needed, kind)};
        }
        return {};
    }

    static std::string_view base(std::string_view name) { return name.substr(0, name.find(':')); }

    static std::uint64_t total(const GresList &list, std::string_view kind) {
        std::uint64_t sum = 0;
        for (const auto &[name, count] : list)
            if (base(name) == kind)
                sum = sum_of(sum, count);
        return sum;
    }

    static std::uint64_t exactly(const GresList &list, std::string_view name) {
        for (const auto &[other, count] : list)
            if (other == name)
                return count;
        return 0;
    }

    // The kubelet ends the pod at its own deadline; a longer berth would only be in the way of backfill.
    void set_time_limit() {
        constexpr std::int64_t longest = INT32_MAX / 60;
        const std::int64_t seconds = pod_.active_deadline_seconds;
        const auto deadline = static_cast<std::uint32_t>(
            seconds > 0 ? std::min(longest, seconds / 60 + (seconds % 60 > 0)) : 0);
        if (wishes_.time_limit_minutes)
            out_.time_limit_minutes =
                deadline > 0 ? std::min(deadline, *wishes_.time_limit_minutes) : *wishes_.time_limit_minutes;
        else
            out_.time_limit_minutes = deadline > 0 ? deadline : config_.defaults.time_limit_minutes;
    }

    const kube::Pod &pod_;
    const Config &config_;
    const TenantConfig &tenant_;
    const Annotations wishes_;
    Placeholder out_;
};

}  // namespace

const TenantConfig *find_tenant(const Config &config, std::string_view ns, std::string_view service_account) {
    for (const TenantConfig &tenant : config.tenants)
        if (matches(tenant.ns, ns) && (tenant.service_account.empty() || tenant.service_account == service_account))
            return &tenant;
    return nullptr;
}

static Result<Placeholder> translate_pod(const kube::Pod &pod, const Config &config, const IdentityLookup &identities) {
    if (!pod.problem.empty())
        return Error{pod.problem};
    const TenantConfig *tenant = find_tenant(config, pod.ns, pod.service_account);
    if (tenant == nullptr)
        return Error{fmt::format(
            "no tenant entry covers namespace {} (service account {}); the site would add one under tenants in "
            "berth.yaml",
            pod.ns, pod.service_account.empty() ? "none" : pod.service_account)};
    Result<Annotations> wishes = read_annotations(pod.annotations);
    if (!wishes)
        return Error{wishes.error()};
    return Translation(pod, config, *tenant, std::move(*wishes)).run(identities);
}

Result<std::vector<Shape>> translate(const Membership &, const std::vector<const kube::Pod *> &pods, const Site &site) {
    auto placeholder = translate_pod(*pods.front(), site.config, site.identities);
    if (!placeholder)
        return Error{placeholder.error()};
    return std::vector<Shape>{{std::move(*placeholder), {}, {pods.front()->uid}}};
}

}  // namespace berth
