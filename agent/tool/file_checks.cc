// The files and sockets of Berth itself.
#include <fmt/format.h>

#include "agent/tool/site_checks.h"

namespace berth::tool {

namespace {

constexpr const char *section_name = "Berth";
constexpr std::uint64_t shortest_key = 32, longest_key = 4096;
constexpr std::uint32_t forbidden_mode = 0137;  // beyond 0640

void same(Section &section, const char *check, std::string_view yaml_key, const std::string &yaml, std::string_view conf_key,
          const std::string &conf) {
    if (yaml == conf)
        section.ok(check, fmt::format("{} in berth.yaml and {} in berth.conf agree", yaml_key, conf_key));
    else
        section.problem(check, fmt::format("{} in berth.yaml is {}, {} in berth.conf is {}", yaml_key, yaml, conf_key, conf),
                        "Give both the same path.");
}

}  // namespace

void check_key(const KeyFacts &key, std::uint32_t slurm_uid, Findings &out) {
    Section section(section_name, out);
    constexpr const char *check = "key_file";
    if (!key.problem.empty())
        return section.problem(check, fmt::format("the key {} cannot be looked at: {}", key.path, key.problem),
                               "Make it on slurmctld's host and copy it to every node; docs/admin.md, \"The key\", has the commands.");
    const std::string fix = fmt::format("chown root:SLURMUSER'S-GROUP {0}; chmod 0640 {0}", key.path);
    if (key.uid != 0 && key.uid != slurm_uid)
        return section.problem(
            check, fmt::format("the key {} belongs to uid {}, neither root nor SlurmUser: it is not accepted", key.path, key.uid), fix);
    if ((key.mode & forbidden_mode) != 0)
        return section.problem(check, fmt::format("the key {} has mode {:04o}, wider than 0640: it is not accepted", key.path, key.mode),
                               fix);
    if (key.size < shortest_key || key.size > longest_key)
        return section.problem(check, fmt::format("the key {} has {} bytes; 32 to 4096 are accepted", key.path, key.size),
                               fmt::format("Make a new one: openssl rand -hex 32 > {}", key.path));
    if (!key.slurm_user_reads)
        return section.problem(check, fmt::format("SlurmUser cannot read the key {}, so slurmctld seals no placeholder", key.path), fix);
    section.ok(check, fmt::format("the key {} is there, with owner and mode as they must be", key.path));
}

void check_rules(const RulesFacts &facts, const Config &config, const slurm::Settings *settings, const IdentityLookup &identities,
                 Findings &out) {
    Section section(section_name, out);
    if (!facts.rules)
        return section.problem("berth_conf",
                               fmt::format("berth.conf is missing or wrong, so no placeholder is accepted: {}", facts.problem),
                               "Correct it; berth.conf(5) says what it may hold.");
    const Rules &rules = *facts.rules;
    section.ok("berth_conf", fmt::format("{} is good", facts.path));
    same(section, "key_paths", "key_file", config.key_file, "KeyFile", rules.key_file);
    same(section, "notify_socket", "controller.notify_socket", config.controller.notify_socket, "NotifySocket", rules.notify_socket);
    same(section, "placeholder_table", "controller.placeholder_table", config.controller.placeholder_table, "PlaceholderTable",
         rules.placeholder_table);
    if (settings != nullptr) {
        if (rules.bridge_uid == settings->slurm_uid)
            section.ok("bridge_user", fmt::format("BridgeUser is SlurmUser ({})", rules.bridge_user));
        else if (rules.bridge_uid == 0)
            section.warn("bridge_user", "BridgeUser is root: slurmctld must be able to read the controller's socket and table",
                         fmt::format("Run the controller as SlurmUser ({}) and name that in BridgeUser.", settings->slurm_user));
        else
            section.problem(
                "bridge_user",
                fmt::format("BridgeUser is {}, neither SlurmUser nor root: Slurm lets nobody else end others' jobs", rules.bridge_user),
                fmt::format("Run the controller as SlurmUser ({}) and name that in BridgeUser.", settings->slurm_user));
    }
    for (const TenantConfig &tenant : config.tenants) {
        const auto identity = identities(tenant.user, tenant.group);
        std::string why;
        if (!identity)
            section.problem("tenants", fmt::format("tenant of namespace {}: {}", tenant.ns, identity.error()),
                            "Correct the user or group in berth.yaml.");
        // Of a pattern nobody knows here which namespaces it covers.
        else if (!may_be_tenant(rules, identity->uid, identity->gid, why) ||
                 (tenant.ns.find('*') == std::string::npos && !may_be_user_of(rules, tenant.ns, identity->uid, why)))
            section.problem("tenants", fmt::format("tenant {} of namespace {} is refused by berth.conf: {}", tenant.user, tenant.ns, why),
                            "Change the tenant in berth.yaml, or MinUid, AllowUsers and Namespace in berth.conf.");
    }
    if (config.tenants.empty())
        section.problem("tenants", "berth.yaml has no tenants: every pod is refused",
                        "Say in berth.yaml, tenants, which namespace is whom in Slurm.");
}

void check_sockets(const std::vector<SocketFacts> &sockets, Findings &out) {
    Section section(section_name, out);
    for (const SocketFacts &socket : sockets)
        if (socket.answers)
            section.ok("agents", fmt::format("{} listens on {}", socket.who, socket.path));
        else
            section.problem("agents",
                            fmt::format("{} does not {} {}", socket.who, socket.there ? "answer on" : "run: there is no", socket.path),
                            "Start it: systemctl start berthd; journalctl -u berthd says why it ended.");
}

void check_pam(std::string_view file, Findings &out) {
    if (!file.empty())
        Section(section_name, out)
            .warn("pam_slurm_adopt", fmt::format("{} uses pam_slurm_adopt: a tenant with a placeholder on this node may log in here", file),
                  "Keep that in mind, or shut it out: docs/security.md.");
}

}  // namespace berth::tool
