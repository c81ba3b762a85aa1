#include "jobsubmit/rules.h"

#include <random>

#include "test/unit/suite.h"

using namespace berth;

namespace {

std::optional<std::uint32_t> users(const std::string &name) {
    if (name == "slurm")
        return 64030;
    if (name == "alice")
        return 1001;
    if (name == "bob")
        return 1002;
    return std::nullopt;
}

std::optional<Rules> parse(std::string_view text) {
    std::string why;
    return parse_rules(text, "berth.conf", users, why);
}

std::string refusal(std::string_view text) {
    std::string why;
    ck_assert_msg(!parse_rules(text, "berth.conf", users, why), "%.*s", static_cast<int>(text.size()), text.data());
    return why;
}

bool user_of(const Rules &rules, std::string_view ns, std::uint32_t uid) {
    std::string why;
    const bool may = may_be_user_of(rules, ns, uid, why);
    ck_assert(may == why.empty());
    return may;
}

bool tenant(const Rules &rules, std::uint32_t uid, std::uint32_t gid = 100) {
    std::string why;
    const bool may = may_be_tenant(rules, uid, gid, why);
    ck_assert(may == why.empty());
    return may;
}

}  // namespace

START_TEST(bridge_user_is_all_that_must_be_said) {
    const auto rules = parse("BridgeUser=slurm");
    ck_assert(rules.has_value());
    ck_assert_uint_eq(rules->bridge_uid, 64030);
    ck_assert_text(rules->bridge_user, "slurm");
    ck_assert_uint_eq(rules->min_uid, 1000);
    ck_assert(rules->allow_uids.empty());
    ck_assert_text(rules->key_file, "/etc/berth/key");
    ck_assert_text(rules->notify_socket, "/run/berth/notify.sock");
    ck_assert_text(rules->placeholder_table, "/run/berth/placeholders");
    ck_assert_text(
        refusal("# nothing\n"),
        "berth.conf: BridgeUser is missing: name the user that berthd --controller runs as (SlurmUser or root)");
    refusal("");
    refusal("MinUid=5\n");
}
END_TEST

START_TEST(keys_are_read_in_any_case_with_comments_and_blanks) {
    const auto rules = parse("# Berth\r\n"
                             "\n"
                             "  BRIDGEUSER = slurm   # SlurmUser\r\n"
                             "keyfile=/k\n"
                             "MinUID\t=\t500\n"
                             "AllowUsers = alice , bob\n"
                             "NotifySocket=/n s\n"
                             "PlaceholderTable=/p=q");
    ck_assert(rules.has_value());
    ck_assert_text(rules->key_file, "/k");
    ck_assert_uint_eq(rules->min_uid, 500);
    ck_assert(rules->allow_uids == std::vector<std::uint32_t>({1001, 1002}));
    ck_assert_text(rules->notify_socket, "/n s");
    ck_assert_text(rules->placeholder_table, "/p=q");
}
END_TEST

START_TEST(every_mistake_names_its_line) {
    ck_assert_text(refusal("BridgeUser=slurm\n\nnonsense\n"), "berth.conf:3: not a Key=Value line");
    ck_assert_text(refusal("BridgeUser=slurm\nMinUid=-1\n"), "berth.conf:2: MinUid must be a whole number above 0");
    ck_assert_text(refusal("BridgeUser=nobody-here\n"),
                   "berth.conf:1: BridgeUser: this host knows no user \"nobody-here\"");
    ck_assert_text(refusal("BridgeUser=slurm\nKeyFile=key\n"), "berth.conf:2: KeyFile must be an absolute path");
    ck_assert_text(refusal("BridgeUser=slurm\nbridgeuser=slurm\n"), "berth.conf:2: bridgeuser stands twice");
    ck_assert(refusal("BridgeUser=slurm\nBridgeUsers=x\n")
                  .starts_with("berth.conf:2: unknown key \"BridgeUsers\"; known are "));
    ck_assert(refusal("BridgeUser=slurm\n=x\n").starts_with("berth.conf:2: unknown key \"\""));
}
END_TEST

START_TEST(values_that_say_nothing_are_mistakes) {
    // An empty AllowUsers would read as "anyone".
    ck_assert_text(refusal("BridgeUser=slurm\nAllowUsers=\n"), "berth.conf:2: AllowUsers has no value");
    for (const char *key : {"KeyFile", "NotifySocket", "PlaceholderTable", "MinUid", "AllowUsers"})
        refusal(std::string("BridgeUser=slurm\n") + key + "=   # nothing\n");
    refusal("BridgeUser=\n");
    for (const char *list : {"alice,", ",alice", "alice,,bob", "alice bob", ","})
        refusal(std::string("BridgeUser=slurm\nAllowUsers=") + list + "\n");
    for (const char *number : {"0", "-1", "1k", "4294967296", "0x10", "1 000"})
        refusal(std::string("BridgeUser=slurm\nMinUid=") + number + "\n");
}
END_TEST

START_TEST(users_are_found_by_name_or_number) {
    ck_assert(system_user("root") == 0);
    ck_assert(system_user("0") == 0);
    ck_assert(system_user("64030") == 64030);
    ck_assert(!system_user(""));
    ck_assert(!system_user("-1"));
    ck_assert(!system_user("4294967296"));
    ck_assert(!system_user("no such user, I hope"));
}
END_TEST

START_TEST(root_is_never_a_tenant) {
    const auto rules = parse("BridgeUser=slurm\nMinUid=1\n");
    ck_assert(tenant(*rules, 1, 1));
    ck_assert(!tenant(*rules, 0, 100));
    ck_assert(!tenant(*rules, 1001, 0));
    Rules named = *rules;
    named.allow_uids = {0};
    ck_assert(!tenant(named, 0, 100));
}
END_TEST

START_TEST(nobody_is_never_a_tenant) {
    const auto rules = parse("BridgeUser=slurm\nMinUid=1\n");
    for (const std::uint32_t id : {0xffffffffU, 0xfffffffeU, 99U}) {
        ck_assert(!tenant(*rules, id, 100));
        ck_assert(!tenant(*rules, 1001, id));
    }
    ck_assert(tenant(*rules, 0xfffffffdU, 0xfffffffdU));
    ck_assert(tenant(*rules, 98, 100));
}
END_TEST

START_TEST(tenants_begin_at_min_uid_and_are_among_allow_users) {
    const auto open = parse("BridgeUser=slurm\n"),
               closed = parse("BridgeUser=slurm\nAllowUsers=alice,bob\nMinUid=1002\n");
    ck_assert(!tenant(*open, 999));
    ck_assert(tenant(*open, 1000));
    ck_assert(tenant(*open, 64030));
    ck_assert(!tenant(*closed, 1001));  // allowed, but below
    ck_assert(tenant(*closed, 1002));
    ck_assert(!tenant(*closed, 1003));
}
END_TEST

START_TEST(any_namespace_may_be_any_tenant_where_none_is_listed) {
    const auto rules = parse("BridgeUser=slurm\nAllowUsers=alice\n");
    ck_assert(rules->namespaces.empty());
    ck_assert(user_of(*rules, "team-a", 1001));
    ck_assert(user_of(*rules, "", 1002));
}
END_TEST

START_TEST(namespace_is_nobody_but_its_users) {
    const auto rules = parse("BridgeUser=slurm\n"
                             "Namespace=team-a Users=alice,slurm\n"
                             "NAMESPACE =\tteam-b\tusers = alice , bob  # both\r\n"
                             "namespace=lab-*-x Users=bob\n"
                             "Namespace=lab-* Users=alice\n");
    ck_assert(rules.has_value());
    ck_assert(rules->namespaces[1] == (NamespaceUsers{"team-b", {1001, 1002}}));
    ck_assert(user_of(*rules, "team-a", 1001));
    ck_assert(user_of(*rules, "team-a", 64030));
    ck_assert(!user_of(*rules, "team-a", 1002));
    ck_assert(user_of(*rules, "team-b", 1002));
    // The first line that covers it counts.
    ck_assert(user_of(*rules, "lab-1-x", 1002));
    ck_assert(!user_of(*rules, "lab-1-x", 1001));
    ck_assert(user_of(*rules, "lab-", 1001));
    ck_assert(user_of(*rules, "lab-x", 1001));  // what stands before and after the * does not overlap
    for (const char *unlisted : {"team-c", "team-", "team-aa", "a", "", "lab", "xlab-1", "TEAM-A", "*"})
        ck_assert_msg(!user_of(*rules, unlisted, 1001), "%s", unlisted);
    std::string why;
    may_be_user_of(*rules, "team-a", 1002, why);
    ck_assert_text(why, "namespace team-a must not be uid 1002 in Slurm: it is not among Users of Namespace=team-a in berth.conf; correct the "
                        "tenant's user in berth.yaml, or add it to Users");
    may_be_user_of(*rules, "team-c", 1001, why);
    ck_assert_text(why, "namespace team-c is not in berth.conf, which lists them: add a line Namespace=team-c Users=USER,... there, or take its "
                        "tenant out of berth.yaml");
    const auto all = parse("BridgeUser=slurm\nNamespace=* Users=alice");
    ck_assert(user_of(*all, "any", 1001));
    ck_assert(!user_of(*all, "any", 1002));
}
END_TEST

START_TEST(namespace_lines_that_are_half_or_doubled_are_mistakes) {
    const std::string shape = "berth.conf:2: a namespace is a line Namespace=NAME Users=USER,...";
    for (const char *line : {"Namespace=team-a", "Namespace=team-a Users", "Namespace=team-a Users=", "Namespace=team-a alice", "Namespace=Users=alice",
                             "Namespace= Users=alice", "Namespace=team_a Users=alice", "Namespace=Team Users=alice", "Namespace=a-*-* Users=alice",
                             "Namespace=team-a,team-b Users=alice", "Namespace=team-a User=alice", "Namespace=team-a team-b Users=alice"})
        ck_assert_msg(refusal("BridgeUser=slurm\n" + std::string(line)).starts_with(shape), "%s", line);
    refusal("BridgeUser=slurm\nNamespace=" + std::string(64, 'a') + " Users=alice");
    ck_assert_text(refusal("BridgeUser=slurm\nNamespace=a Users=alice\nNamespace=a Users=bob\n"), "berth.conf:3: Namespace=a stands twice");
    ck_assert_text(refusal("BridgeUser=slurm\nNamespace=a Users=alice,ghost\n"), "berth.conf:2: Namespace: this host knows no user \"ghost\"");
    for (const char *list : {"alice,", ",alice", "alice,,bob", "alice bob", ",", "alice Users=bob"})
        refusal("BridgeUser=slurm\nNamespace=a Users=" + std::string(list));
    refusal("BridgeUser=slurm\nUsers=alice\n");
}
END_TEST

START_TEST(damaged_files_are_refused_with_a_reason_or_name_a_bridge) {
    const std::string good = "# Berth\nBridgeUser=slurm\nKeyFile=/etc/berth/key\nMinUid=1000\nAllowUsers=alice,bob\nNamespace=a Users=bob\n";
    std::mt19937 random(2205);
    for (int round = 0; round < 20000; ++round) {
        std::string text = good, why;
        for (unsigned changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
            const std::size_t at = random() % text.size();
            if (random() % 2 == 0)
                text[at] = static_cast<char>(random());
            else
                text.erase(at, 1 + random() % 10);
        }
        const auto rules = parse_rules(text, "berth.conf", users, why);
        ck_assert(rules ? rules->bridge_uid != 0 && rules->min_uid != 0 : why.starts_with("berth.conf:"));
    }
}
END_TEST

int main() {
    return test::run_suite(
        "rules", {bridge_user_is_all_that_must_be_said, keys_are_read_in_any_case_with_comments_and_blanks,
                  every_mistake_names_its_line, values_that_say_nothing_are_mistakes, users_are_found_by_name_or_number,
                  root_is_never_a_tenant, nobody_is_never_a_tenant, tenants_begin_at_min_uid_and_are_among_allow_users,
                  any_namespace_may_be_any_tenant_where_none_is_listed, namespace_is_nobody_but_its_users,
                  namespace_lines_that_are_half_or_doubled_are_mistakes,
                  damaged_files_are_refused_with_a_reason_or_name_a_bridge});
}
