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
    if (same_key(key, "AllowUsers")) {
        for (;;) {
            const std::size_t comma = value.find(',');
            std::uint32_t uid = 0;
            if (!user(trim(value.substr(0, comma)), uid))
                return false;
            rules.allow_uids.push_back(uid);
            if (comma == std::string_view::npos)
                return true;
            value.remove_prefix(comma + 1);
        }
    }
    why = "unknown key \"" + std::string(key) +
          "\"; known are BridgeUser, KeyFile, MinUid, AllowUsers, NotifySocket and PlaceholderTable";
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
        if (std::any_of(seen.begin(), seen.end(), is_key)) {
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

}  // namespace berth
