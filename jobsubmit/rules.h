// Rules: berth.conf, the few things that job_submit_berth.so must know. Key=Value lines as in slurm.conf, '#' comments,
// keys in any case. Parsing happens outside slurmctld's locks (rules_watch.h); a Rules value never changes once made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

// Namespace=PATTERN Users=...: who the namespaces of that name may be in Slurm.
struct NamespaceUsers {
    std::string pattern;  // a name, or one with a '*' that stands for any run of characters
    std::vector<std::uint32_t> uids;

    bool operator==(const NamespaceUsers &) const = default;
};

struct Rules {
    std::uint32_t bridge_uid = 0;       // BridgeUser: who may submit placeholders; required
    std::string bridge_user;
    std::string key_file = "/etc/berth/key";
    std::uint32_t min_uid = 1000;       // MinUid: tenants below it are refused (and 0 always)
    std::vector<std::uint32_t> allow_uids;  // AllowUsers: only these may be tenants; empty: anyone from MinUid on
    std::vector<NamespaceUsers> namespaces;  // as they stand in the file; empty: any namespace may be any tenant
    std::string notify_socket = "/run/berth/notify.sock";
    std::string placeholder_table = "/run/berth/placeholders";

    std::string key;  // filled by the watch from key_file

    bool operator==(const Rules &) const = default;
};

// Looks up a user by name or number; nothing when the system does not know it.
using UserLookup = std::optional<std::uint32_t> (*)(const std::string &user);
std::optional<std::uint32_t> system_user(const std::string &user);

// Nothing, with "FILE:LINE: what is wrong" in `why`, for any mistake: unknown key, doubled key, bad value, unknown
// user.
std::optional<Rules> parse_rules(std::string_view text, const std::string &file, UserLookup users, std::string &why);

// Whether the rules let this user be a tenant; says why not. Never 0, nor the numbers that mean "nobody" to Slurm.
bool may_be_tenant(const Rules &rules, std::uint32_t uid, std::uint32_t gid, std::string &why);

// Whether the first line that covers the namespace names this user; says why not, and what to do. True where there is no such
// line at all.
bool may_be_user_of(const Rules &rules, std::string_view ns, std::uint32_t uid, std::string &why);

}  // namespace berth
