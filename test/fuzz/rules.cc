// berth.conf, inside slurmctld.
#include "jobsubmit/rules.h"

#include <algorithm>

#include "test/fuzz/fuzz.h"

using namespace berth;

namespace {

std::optional<std::uint32_t> users(const std::string &user) {
    if (user == "slurm")
        return 64030;
    return user.size() < 5 && user.find_first_not_of("0123456789") == std::string::npos && !user.empty() ? std::optional(std::stoul(user))
                                                                                                        : std::nullopt;
}

std::string name_of(std::uint32_t uid) { return uid == 64030 ? "slurm" : std::to_string(uid); }

std::string written(const Rules &rules) {
    std::string out = "BridgeUser=" + rules.bridge_user + "\nKeyFile=" + rules.key_file + "\nMinUid=" + std::to_string(rules.min_uid) +
                      "\nNotifySocket=" + rules.notify_socket + "\nPlaceholderTable=" + rules.placeholder_table + "\n";
    for (std::size_t i = 0; i < rules.allow_uids.size(); ++i)
        out += (i == 0 ? "AllowUsers=" : ",") + name_of(rules.allow_uids[i]);
    for (const NamespaceUsers &line : rules.namespaces) {
        out += "\nNamespace=" + line.pattern + " Users=";
        for (std::size_t i = 0; i < line.uids.size(); ++i)
            out += (i == 0 ? "" : ",") + name_of(line.uids[i]);
    }
    return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    std::string why;
    const auto rules = parse_rules(text, "berth.conf", users, why);
    if (!rules) {
        fuzz::require(why.starts_with("berth.conf"), "an error names the file", why);
        return 0;
    }
    fuzz::require(rules->min_uid > 0, "MinUid is above 0");
    for (const std::string *path : {&rules->key_file, &rules->notify_socket, &rules->placeholder_table})
        fuzz::require(path->starts_with('/'), "paths are absolute", *path);
    const auto back = parse_rules(written(*rules), "berth.conf", users, why);
    fuzz::require(back && *back == *rules, "rules read back as they were", written(*rules));
    for (const std::uint32_t uid : {0U, 99U, 0xfffffffeU, 0xffffffffU})
        fuzz::require(!may_be_tenant(*rules, uid, 1000, why) && !may_be_tenant(*rules, 1000, uid, why), "root and nobody are no tenants");
    for (const NamespaceUsers &line : rules->namespaces) {
        fuzz::require(!line.uids.empty() && !line.pattern.empty(), "a namespace has users");
        fuzz::require(!may_be_user_of(*rules, line.pattern, 0xfffffffeU, why), "a namespace is nobody else", line.pattern);
    }
    const auto all = [](const NamespaceUsers &line) { return line.pattern == "*"; };
    if (!rules->namespaces.empty() && std::none_of(rules->namespaces.begin(), rules->namespaces.end(), all))
        fuzz::require(!may_be_user_of(*rules, "/", 64030, why), "what is not listed is refused");
    return 0;
}
