#include "agent/translate/placeholder.h"

#include <fmt/core.h>

#include <algorithm>

#include "agent/translate/placement.h"
#include "agent/translate/quantity.h"
#include "agent/translate/shape.h"
#include "agent/translate/tenant.h"

namespace berth {
namespace {

constexpr std::size_t kLongestJobName = 320;  // namespace and pod name fit
constexpr std::size_t kLongestComment = 1024;
constexpr std::uint64_t kMebibyte = 1 << 20;
constexpr std::size_t kMostNotes = 10;

std::string own_words(std::string_view key, std::string_view value) { return annotation_words(kOwnPrefix, key, value); }

// The value of berth.dev/KEY as it was written.
std::string_view said_of(const Candidate &member, std::string_view key) {
    for (const auto &[full, value] : member.said)
        if (full.starts_with(kOwnPrefix) && std::string_view(full).substr(kOwnPrefix.size()) == key)
            return value;
    return {};
}

// The licenses of an annotation by name: "matlab:2,ansys@server" -> 2, 1. Slurm itself checks the rest of the text.
GresList named_licenses(std::string_view text) {
    GresList out;
    while (!text.empty()) {
        const std::size_t end = text.find_first_of(",;|");
        const std::string_view item = text.substr(0, end);
        const std::size_t count_at = item.find_first_of(":*");
        std::uint64_t count = 1;
        if (count_at != std::string_view::npos && !parse_number(item.substr(count_at + 1), count))
            count = 1;
        add_gres(out, item.substr(0, item.find_first_of(":*@")), count);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return out;
}

// What holds for the whole gang, whatever its shapes.
struct Whole {
    const Membership &membership;
    const Site &site;
    const TenantConfig &tenant;
    std::size_t pods, shapes;
    const PriorityClassConfig *priority_class;

    bool single() const { return !membership.gang; }
};

// One shape on its way into a Placeholder: the steps fill in `out`, and each returns the first thing that is not allowed.
class Translation {
  public:
    Translation(const Whole &whole, const Group &group, bool leads)
        : whole_(whole), group_(group), first_(*group.members.front().pod), wishes_(group.members.front().wishes), leads_(leads) {}

    Result<Shape> run() {
        set_names();
        set_sizes();
        set_time_limit();
        for (const auto step : {&Translation::set_identity, &Translation::set_choices, &Translation::set_licenses, &Translation::set_nodes,
                                &Translation::set_times, &Translation::set_dependency, &Translation::set_placement})
            if (Result<void> done = (this->*step)(); !done)
                return Error{done.error()};
        bound_notes();
        Shape shape{std::move(out_), group_.name, {}, std::move(notes_)};
        for (const Candidate &member : group_.members)
            shape.pod_uids.push_back(member.pod->uid);
        return shape;
    }

  private:
    // Each becomes an event, and the author of one pod may have thousands of wishes.
    void bound_notes() {
        if (notes_.size() <= kMostNotes)
            return;
        const std::size_t more = notes_.size() - kMostNotes;
        notes_.resize(kMostNotes);
        notes_.push_back(fmt::format("{} more wishes are ignored likewise", more));
    }

    void set_names() {
        const Membership &m = whole_.membership;
        out_.job_name = !wishes_.job_name.empty() ? wishes_.job_name : whole_.single() ? first_.full_name() : m.name;
        out_.job_name = plain(out_.job_name, kLongestJobName);
        out_.comment = whole_.single()
                           ? "pod " + first_.full_name()
                           : fmt::format("{} {}/{}: {} pod{}", m.kind, m.ns, m.name, whole_.pods, whole_.pods == 1 ? "" : "s");
        if (!wishes_.comment.empty())
            out_.comment += ": " + wishes_.comment;
        out_.comment = plain(out_.comment, kLongestComment);
        out_.constraints = wishes_.constraints;
        out_.wckey = wishes_.wckey;
    }

    void set_sizes() {
        const Need &need = group_.demand.need;
        out_.tasks = static_cast<std::uint32_t>(group_.members.size());
        out_.cpus_per_task = need.cpus;
        out_.memory_mib = need.memory_mib;
        out_.gres = need.gres;
        out_.tmp_disk_mib = group_.demand.tmp_disk_mib;
        out_.exclusive = wishes_.exclusive.value_or(whole_.site.config.defaults.exclusive);
        out_.spread = wishes_.spread;
        out_.pack = wishes_.pack;
        out_.tasks_per_node = wishes_.tasks_per_node;
        out_.switches = wishes_.switches;
        out_.switches_wait_seconds = wishes_.switches_wait_seconds;
        for (const std::string &resource : group_.demand.ignored)
            notes_.push_back(fmt::format("the request for {} is ignored, because Slurm knows nothing of it here", shown(resource)));
    }

    // The kubelet ends a pod at its own deadline, and Kubernetes a Job at its; a longer berth would only be in the way of backfill.
    void set_time_limit() {
        constexpr std::int64_t longest = INT32_MAX / 60;
        std::int64_t seconds = whole_.membership.active_deadline_seconds;
        if (seconds <= 0) {
            const auto deadline_of = [](const Candidate &m) { return m.pod->active_deadline_seconds; };
            for (const Candidate &member : group_.members)
                seconds = std::max(seconds, deadline_of(member));
            if (std::any_of(group_.members.begin(), group_.members.end(), [&](const Candidate &m) { return deadline_of(m) <= 0; }))
                seconds = 0;
        }
        const auto deadline =
            static_cast<std::uint32_t>(seconds > 0 ? std::min(longest, seconds / 60 + (seconds % 60 > 0)) : 0);
        if (wishes_.time_limit_minutes)
            out_.time_limit_minutes = deadline > 0 ? std::min(deadline, *wishes_.time_limit_minutes) : *wishes_.time_limit_minutes;
        else
            out_.time_limit_minutes = deadline > 0 ? deadline : whole_.site.config.defaults.time_limit_minutes;
    }

    Result<void> set_identity() {
        const Result<Identity> identity = identity_of(whole_.tenant, wishes_, first_.ns, whole_.site.identities);
        if (!identity)
            return Error{identity.error()};
        out_.uid = identity->uid;
        out_.gid = identity->gid;
        return {};
    }

    Result<void> set_choices() { return choose(whole_.tenant, wishes_, whole_.priority_class, first_.ns, out_); }

    // Slurm counts licenses by job: those of all pods, and those of the annotation once for the gang. The annotation speaks for each
    // license that it names.
    Result<void> set_licenses() {
        out_.licenses = leads_ ? wishes_.licenses : "";
        const GresList named = named_licenses(out_.licenses);
        for (const auto &[name, count] : group_.demand.licenses) {
            const std::uint64_t said = count_of(named, name);
            if (said >= count)
                continue;
            if (said > 0 || out_.licenses.find('|') != std::string::npos)
                return Error{fmt::format(
                    "{} is less than the pods themselves ask for ({} of {}); accepted is {}:{} or more in a list with commas, or no {} "
                    "in the annotation",
                    annotation_words(kAnnotationPrefix, "licenses", wishes_.licenses), count, name, name, count, name)};
            out_.licenses += fmt::format("{}{}:{}", out_.licenses.empty() ? "" : ",", name, count);
        }
        return {};
    }

    Result<void> set_nodes() {
        const auto words = [](std::string_view key, std::uint32_t n) {
            return annotation_words(kAnnotationPrefix, key, std::to_string(n));
        };
        out_.max_nodes = whole_.single() ? 1 : 0;
        for (const auto &[key, wish] : {std::pair("min-nodes", wishes_.min_nodes), std::pair("max-nodes", wishes_.max_nodes)}) {
            if (!wish)
                continue;
            if (whole_.single() && *wish != 1)
                return Error{words(key, *wish) + " is refused, because a single pod takes one node; accepted is 1"};
            if (whole_.shapes > 1)
                return Error{fmt::format("{} is refused, because the pods of this gang have {} different sizes; accepted is no {} here",
                                         words(key, *wish), whole_.shapes, key)};
        }
        if (wishes_.min_nodes && *wishes_.min_nodes > out_.tasks)
            return Error{fmt::format("{} is refused, because the gang has {} pods; accepted are 1 to {}",
                                     words("min-nodes", *wishes_.min_nodes), out_.tasks, out_.tasks)};
        if (wishes_.min_nodes && wishes_.max_nodes && *wishes_.max_nodes < *wishes_.min_nodes)
            return Error{fmt::format("{} is below min-nodes; accepted is {} or more", words("max-nodes", *wishes_.max_nodes),
                                     *wishes_.min_nodes)};
        out_.max_nodes = wishes_.max_nodes.value_or(out_.max_nodes);
        out_.min_nodes = wishes_.min_nodes.value_or(out_.max_nodes == 0 ? fewest_nodes() : std::min(fewest_nodes(), out_.max_nodes));
        return {};
    }

    // So many nodes the pods need however they are placed. Told only that one may be enough, Slurm begins with the first free node and
    // looks for the best switch too late.
    std::uint32_t fewest_nodes() const {
        std::uint64_t most = 0;  // pods on one node
        for (const SiteNode &node : whole_.site.nodes) {
            if (node.cpu_milli <= 0 || node.memory_bytes <= 0)
                continue;
            const std::uint64_t by_cpu = static_cast<std::uint64_t>(node.cpu_milli) / 1000 / std::max<std::uint64_t>(out_.cpus_per_task, 1);
            const std::uint64_t by_memory =
                static_cast<std::uint64_t>(node.memory_bytes) / kMebibyte / std::max<std::uint64_t>(out_.memory_mib, 1);
            most = std::max(most, std::min(by_cpu, by_memory));
        }
        if (out_.tasks_per_node != 0)
            most = std::min<std::uint64_t>(most, out_.tasks_per_node);
        if (most == 0 || most >= out_.tasks)
            return 1;
        return static_cast<std::uint32_t>((out_.tasks + most - 1) / most);
    }

    Result<void> set_times() {
        const std::time_t now = whole_.site.now;
        const std::int64_t born = whole_.membership.created > 0 ? whole_.membership.created : first_.created;
        const std::time_t created = born > 0 ? born : now;
        if (wishes_.begin && wishes_.begin->at(created) > now)
            out_.begin = wishes_.begin->at(created);
        if (!wishes_.deadline)
            return {};
        out_.deadline = wishes_.deadline->at(created);
        const std::string words = own_words("deadline", said_of(group_.members.front(), "deadline"));
        if (out_.deadline <= now)
            return Error{words + " has passed; accepted is a time that is still to come"};
        if (out_.deadline <= out_.begin)
            return Error{fmt::format("{} is not after {}begin; accepted is a later time", words, kOwnPrefix)};
        return {};
    }

    Result<void> set_dependency() {
        if (wishes_.dependencies.empty())
            return {};
        const std::string kind = whole_.membership.kind.empty() ? "Pod" : whole_.membership.kind;
        Result<std::string> resolved = resolve_dependencies(wishes_.dependencies, first_.ns, kind, whole_.site.jobs_of);
        if (!resolved)
            return Error{fmt::format("annotation {}dependency {}", kOwnPrefix, resolved.error())};
        out_.dependency = std::move(*resolved);
        return {};
    }

    Result<void> set_placement() {
        std::vector<const kube::Pod *> pods;
        for (const Candidate &member : group_.members)
            pods.push_back(member.pod);
        const Config &config = whole_.site.config;
        const auto any = [&](bool kube::Placement::*wish) {
            return std::any_of(pods.begin(), pods.end(), [&](const kube::Pod *p) { return p->placement && p->placement.get()->*wish; });
        };
        const struct {
            bool there;
            Unmet policy;
            const char *what, *key;
        } untold[] = {
            {any(&kube::Placement::pod_affinity), config.pod_affinity, "required affinity to other pods", "pod_affinity"},
            {any(&kube::Placement::topology_spread), config.topology_spread, "topology spread constraint", "topology_spread"},
        };
        for (const auto &wish : untold) {
            if (wish.there && wish.policy == Unmet::refuse)
                return Error{fmt::format("the pod has a {}, which Slurm cannot be told; accepted is a pod without it, or annotation "
                                         "{}spread or {}pack (the site refuses it by unmet.{} in berth.yaml)",
                                         wish.what, kOwnPrefix, kOwnPrefix, wish.key)};
            if (wish.there)
                notes_.push_back(fmt::format("the {} is ignored, because Slurm cannot be told of it", wish.what));
        }
        Result<std::string> excluded = excluded_nodes(pods, wishes_.exclude, whole_.site);
        if (!excluded)
            return Error{excluded.error()};
        out_.excluded_nodes = std::move(*excluded);
        out_.prefer = !wishes_.prefer.empty() ? wishes_.prefer : preferred_features(first_, whole_.site, notes_);
        return {};
    }

    const Whole &whole_;
    const Group &group_;
    const kube::Pod &first_;
    const Annotations &wishes_;
    const bool leads_;  // the gang's first shape
    Placeholder out_;
    std::vector<std::string> notes_;
};

// All members must be the same tenant: one of them must not ride on another's name.
Result<const TenantConfig *> common_tenant(const std::vector<Group> &groups, const Config &config) {
    const kube::Pod &first = *groups.front().members.front().pod;
    Result<const TenantConfig *> tenant = tenant_of(first, config);
    for (const Group &group : groups)
        for (const Candidate &member : group.members)
            if (tenant && (member.pod->ns != first.ns || find_tenant(config, first.ns, member.pod->service_account) != *tenant))
                return Error{fmt::format("pods {} and {} are in one gang, but different tenants by their service accounts; accepted is one "
                                         "tenant for a gang",
                                         first.full_name(), member.pod->full_name())};
    return tenant;
}

// The most urgent member's class is the gang's, for one gang has one QOS.
const PriorityClassConfig *common_class(const std::vector<Group> &groups, const Config &config) {
    const kube::Pod *most = nullptr;
    for (const Group &group : groups)
        for (const Candidate &member : group.members)
            if (most == nullptr || member.pod->priority > most->priority)
                most = member.pod;
    const auto at = std::find_if(config.priority_classes.begin(), config.priority_classes.end(),
                                 [&](const PriorityClassConfig &c) { return c.name == most->priority_class; });
    return at == config.priority_classes.end() ? nullptr : &*at;
}

}  // namespace

Result<std::vector<Shape>> translate(const Membership &membership, const std::vector<const kube::Pod *> &pods, const Site &site) {
    Result<std::vector<Group>> groups = group_by_shape(membership, pods, site.config);
    if (!groups)
        return Error{groups.error()};
    const Result<const TenantConfig *> tenant = common_tenant(*groups, site.config);
    if (!tenant)
        return Error{tenant.error()};
    if (membership.min_resources)
        if (Result<void> raised = raise_to_minimum(*groups, *membership.min_resources); !raised)
            return Error{raised.error()};
    std::size_t count = 0;
    for (const Group &group : *groups)
        count += group.members.size();
    const Whole whole{membership, site, **tenant, count, groups->size(), common_class(*groups, site.config)};
    std::vector<Shape> shapes;
    for (const Group &group : *groups) {
        Result<Shape> shape = Translation(whole, group, shapes.empty()).run();
        if (!shape)
            return Error{shape.error()};
        shapes.push_back(std::move(*shape));
    }
    return shapes;
}

}  // namespace berth
