#include "jobsubmit/rules.h"

#include <pwd.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace berth {

namespace {

std::string_view trim(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

bool same_key(std::string_view a, const char *b) {
    return a.size() == std::string_view(b).size() && strncasecmp(a.data(), b, a.size()) == 0;
}

std::optional<std::uint32_t> to_number(std::string_view text) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

// No recursion, no allocation: called under slurmctld's locks.
bool covers(std::string_view pattern, std::string_view ns) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos)
        return pattern == ns;
    return ns.size() + 1 >= pattern.size() && ns.starts_with(pattern.substr(0, star)) && ns.ends_with(pattern.substr(star + 1));
}

bool is_namespace_pattern(std::string_view text) {
    return !text.empty() && text.size() <= 63 && text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-*") == std::string_view::npos &&
           std::count(text.begin(), text.end(), '*') <= 1;
}

// Sets one key; false with a reason (without file and line) when key or value is wrong.
bool apply(Rules &rules, std::string_view key, std::string_view value, UserLookup users, std::string &why) {
    const auto path = [&](std::string &out) {
        if (!value.starts_with('/')) {
            why = std::string(key) + " must be an absolute path";
            return false;
        }
        out = value;
        return true;
    };
    const auto user = [&](std::string_view name, std::uint32_t &out) {
        const auto uid = users(std::string(name));
        if (!uid) {
            why = std::string(key) + ": this host knows no user \"" + std::string(name) + "\"";
            return false;
        }
        out = *uid;
        return true;
    };
    const auto user_list = [&](std::string_view names, std::vector<std::uint32_t> &out) {
        for (;;) {
            const std::size_t comma = names.find(',');
            std::uint32_t uid = 0;
            if (!user(trim(names.substr(0, comma)), uid))
                return false;
            out.push_back(uid);
            if (comma == std::string_view::npos)
                return true;
            names.remove_prefix(comma + 1);
        }
    };
    if (value.empty()) {
        why = std::string(key) + " has no value";
        return false;
    }
    if (same_key(key, "BridgeUser")) {
        rules.bridge_user = value;
        return user(value, rules.bridge_uid);
    }
    if (same_key(key, "KeyFile"))
        return path(rules.key_file);
    if (same_key(key, "NotifySocket"))
        return path(rules.notify_socket);
    if (same_key(key, "PlaceholderTable"))
        return path(rules.placeholder_table);
    if (same_key(key, "MinUid")) {
        const auto number = to_number(value);
        if (!number || *number == 0) {
            why = "MinUid must be a whole number above 0";
            return false;
        }
        rules.min_uid = *number;
        return true;
    }
    if (same_key(key, "AllowUsers"))
        return user_list(value, rules.allow_uids);
    if (same_key(key, "Namespace")) {
        const std::size_t blank = std::min(value.find_first_of(" \t"), value.size());
        const std::string_view pattern = value.substr(0, blank), rest = trim(value.substr(blank));
        const std::size_t equals = std::min(rest.find('='), rest.size());
        if (!is_namespace_pattern(pattern) || !same_key(trim(rest.substr(0, equals)), "Users") || rest.size() <= equals + 1) {
            why = "a namespace is a line Namespace=NAME Users=USER,...; NAME has up to 63 of the characters a-z 0-9 - and one * at most";
            return false;
        }
        for (const NamespaceUsers &other : rules.namespaces)
            if (other.pattern == pattern) {
                why = "Namespace=" + other.pattern + " stands twice";
                return false;
            }
        return user_list(rest.substr(equals + 1), rules.namespaces.emplace_back(NamespaceUsers{std::string(pattern), {}}).uids);
    }
    why = "unknown key \"" + std::string(key) +
          "\"; known are BridgeUser, KeyFile, MinUid, AllowUsers, Namespace, NotifySocket and PlaceholderTable";
    return false;
}

}  // namespace

std::optional<std::uint32_t> system_user(const std::string &user) {
    if (const auto number = to_number(user))
        return number;
    passwd entry{};
    passwd *found = nullptr;
    std::vector<char> buffer(16 * 1024);
    if (getpwnam_r(user.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr)
        return std::nullopt;
    return found->pw_uid;
}

std::optional<Rules> parse_rules(std::string_view text, const std::string &file, UserLookup users, std::string &why) {
    Rules rules;
    std::vector<std::string> seen;
    bool bridge = false;
    for (int line_number = 1; !text.empty(); ++line_number) {
        const std::size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
        line = trim(line.substr(0, line.find('#')));
        if (line.empty())
            continue;
        const std::string where = file + ":" + std::to_string(line_number) + ": ";
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos) {
            why = where + "not a Key=Value line";
            return std::nullopt;
        }
        const std::string_view key = trim(line.substr(0, equals));
        const auto is_key = [key](const std::string &other) { return same_key(key, other.c_str()); };
        if (!is_key("Namespace") && std::any_of(seen.begin(), seen.end(), is_key)) {
            why = where + std::string(key) + " stands twice";
            return std::nullopt;
        }
        seen.emplace_back(key);
        std::string reason;
        if (!apply(rules, key, trim(line.substr(equals + 1)), users, reason)) {
            why = where + reason;
            return std::nullopt;
        }
        bridge = bridge || same_key(key, "BridgeUser");
    }
    if (!bridge) {
        why = file + ": BridgeUser is missing: name the user that berthd --controller runs as (SlurmUser or root)";
        return std::nullopt;
    }
    return rules;
}

bool may_be_tenant(const Rules &rules, std::uint32_t uid, std::uint32_t gid, std::string &why) {
    if (uid == 0 || gid == 0) {
        why = "a placeholder never belongs to user or group 0";
        return false;
    }
    // (uid_t)-1, NO_VAL and SLURM_AUTH_NOBODY: Slurm reads each as "not given" somewhere, and would put the bridge in
    // its place.
    for (const std::uint32_t nobody : {0xffffffffU, 0xfffffffeU, 99U})
        if (uid == nobody || gid == nobody) {
            why = "user and group " + std::to_string(nobody) + " mean nobody to Slurm";
            return false;
        }
    if (uid < rules.min_uid) {
        why = "uid " + std::to_string(uid) + " is below MinUid=" + std::to_string(rules.min_uid) + " in berth.conf";
        return false;
    }
    if (!rules.allow_uids.empty() &&
        std::find(rules.allow_uids.begin(), rules.allow_uids.end(), uid) == rules.allow_uids.end()) {
        why = "uid " + std::to_string(uid) + " is not among AllowUsers in berth.conf";
        return false;
    }
    return true;
}

bool may_be_user_of(const Rules &rules, std::string_view ns, std::uint32_t uid, std::string &why) {
    if (rules.namespaces.empty())
        return true;
    const std::string name(ns);
    for (const NamespaceUsers &line : rules.namespaces) {
        if (!covers(line.pattern, ns))
            continue;
        if (std::find(line.uids.begin(), line.uids.end(), uid) != line.uids.end())
            return true;
        why = "namespace " + name + " must not be uid " + std::to_string(uid) + " in Slurm: it is not among Users of Namespace=" + line.pattern +
              " in berth.conf; correct the tenant's user in berth.yaml, or add it to Users";
        return false;
    }
    why = "namespace " + name + " is not in berth.conf, which lists them: add a line Namespace=" + name +
          " Users=USER,... there, or take its tenant out of berth.yaml";
    return false;
}

}  // namespace berth
