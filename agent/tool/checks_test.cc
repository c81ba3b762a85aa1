// The doctor's checks: a healthy site has no findings but good ones, and each fault is found, named and answered.
#include <algorithm>
#include <functional>

#include "agent/tool/plugin_version.h"
#include "agent/tool/site_checks.h"
#include "agent/tool/slurm_checks.h"
#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::tool;

namespace {

slurm::Settings healthy() {
    slurm::Settings s;
    s.version = s.client_version = "22.05.8";
    s.conf_path = "/etc/slurm/slurm.conf";
    s.slurm_user = "slurm";
    s.slurm_uid = 64030;
    s.job_submit_plugins = "lua,berth";
    s.scheduler_parameters = "bf_interval=30,disable_job_shrink";
    s.select_type = "select/cons_tres";
    s.plugin_dirs = "/usr/lib/slurm";
    s.prolog_alloc = s.prolog_contain = true;
    s.min_job_age = 300;
    s.max_job_count = 10000;
    return s;
}

PlugstackFacts plugstack(const std::string &line = "required spank_berth.so") {
    return {"plugstack.conf", "", parse_plugstack(line + "\n", "plugstack.conf")};
}

const Finding *worst(const Findings &findings) {
    const auto found =
        std::max_element(findings.begin(), findings.end(), [](const Finding &a, const Finding &b) { return a.grade < b.grade; });
    return found != findings.end() ? &*found : nullptr;
}

// The worst finding, as "grade check: text"; every finding that is not good says what to do.
std::string verdict(const Findings &findings) {
    for (const Finding &one : findings)
        ck_assert_msg((one.grade == Grade::ok) == one.advice.empty(), "%s", one.text.c_str());
    const Finding *one = worst(findings);
    if (one == nullptr || one->grade == Grade::ok)
        return "ok";
    return (one->grade == Grade::warning ? "warning " : "problem ") + one->check;
}

std::string judge(const std::function<void(Findings &)> &check) {
    Findings out;
    check(out);
    return verdict(out);
}

}  // namespace

START_TEST(a_healthy_site_is_all_good) {
    const slurm::Settings s = healthy();
    const Config config;
    ck_assert_text(judge([&](Findings &out) { check_slurm_conf(s, 12, &config, out); }), "ok");
    ck_assert_text(judge([&](Findings &out) { check_plugstack(plugstack(), &config, out); }), "ok");
    ck_assert_text(judge([&](Findings &out) { check_timeouts(&s, plugstack(), config, out); }), "ok");
    ck_assert_text(judge([&](Findings &out) { check_versions(s, out); }), "ok");
}
END_TEST

START_TEST(each_fault_of_slurm_conf_is_named) {
    const struct {
        std::function<void(slurm::Settings &)> fault;
        const char *finding;
    } rows[] = {
        {[](auto &s) { s.job_submit_plugins = "lua,berthing"; }, "problem job_submit_plugins"},
        {[](auto &s) { s.prolog_alloc = s.prolog_contain = false; }, "problem prolog_flags"},
        {[](auto &s) { s.prolog_contain = false; }, "warning prolog_flags"},
        {[](auto &s) { s.scheduler_parameters = "bf_interval=30"; }, "problem disable_job_shrink"},
        {[](auto &s) { s.select_type = "select/linear"; }, "problem select_type"},
        {[](auto &s) { s.inactive_limit = 30; }, "warning inactive_limit"},
        {[](auto &s) { s.min_job_age = 59; }, "problem min_job_age"},
        {[](auto &s) { s.max_job_count = 14; }, "warning max_job_count"},
        {[](auto &s) { s.auth_info = "socket=/x,use_client_ids"; }, "problem use_client_ids"},
        {[](auto &s) { s.federation_parameters = "fed_display"; }, "warning federation"},
        {[](auto &s) { s.accounting = true; }, "warning job_comment"},
    };
    const Config config;
    for (const auto &row : rows) {
        slurm::Settings s = healthy();
        row.fault(s);
        ck_assert_text(judge([&](Findings &out) { check_slurm_conf(s, 12, &config, out); }), row.finding);
    }
}
END_TEST

START_TEST(each_fault_of_plugstack_conf_is_named) {
    const Config config;
    const struct {
        const char *line, *finding;
    } rows[] = {
        {"# nothing", "problem plugstack"},
        {"optional spank_berth.so", "problem plugstack"},
        {"required spank_berth.so\nrequired /x/spank_berth.so", "problem plugstack"},
        {"required spank_berth.so hold=0", "problem plugstack_options"},
        {"required spank_berth.so held=900", "problem plugstack_options"},
        {"required spank_berth.so run_dir=/elsewhere", "problem run_dir"},
        {"required spank_berth.so key=/elsewhere", "warning plugstack_key"},
        {"required /usr/lib/slurm/spank_berth.so hold=900 gate=900 run_dir=/run/berth # good", "ok"},
    };
    for (const auto &row : rows)
        ck_assert_text(judge([&](Findings &out) { check_plugstack(plugstack(row.line), &config, out); }), row.finding);
    ck_assert_text(judge([&](Findings &out) { check_plugstack({"p", "no such file", {}}, &config, out); }), "problem plugstack");
}
END_TEST

START_TEST(timeouts_must_fit_together) {
    const struct {
        const char *line;
        std::uint32_t timeout;  // PrologEpilogTimeout, 0: unset
        const char *finding;
    } rows[] = {
        {"required spank_berth.so", 0, "ok"},
        {"required spank_berth.so", 901, "ok"},
        {"required spank_berth.so", 900, "problem prolog_epilog_timeout"},
        {"required spank_berth.so hold=810 gate=810", 0, "ok"},
        {"required spank_berth.so hold=809", 0, "problem hold"},
        {"required spank_berth.so gate=809", 0, "problem gate"},
    };
    const Config config;
    for (const auto &row : rows) {
        slurm::Settings s = healthy();
        if (row.timeout != 0)
            s.prolog_epilog_timeout = row.timeout;
        ck_assert_text(judge([&](Findings &out) { check_timeouts(&s, plugstack(row.line), config, out); }), row.finding);
    }
    Config late;
    late.hold.max_grace = late.hold.limit + std::chrono::seconds(1);
    const slurm::Settings s = healthy();
    ck_assert_text(judge([&](Findings &out) { check_timeouts(&s, plugstack(), late, out); }), "problem max_grace");
}
END_TEST

START_TEST(plugins_must_be_made_for_this_slurm) {
    constexpr std::uint32_t v22_05_8 = 22 << 16 | 5 << 8 | 8, v22_05_9 = v22_05_8 + 1, v24_11_5 = 24 << 16 | 11 << 8 | 5;
    const auto one = [](const char *path, std::uint32_t version, bool exact) {
        return judge([&](Findings &out) { check_plugin_files({{"x.so", path, "", version, exact}}, healthy(), out); });
    };
    ck_assert_text(one("/x.so", v22_05_8, true), "ok");
    ck_assert_text(one("/x.so", v22_05_9, true), "problem plugin_file");
    ck_assert_text(one("/x.so", v22_05_9, false), "ok");
    ck_assert_text(one("/x.so", v24_11_5, false), "problem plugin_file");
    ck_assert_text(one("", 0, true), "problem plugin_file");
    // It says what to install.
    Findings out;
    check_plugin_files({{"x.so", "/x.so", "", v22_05_9, true}}, healthy(), out);
    ck_assert(out.back().advice.find("slurm-plugins-berth that was built for Slurm 22.05.8") != std::string::npos);
}
END_TEST

START_TEST(a_file_that_is_no_plugin_is_refused_whatever_is_in_it) {
    const test::Scratch scratch;
    scratch.write("text", "required spank_berth.so");
    ck_assert(!plugin_version(scratch.path("text")));
    ck_assert(!plugin_version(scratch.path("absent")));
    std::string broken(
        "\x7f"
        "ELF\x02\x01\x01",
        7);
    broken.resize(64, '\xff');
    scratch.write("broken", broken);
    ck_assert(!plugin_version(scratch.path("broken")));
}
END_TEST

START_TEST(the_key_must_be_safe_and_readable) {
    const KeyFacts good{"/etc/berth/key", "", 0, 0640, 65, true};
    const auto with = [&good](const std::function<void(KeyFacts &)> &change) {
        KeyFacts key = good;
        change(key);
        return judge([&](Findings &out) { check_key(key, 64030, out); });
    };
    ck_assert_text(with([](KeyFacts &) {}), "ok");
    ck_assert_text(with([](KeyFacts &k) { k.uid = 64030, k.mode = 0400; }), "ok");
    ck_assert_text(with([](KeyFacts &k) { k.uid = 1000; }), "problem key_file");
    ck_assert_text(with([](KeyFacts &k) { k.mode = 0644; }), "problem key_file");
    ck_assert_text(with([](KeyFacts &k) { k.size = 31; }), "problem key_file");
    ck_assert_text(with([](KeyFacts &k) { k.slurm_user_reads = false; }), "problem key_file");
    ck_assert_text(with([](KeyFacts &k) { k.problem = "No such file or directory"; }), "problem key_file");
}
END_TEST

START_TEST(berth_conf_and_berth_yaml_must_agree) {
    const slurm::Settings s = healthy();
    const IdentityLookup identities = [](const std::string &user, const std::string &) -> Result<Identity> {
        if (user == "ghost")
            return Error{"user \"ghost\" is not known to this host"};
        return user == "daemon" ? Identity{1, 1} : Identity{20001, 20001};
    };
    const auto with = [&](const std::function<void(Rules &, Config &)> &change) {
        RulesFacts facts{"berth.conf", "", Rules()};
        facts.rules->bridge_uid = 64030;
        Config config;
        config.tenants = {{.ns = "team-a", .user = "alice"}};
        change(*facts.rules, config);
        return judge([&](Findings &out) { check_rules(facts, config, &s, identities, out); });
    };
    ck_assert_text(with([](Rules &, Config &) {}), "ok");
    ck_assert_text(with([](Rules &r, Config &) { r.key_file = "/x"; }), "problem key_paths");
    ck_assert_text(with([](Rules &r, Config &) { r.notify_socket = "/x"; }), "problem notify_socket");
    ck_assert_text(with([](Rules &r, Config &) { r.placeholder_table = "/x"; }), "problem placeholder_table");
    ck_assert_text(with([](Rules &r, Config &) { r.bridge_uid = 1000; }), "problem bridge_user");
    ck_assert_text(with([](Rules &r, Config &) { r.bridge_uid = 0; }), "warning bridge_user");
    ck_assert_text(with([](Rules &, Config &c) { c.tenants[0].user = "ghost"; }), "problem tenants");
    ck_assert_text(with([](Rules &, Config &c) { c.tenants[0].user = "daemon"; }), "problem tenants");
    ck_assert_text(with([](Rules &, Config &c) { c.tenants.clear(); }), "problem tenants");
    ck_assert_text(with([](Rules &r, Config &) { r.namespaces = {{"team-*", {20001}}}; }), "ok");
    ck_assert_text(with([](Rules &r, Config &) { r.namespaces = {{"team-a", {20002}}}; }), "problem tenants");
    ck_assert_text(with([](Rules &r, Config &) { r.namespaces = {{"team-b", {20001}}}; }), "problem tenants");
    ck_assert_text(judge([&](Findings &out) {
                       check_rules({"berth.conf", "no such file", {}}, Config(), &s, identities, out);
                   }),
                   "problem berth_conf");
}
END_TEST

START_TEST(the_manifest_says_which_rights_are_checked) {
    const auto rights = granted_rights(controller_manifest());
    ck_assert_msg(rights.ok(), "%s", rights ? "" : rights.error().c_str());
    const auto has = [&rights](const char *group, const char *resource, const char *subresource, const char *verb) {
        return std::any_of(rights->begin(), rights->end(), [&](const Right &right) {
            return right.group == group && right.resource == resource && right.subresource == subresource && right.verb == verb;
        });
    };
    ck_assert(has("", "pods", "", "watch") && has("", "pods", "status", "patch") &&
              has("scheduling.x-k8s.io", "podgroups", "status", "patch"));
    ck_assert(!has("", "pods", "binding", "create"));
}
END_TEST

START_TEST(missing_rights_are_listed) {
    KubeFacts facts;
    facts.minor = 31;
    facts.rights = {{{"", "pods", "", "list"}, true}, {{"", "pods", "status", "patch"}, false}};
    facts.pod_group_crd = facts.flow_schema = facts.admission_policy = true;
    Findings out;
    check_kubernetes(facts, out);
    ck_assert_text(verdict(out), "problem rights");
    ck_assert_text(worst(out)->text, "the controller may not: patch pods/status");
    facts.rights.pop_back();
    ck_assert_text(judge([&](Findings &found) { check_kubernetes(facts, found); }), "ok");
    facts.admission_policy = false;
    ck_assert_text(judge([&](Findings &found) { check_kubernetes(facts, found); }), "warning admission_policy");
    facts.minor = 28;
    ck_assert_text(judge([&](Findings &found) { check_kubernetes(facts, found); }), "ok");
}
END_TEST

START_TEST(it_is_said_who_leads_and_whether_anybody_does) {
    KubeFacts facts;
    facts.pod_group_crd = true;
    const auto judged = [&facts] { return judge([&](Findings &found) { check_kubernetes(facts, found); }); };
    facts.lease = LeaseRecord{};
    facts.lease->holder = "ctl1";
    ck_assert_text(judged(), "ok");
    facts.lease->holder.clear();
    ck_assert_text(judged(), "problem leader");
    facts.lease.reset();
    facts.lease_problem = "HTTP 403";
    ck_assert_text(judged(), "problem leader");
}
END_TEST

START_TEST(nodes_must_match) {
    const auto with = [](const std::function<void(std::vector<slurm::QueueNode> &, std::vector<kube::Node> &)> &change) {
        std::vector<slurm::QueueNode> slurm_nodes(2);
        std::vector<kube::Node> kube_nodes(2);
        for (int i = 0; i < 2; ++i) {
            slurm_nodes[i].name = kube_nodes[i].name = "n" + std::to_string(i + 1);
            slurm_nodes[i].usable = kube_nodes[i].ready = true;
            slurm_nodes[i].cpus = 8;
            slurm_nodes[i].memory_mib = 16000;
            kube_nodes[i].cpu_milli = 8000;
            kube_nodes[i].memory_bytes = 16000LL << 20;
            kube_nodes[i].taints = {{"slinky.slurm.net/managed-node", "slurm", "NoSchedule"}};
        }
        change(slurm_nodes, kube_nodes);
        return judge([&](Findings &out) { check_nodes(pair_nodes(slurm_nodes, kube_nodes), nullptr, out); });
    };
    ck_assert_text(with([](auto &, auto &) {}), "ok");
    ck_assert_text(with([](auto &s, auto &) { s[1].name = "n9"; }), "problem pairs");  // n2 has the taint
    ck_assert_text(with([](auto &, auto &k) { k.pop_back(); }), "warning pairs");
    ck_assert_text(with([](auto &s, auto &k) { s.pop_back(), k[1].taints.clear(); }), "warning pairs");
    ck_assert_text(with([](auto &s, auto &k) { s[1].name = "x2", k[1].labels = {{"slinky.slurm.net/slurm-nodename", "x2"}}; }), "ok");
    ck_assert_text(with([](auto &, auto &k) { k[0].cpu_milli = 7999; }), "problem capacity");
    ck_assert_text(with([](auto &, auto &k) { k[0].memory_bytes -= 1; }), "problem capacity");
    ck_assert_text(with([](auto &, auto &k) { k[0].taints.clear(); }), "warning taint");
    ck_assert_text(with([](auto &, auto &k) { k[0].ready = false; }), "problem ready");
    ck_assert_text(with([](auto &, auto &k) { k[0].unschedulable = true; }), "warning cordoned");
    ck_assert_text(with([](auto &s, auto &k) { k[0].unschedulable = true, s[0].usable = false; }), "ok");
}
END_TEST

START_TEST(clocks_may_differ_a_little) {
    ck_assert_text(judge([](Findings &out) { check_clocks(0, 5, out); }), "ok");
    ck_assert_text(judge([](Findings &out) { check_clocks(-6, 0, out); }), "warning api_server_clock");
    ck_assert_text(judge([](Findings &out) { check_clocks(0, 60, out); }), "problem slurmctld_clock");
    ck_assert_text(judge([](Findings &out) { check_clocks(std::nullopt, std::nullopt, out); }), "ok");
}
END_TEST

START_TEST(a_door_that_placeholders_open_is_named) {
    ck_assert_text(judge([](Findings &out) { check_pam("/etc/pam.d/sshd", out); }), "warning pam_slurm_adopt");
    ck_assert_text(judge([](Findings &out) { check_pam("", out); }), "ok");
}
END_TEST

START_TEST(findings_are_shown_under_headings_and_counted) {
    Findings out;
    Section("Slurm", out).ok("a", "good");
    Section("Nodes", out).warn("b", "odd", "look");
    ck_assert_text(to_text(out),
                   "Slurm\n  ok       good\n\nNodes\n  warning  odd\n           What to do: look\n\n2 checks: 0 problems, 1 warning\n");
    ck_assert_text(to_json(out),
                   R"({"problems":0,"warnings":1,"findings":[{"section":"Slurm","check":"a","grade":"ok","text":"good","advice":""},)"
                   R"({"section":"Nodes","check":"b","grade":"warning","text":"odd","advice":"look"}]})");
    ck_assert(!any_problem(out));
}
END_TEST

int main() {
    return test::run_suite(
        "checks", {a_healthy_site_is_all_good, each_fault_of_slurm_conf_is_named, each_fault_of_plugstack_conf_is_named,
                   timeouts_must_fit_together, plugins_must_be_made_for_this_slurm, a_file_that_is_no_plugin_is_refused_whatever_is_in_it,
                   the_key_must_be_safe_and_readable, berth_conf_and_berth_yaml_must_agree, the_manifest_says_which_rights_are_checked,
                   missing_rights_are_listed, it_is_said_who_leads_and_whether_anybody_does, nodes_must_match, clocks_may_differ_a_little, a_door_that_placeholders_open_is_named,
                   findings_are_shown_under_headings_and_counted});
}
