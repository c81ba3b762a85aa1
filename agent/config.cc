#include "agent/config.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "agent/config_reader.h"
#include "agent/lifecycle/election.h"
#include "agent/translate/annotations.h"
#include "agent/translate/quantity.h"
#include "agent/web/address.h"
#include "agent/yaml.h"

namespace berth {
namespace {

constexpr std::size_t kLongestSocketPath = 107;  // sockaddr_un, with its final zero

// --- what texts may look like: an empty string is a yes, else the sentence's end

bool all_of(std::string_view text, bool (*good)(char)) { return std::all_of(text.begin(), text.end(), good); }

bool is_lower_or_digit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

std::string any_text(std::string_view) { return {}; }

std::string slurm_name(std::string_view text) {
    return is_safe_name(text)
               ? ""
               : "is not a name that Slurm takes; accepted are 1 to 64 of the characters A-Z a-z 0-9 _ . -";
}

std::string absolute_path(std::string_view text) {
    return text.starts_with('/') ? "" : "is not an absolute path; accepted are paths that begin with /";
}

std::string socket_path(std::string_view text) {
    if (text.size() > kLongestSocketPath)
        return fmt::format("is too long for a socket; accepted are up to {} characters", kLongestSocketPath);
    return absolute_path(text);
}

// One path, or several as in KUBECONFIG; nothing means the pod's service account.
std::string kubeconfig_paths(std::string_view text) {
    while (!text.empty()) {
        const std::size_t colon = text.find(':');
        if (!text.starts_with('/'))
            return "is not an absolute path; accepted are paths that begin with /, several with : between them, "
                   "or \"\"";
        text.remove_prefix(colon == std::string_view::npos ? text.size() : colon + 1);
    }
    return {};
}

std::string cluster_name(std::string_view text) {
    const bool good =
        !text.empty() && text.size() <= 63 && all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
    return good ? "" : "is not a cluster name; accepted are 1 to 63 of the characters a-z 0-9 -";
}

std::string object_name(std::string_view text) {
    const bool good = !text.empty() && text.size() <= 253 &&
                      all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-' || c == '.'; });
    return good ? "" : "is not a Kubernetes name; accepted are 1 to 253 of the characters a-z 0-9 - .";
}

std::string object_name_or_empty(std::string_view text) { return text.empty() ? "" : object_name(text); }

std::string namespace_pattern(std::string_view text) {
    const bool good = !text.empty() && text.size() <= 63 &&
                      all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-' || c == '*'; });
    return good
               ? ""
               : "is not a namespace; accepted are 1 to 63 of the characters a-z 0-9 - and * for any run of characters";
}

// Directory services have names such as "DOMAIN\user" and "user@realm".
std::string account_name(std::string_view text) {
    const bool good = !text.empty() && text.size() <= 64 &&
                      all_of(text, [](char c) { return c > ' ' && c < 127 && c != ':' && c != ',' && c != '"'; });
    if (!good)
        return "is not a name; accepted is a name that the system knows, or a number";
    if (text == "root" || text.find_first_not_of("+-0") == std::string_view::npos)
        return "is refused, because pods never run as root in Slurm; accepted is any other name or number";
    return {};
}

std::string group_name_or_empty(std::string_view text) { return text.empty() ? "" : account_name(text); }

std::string log_level(std::string_view text) {
    const bool good = text == "debug" || text == "info" || text == "warning" || text == "error";
    return good ? "" : "is no log level; accepted are debug, info, warning and error";
}

bool is_prefixed_name(std::string_view text) {
    const std::size_t slash = text.find('/');
    return slash != std::string_view::npos && is_safe_name(text.substr(slash + 1)) && object_name(text.substr(0, slash)).empty();
}

std::string resource_name(std::string_view text) {
    constexpr std::string_view huge = "hugepages-";
    const bool good = is_prefixed_name(text) || text == "ephemeral-storage" ||
                      (text.starts_with(huge) && parse_units(text.substr(huge.size())).ok());
    return good ? "" : "is not an extended resource; accepted are names such as nvidia.com/gpu, hugepages-2Mi and ephemeral-storage";
}

std::string label_name(std::string_view text) {
    const bool good = is_prefixed_name(text) || is_safe_name(text);
    return good ? "" : "is not the name of a label; accepted are names such as example.com/gpu-model";
}

std::string taint_name_or_empty(std::string_view text) {
    const bool good = text.empty() || is_prefixed_name(text) || is_safe_name(text);
    return good ? "" : "is not the key of a taint; accepted are keys such as slinky.slurm.net/managed-node, and \"\" for none";
}

std::string resource_use(std::string_view text) {
    const bool good = text == "memory" || text == "tmp_disk" || text == "ignore";
    return good ? "" : "is refused; accepted are memory, tmp_disk and ignore";
}

std::string gres_name(std::string_view text) {
    const std::size_t colon = text.find(':');
    const bool good = is_safe_name(text.substr(0, colon)) &&
                      (colon == std::string_view::npos || is_safe_name(text.substr(colon + 1)));
    return good ? "" : "is not a generic resource of Slurm; accepted are NAME and NAME:TYPE, such as gpu or gpu:a100";
}

// --- sections

Result<void> read_cluster(const Place &at, std::vector<ClusterConfig> &clusters) {
    ClusterConfig cluster;
    Result<void> done = read_map(at, {
                                         {"name", text_field(cluster.name, cluster_name)},
                                         {"kubeconfig", text_field(cluster.kubeconfig, kubeconfig_paths)},
                                         {"context", text_field(cluster.context, any_text)},
                                         {"scheduler_name", text_field(cluster.scheduler_name, object_name)},
                                     });
    if (!done)
        return done;
    for (std::size_t i = 0; i < clusters.size(); i++)
        if (clusters[i].name == cluster.name)
            return Place{at.node, at.path + ".name"}.wrong(
                fmt::format("\"{}\" is the name of clusters[{}] too; accepted is a name of its own for each cluster",
                            cluster.name, i));
    clusters.push_back(std::move(cluster));
    return {};
}

Result<void> read_tenant(const Place &at, std::vector<TenantConfig> &tenants) {
    TenantConfig tenant;
    Result<void> done = read_map(at, {
                                         {"namespace", text_field(tenant.ns, namespace_pattern), true},
                                         {"service_account", text_field(tenant.service_account, object_name_or_empty)},
                                         {"user", text_field(tenant.user, account_name), true},
                                         {"group", text_field(tenant.group, group_name_or_empty)},
                                         {"accounts", text_list(tenant.accounts, slurm_name)},
                                         {"partitions", text_list(tenant.partitions, slurm_name)},
                                         {"qos", text_list(tenant.qos, slurm_name)},
                                         {"reservations", text_list(tenant.reservations, slurm_name)},
                                         {"may_set_priority", bool_field(tenant.may_set_priority)},
                                     });
    if (!done)
        return done;
    for (std::size_t i = 0; i < tenants.size(); i++)
        if (tenants[i].ns == tenant.ns && tenants[i].service_account == tenant.service_account)
            return Place{at.node, at.path + ".namespace"}.wrong(fmt::format(
                "\"{}\" stands in tenants[{}] already, and the first entry counts; accepted is one entry for each "
                "namespace and service account",
                tenant.ns, i));
    tenants.push_back(std::move(tenant));
    return {};
}

// An entry for a resource that has a mapping from the start replaces it; `named` are those that the file has given.
Result<void> read_gres(const Place &at, std::vector<GresConfig> &gres, std::vector<std::string> &named) {
    GresConfig entry;
    std::string as;
    Result<void> done = read_map(at, {
                                         {"resource", text_field(entry.resource, resource_name), true},
                                         {"gres", text_field(entry.gres, gres_name)},
                                         {"license", text_field(entry.license, slurm_name)},
                                         {"as", text_field(as, resource_use)},
                                     });
    if (!done)
        return done;
    entry.memory = as == "memory";
    entry.tmp_disk = as == "tmp_disk";
    entry.ignore = as == "ignore";
    const int meanings = !entry.gres.empty() + !entry.license.empty() + !as.empty();
    if (meanings != 1)
        return at.wrong(fmt::format("says {} what the resource is in Slurm; accepted is one of gres, license and as",
                                    meanings == 0 ? "nowhere" : "more than once"));
    if (std::find(named.begin(), named.end(), entry.resource) != named.end())
        return Place{at.node, at.path + ".resource"}.wrong(
            fmt::format("\"{}\" is given twice; accepted is one entry for each resource", entry.resource));
    named.push_back(entry.resource);
    const auto same =
        std::find_if(gres.begin(), gres.end(), [&](const GresConfig &g) { return g.resource == entry.resource; });
    if (same == gres.end())
        gres.push_back(std::move(entry));
    else
        *same = std::move(entry);
    return {};
}

Result<void> read_priority_class(const Place &at, std::vector<PriorityClassConfig> &classes) {
    constexpr std::int64_t most = 0x7ffffffd;  // of Slurm's nice
    PriorityClassConfig entry;
    Result<void> done = read_map(
        at, {
                {"name", text_field(entry.name, object_name), true},
                {"qos", text_field(entry.qos, slurm_name)},
                {"nice", int_field(-most, most, [&](std::int64_t n) { entry.nice = static_cast<std::int32_t>(n); })},
            });
    if (!done)
        return done;
    if (entry.qos.empty() && !entry.nice)
        return at.wrong("does not say what the class means in Slurm; accepted are qos, nice or both");
    for (const PriorityClassConfig &other : classes)
        if (other.name == entry.name)
            return Place{at.node, at.path + ".name"}.wrong(
                fmt::format("\"{}\" is given twice; accepted is one entry for each class", entry.name));
    classes.push_back(std::move(entry));
    return {};
}

Result<void> read_feature(const Place &at, std::vector<FeatureConfig> &features) {
    FeatureConfig entry;
    Result<void> done = read_map(at, {{"label", text_field(entry.label, label_name), true}});
    if (!done)
        return done;
    for (const FeatureConfig &other : features)
        if (other.label == entry.label)
            return Place{at.node, at.path + ".label"}.wrong(
                fmt::format("\"{}\" is given twice; accepted is each label once", entry.label));
    features.push_back(std::move(entry));
    return {};
}

ReadValue unmet_field(Unmet &field) {
    return parsed_field([&field](std::string_view text) -> Result<void> {
        if (text != "refuse" && text != "ignore")
            return Error{fmt::format("\"{}\" is refused; accepted are refuse and ignore", shown(text))};
        field = text == "refuse" ? Unmet::refuse : Unmet::ignore;
        return {};
    });
}

Result<void> read_unmet(const Place &at, Config &config) {
    return read_map(at, {
                            {"resources", unmet_field(config.unmapped_resources)},
                            {"pod_affinity", unmet_field(config.pod_affinity)},
                            {"topology_spread", unmet_field(config.topology_spread)},
                        });
}

Result<void> read_defaults(const Place &at, DefaultsConfig &defaults) {
    const auto memory = [&](std::string_view text) -> Result<void> {
        const Result<std::int64_t> bytes = parse_units(text);
        if (!bytes)
            return Error{bytes.error()};
        if (*bytes == 0)
            return Error{fmt::format(
                "\"{}\" would be all of a node's memory to Slurm; accepted are quantities above 0, such as 512Mi",
                text)};
        defaults.memory_mib = mib_rounded_up(*bytes);
        return {};
    };
    const auto cpu = [&](std::string_view text) -> Result<void> {
        const Result<std::int64_t> milli = parse_milli(text);
        if (!milli)
            return Error{milli.error()};
        if (*milli == 0 || *milli > kMaxCpus * 1000)
            return Error{
                fmt::format("\"{}\" is out of range; accepted are quantities above 0 and up to {}, such as 1 or 500m",
                            text, kMaxCpus)};
        defaults.cpu_milli = *milli;
        return {};
    };
    const auto time_limit = [&](std::string_view text) -> Result<void> {
        const Result<std::uint32_t> minutes = parse_time_limit(text);
        if (!minutes)
            return Error{minutes.error()};
        defaults.time_limit_minutes = *minutes;
        return {};
    };
    const auto gang = [&](std::string_view text) -> Result<void> {
        if (text != "asked" && text != "indexed")
            return Error{fmt::format("\"{}\" is refused; accepted are asked and indexed", shown(text))};
        defaults.indexed_job_is_gang = text == "indexed";
        return {};
    };
    return read_map(at, {
                            {"memory", parsed_field(memory)},
                            {"cpu", parsed_field(cpu)},
                            {"time_limit", parsed_field(time_limit)},
                            {"exclusive", bool_field(defaults.exclusive)},
                            {"gang", parsed_field(gang)},
                            {"managed_taint", text_field(defaults.managed_taint, taint_name_or_empty)},
                        });
}

std::string host_name_or_empty(std::string_view text) {
    const bool good = text.size() <= 128 && all_of(text, [](char c) { return c > ' ' && c < 127 && c != '"' && c != '\\'; });
    return good ? "" : "is not an identity; accepted are up to 128 printable characters without blanks, such as the host's name, or \"\"";
}

Result<void> read_lease(const Place &at, LeaseConfig &lease) {
    Result<void> done = read_map(at, {
                                         {"namespace", text_field(lease.ns, object_name)},
                                         {"name", text_field(lease.name, object_name_or_empty)},
                                         {"identity", text_field(lease.identity, host_name_or_empty)},
                                         {"duration", duration_field(lease.duration)},
                                         {"renew_deadline", duration_field(lease.renew_deadline)},
                                         {"retry", duration_field(lease.retry)},
                                     });
    if (!done)
        return done;
    if (lease.duration <= lease.renew_deadline)
        return at.wrong(fmt::format("duration ({}s) is not longer than renew_deadline ({}s), so two controllers could lead at once; accepted is "
                                    "a duration of {}s or more",
                                    lease.duration.count(), lease.renew_deadline.count(), lease.renew_deadline.count() + 1));
    if (lease.duration > longest_lease)
        return at.wrong(fmt::format("duration ({}s) is longer than a standby waits for any leader; accepted is a duration of {}s or less",
                                    lease.duration.count(), std::chrono::seconds(longest_lease).count()));
    if (lease.renew_deadline < 2 * lease.retry)
        return at.wrong(fmt::format("renew_deadline ({}s) is shorter than two times retry ({}s), so one lost renewal would stop the leader; "
                                    "accepted is a renew_deadline of {}s or more",
                                    lease.renew_deadline.count(), lease.retry.count(), 2 * lease.retry.count()));
    return {};
}

Result<void> read_controller(const Place &at, ControllerConfig &c) {
    const auto warn = [&](std::string_view text) -> Result<void> {
        const Result<std::chrono::seconds> value = parse_warn(text);
        if (!value)
            return Error{value.error()};
        c.warn = *value;
        return {};
    };
    const auto cap = [&](std::string_view text) -> Result<void> {
        std::uint32_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
        if (error != std::errc() || number == 0 || !(rest.empty() || (rest == "%" && number <= 90)))
            return Error{fmt::format("\"{}\" is refused; accepted are a number from 1 and a share of MaxJobCount from 1% to 90%", shown(text))};
        c.max_placeholders = rest.empty() ? PlaceholderCap{number, 0} : PlaceholderCap{0, number};
        return {};
    };
    return read_map(
        at,
        {
            {"doorbell_port",
             int_field(0, 65535, [&](std::int64_t n) { c.doorbell_port = static_cast<std::uint16_t>(n); })},
            {"notify_socket", text_field(c.notify_socket, socket_path)},
            {"placeholder_table", text_field(c.placeholder_table, absolute_path)},
            {"reconcile", duration_field(c.reconcile)},
            {"submit_threads", int_field(1, 64, [&](std::int64_t n) { c.submit_threads = static_cast<unsigned>(n); })},
            {"max_placeholders", parsed_field(cap)},
            {"condition_delay", duration_field(c.condition_delay)},
            {"warn", parsed_field(warn)},
            {"lease", [&](const Place &lease) { return read_lease(lease, c.lease); }},
        });
}

Result<void> read_services(const Place &at, ServicesConfig &services) {
    const auto up_to = [&](std::string_view text) -> Result<void> {
        services.renew_up_to_minutes = 0;
        if (text == "unlimited")
            return {};
        const Result<std::int64_t> ms = parse_duration_ms(text);
        constexpr std::int64_t minute = 60'000;
        if (!ms || *ms < minute || *ms / minute > 0x7fffffff)
            return Error{
                fmt::format("\"{}\" is refused; accepted are unlimited and durations of a minute or more, such as 30d", shown(text))};
        services.renew_up_to_minutes = static_cast<std::uint32_t>(*ms / minute);
        return {};
    };
    return read_map(at, {{"renew", bool_field(services.renew)}, {"renew_up_to", parsed_field(up_to)}});
}

Result<void> read_node_map(const Place &at, std::vector<NodeMapConfig> &map) {
    NodeMapConfig entry;
    Result<void> done = read_map(at, {
                                         {"slurm", text_field(entry.slurm, slurm_name), true},
                                         {"kubernetes", text_field(entry.kubernetes, object_name), true},
                                     });
    if (!done)
        return done;
    for (const NodeMapConfig &other : map)
        if (other.slurm == entry.slurm || other.kubernetes == entry.kubernetes)
            return at.wrong(fmt::format("\"{}\" is given twice; accepted is one entry for each node",
                                        other.slurm == entry.slurm ? entry.slurm : entry.kubernetes));
    map.push_back(std::move(entry));
    return {};
}

Result<void> read_nodes(const Place &at, NodesConfig &nodes) {
    const auto on_slurm_drain = [&](std::string_view text) -> Result<void> {
        if (text != "cordon" && text != "mark" && text != "nothing")
            return Error{fmt::format("\"{}\" is refused; accepted are cordon, mark and nothing", shown(text))};
        nodes.mirror.on_slurm_drain = text == "cordon" ? OnSlurmDrain::cordon : text == "mark" ? OnSlurmDrain::mark : OnSlurmDrain::nothing;
        return {};
    };
    const auto on_kubernetes_trouble = [&](std::string_view text) -> Result<void> {
        if (text != "drain" && text != "nothing")
            return Error{fmt::format("\"{}\" is refused; accepted are drain and nothing", shown(text))};
        nodes.mirror.drain_in_slurm = text == "drain";
        return {};
    };
    const auto lost = [&](std::string_view text) -> Result<void> {
        if (text != "wait" && text != "force")
            return Error{fmt::format("\"{}\" is refused; accepted are wait and force", shown(text))};
        nodes.lost = text == "force" ? OnLostNode::force : OnLostNode::wait;
        return {};
    };
    return read_map(at, {
                            {"on_slurm_drain", parsed_field(on_slurm_drain)},
                            {"on_kubernetes_trouble", parsed_field(on_kubernetes_trouble)},
                            {"not_ready_patience", duration_field(nodes.not_ready_patience)},
                            {"map", [&](const Place &list) {
                                 return read_list(list, [&](const Place &item) { return read_node_map(item, nodes.map); });
                             }},
                            {"lost", parsed_field(lost)},
                            {"taint", bool_field(nodes.taint)},
                        });
}

Result<void> read_node(const Place &at, NodeConfig &node) {
    const auto isolation = [&](std::string_view text) -> Result<void> {
        if (text != "shares" && text != "cores")
            return Error{fmt::format("\"{}\" is refused; accepted are shares and cores", shown(text))};
        node.isolation = text == "cores" ? Isolation::cores : Isolation::shares;
        return {};
    };
    return read_map(at, {
                            {"run_dir", text_field(node.run_dir, absolute_path)},
                            {"kube_name", text_field(node.kube_name, object_name_or_empty)},
                            {"cgroup_mount", text_field(node.cgroup_mount, absolute_path)},
                            {"cgroup_root", text_field(node.cgroup_root, absolute_path)},
                            {"isolation", parsed_field(isolation)},
                            {"reconcile", duration_field(node.reconcile)},
                        });
}

Result<void> read_hold(const Place &at, HoldConfig &hold) {
    Result<void> done = read_map(at, {
                                         {"max_grace", duration_field(hold.max_grace)},
                                         {"limit", duration_field(hold.limit)},
                                         {"kill_wait", duration_field(hold.kill_wait)},
                                         {"api_down", duration_field(hold.api_down)},
                                     });
    if (!done || hold.limit >= hold.max_grace)
        return done;
    const yaml::Node *limit = at.node.find("limit");
    const yaml::Node *blamed = limit != nullptr ? limit : at.node.find("max_grace");
    return Place{*blamed, at.path + (limit != nullptr ? ".limit" : ".max_grace")}.wrong(
        fmt::format("hold.limit ({}s) is shorter than hold.max_grace ({}s), so pods would be killed inside their "
                    "grace; accepted is a limit of {}s or more",
                    hold.limit.count(), hold.max_grace.count(), hold.max_grace.count()));
}

// Whoever can reach the port can read the names of all workloads. So more than this host is a thing to be said twice.
Result<void> read_web(const Place &at, WebConfig &web) {
    const auto address = [](std::string_view text) {
        const auto parsed = web::parse_address(text);
        return parsed ? std::string() : parsed.error();
    };
    Result<void> done = read_map(at, {
                                         {"listen", text_field(web.listen, address)},
                                         {"node_listen", text_field(web.node_listen, address)},
                                         {"beyond_loopback", bool_field(web.beyond_loopback)},
                                     });
    if (!done || web.beyond_loopback)
        return done;
    for (const std::string_view key : {"listen", "node_listen"})
        if (const yaml::Node *node = at.node.find(key); node != nullptr) {
            const auto parsed = web::parse_address(node->text());
            if (parsed && *parsed && !(*parsed)->loopback())
                return Place{*node, fmt::format("{}.{}", at.path, key)}.wrong(
                    fmt::format("\"{}\" can be reached from other hosts, and who reaches it reads the names of all workloads; accepted are addresses of "
                                "loopback, or any with web.beyond_loopback: true",
                                node->text()));
        }
    return {};
}

Result<Config> read_config(const yaml::Node &root) {
    Config config;
    std::vector<std::string> named_gres;
    const auto items = [](auto read) { return [read](const Place &at) { return read_list(at, read); }; };
    const Place top{root, ""};
    Result<void> done = read_map(
        top, {
                 {"key_file", text_field(config.key_file, absolute_path)},
                 {"log_level", text_field(config.log_level, log_level)},
                 {"clusters", items([&](const Place &at) { return read_cluster(at, config.clusters); })},
                 {"tenants", items([&](const Place &at) { return read_tenant(at, config.tenants); })},
                 {"defaults", [&](const Place &at) { return read_defaults(at, config.defaults); }},
                 {"gres", items([&](const Place &at) { return read_gres(at, config.gres, named_gres); })},
                 {"unmet", [&](const Place &at) { return read_unmet(at, config); }},
                 {"priority_classes", items([&](const Place &at) { return read_priority_class(at, config.priority_classes); })},
                 {"features", items([&](const Place &at) { return read_feature(at, config.features); })},
                 {"controller", [&](const Place &at) { return read_controller(at, config.controller); }},
                 {"services", [&](const Place &at) { return read_services(at, config.services); }},
                 {"nodes", [&](const Place &at) { return read_nodes(at, config.nodes); }},
                 {"node", [&](const Place &at) { return read_node(at, config.node); }},
                 {"hold", [&](const Place &at) { return read_hold(at, config.hold); }},
                 {"web", [&](const Place &at) { return read_web(at, config.web); }},
             });
    if (!done)
        return Error{done.error()};
    if (config.clusters.empty()) {
        const yaml::Node *given = root.find("clusters");
        return Place{given != nullptr ? *given : root, "clusters"}.wrong(
            given != nullptr
                ? "is empty; accepted is a list of at least one Kubernetes cluster, such as \"- name: main\""
                : "is missing; accepted is a list of at least one Kubernetes cluster, such as \"- name: main\"");
    }
    return config;
}

Result<Config> from_tree(const Result<yaml::Node> &root) {
    if (!root)
        return Error{root.error()};
    return read_config(*root);
}

}  // namespace

std::uint32_t PlaceholderCap::of(std::uint32_t max_job_count) const {
    constexpr std::uint32_t slurms_default = 10'000;
    const std::uint64_t jobs = max_job_count != 0 ? max_job_count : slurms_default;
    return number != 0 ? number : static_cast<std::uint32_t>(std::max<std::uint64_t>(1, jobs * percent / 100));
}

Result<Config> load_config(const std::string &path) { return from_tree(yaml::parse_file(path)); }

Result<Config> parse_config(const std::string &text, const std::string &name) {
    return from_tree(yaml::parse(text, name));
}

}  // namespace berth
