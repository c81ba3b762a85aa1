#include "agent/translate/placeholder.h"

#include "agent/translate/table_test.h"

using namespace berth;
using namespace berth::test;

namespace {

// What one pod says.
struct Ask {
    Words annotations;
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::vector<std::pair<std::string, std::int64_t>> extended;
    std::int64_t deadline = 0;
    std::string ns = "science";
    std::string service_account = "default";
    std::string priority_class;
};

Result<std::vector<std::uint32_t>> jobs_of(const std::string &ns, const std::string &kind, const std::string &name) {
    if (ns == "science" && kind == "Job" && name == "prepare")
        return std::vector<std::uint32_t>{12};
    if (ns == "science" && kind == "Pod" && name == "first")
        return std::vector<std::uint32_t>{13};
    return Error{"it is not known"};
}

Result<std::vector<Shape>> shapes_of(const kube::Pod &pod, const Config &config) {
    return berth::translate(Membership{}, {&pod}, Site{config, identities, {}, jobs_of, kNow});
}

Result<Placeholder> translate(const kube::Pod &pod, const Config &config) {
    auto shapes = shapes_of(pod, config);
    if (!shapes)
        return Error{shapes.error()};
    return std::move(shapes->front().placeholder);
}

kube::Pod make_pod(const Ask &ask) {
    kube::Pod pod;
    pod.ns = ask.ns;
    pod.name = "sim-0";
    pod.uid = "0b5c";
    pod.created = kNow - 60;
    pod.service_account = ask.service_account;
    pod.priority_class = ask.priority_class;
    pod.need = {ask.cpu_milli, ask.memory_bytes, ask.extended};
    pod.active_deadline_seconds = ask.deadline;
    pod.annotations = annotations(ask.annotations);
    return pod;
}

struct Accepted {
    Ask ask;
    std::string expected;  // after "1001.2001 "; "=..." stands for the whole
};

struct Refused {
    Ask ask;
    std::vector<std::string> words;  // all of them in the error
};

void check_accepted(const std::vector<Accepted> &rows) {
    const Config config = make_config();
    for (std::size_t i = 0; i < rows.size(); i++) {
        const Result<Placeholder> got = translate(make_pod(rows[i].ask), config);
        ck_assert_msg(got.ok(), "row %zu (%s) is refused: %s", i, rows[i].expected.c_str(),
                      got ? "" : got.error().c_str());
        std::string expected = rows[i].expected;
        expected = expected[0] == '=' ? expected.substr(1) : "1001.2001 " + expected;
        ck_assert_msg(shown(*got) == expected, "row %zu:\n got      %s\n expected %s", i, shown(*got).c_str(),
                      expected.c_str());
    }
}

void check_refused(const std::vector<Refused> &rows) {
    const Config config = make_config();
    for (std::size_t i = 0; i < rows.size(); i++) {
        const Result<Placeholder> got = translate(make_pod(rows[i].ask), config);
        ck_assert_msg(!got.ok(), "row %zu (%s) is accepted: %s", i, rows[i].words[0].c_str(),
                      got ? shown(*got).c_str() : "");
        check_refusal(i, got.error(), rows[i].words);
    }
}

// ck_assert_str_eq keeps only pointers, which for temporaries end too early.
void check_text(const std::string &got, const std::string &expected) {
    ck_assert_str_eq(got.c_str(), expected.c_str());
}

START_TEST(a_silent_pod_gets_the_defaults) {
    const Result<Placeholder> got = translate(make_pod({}), make_config());
    ck_assert(got.ok());
    check_text(got->job_name, "science/sim-0");
    check_text(got->comment, "pod science/sim-0");
    check_text(shown(*got), "1001.2001 c1 m512" + kPlaces);
    ck_assert(got->gres.empty());
}
END_TEST

START_TEST(sizes_round_up_and_never_fall_below_the_pod) {
    check_accepted({
        {{{}, 200}, "c1 m512" + kPlaces},
        {{{}, 1000}, "c1 m512" + kPlaces},
        {{{}, 1001}, "c2 m512" + kPlaces},
        {{{}, 2000, 200 * kMi}, "c2 m200" + kPlaces},
        {{{}, 0, 1}, "c1 m1" + kPlaces},
        {{{}, 0, kMi + 1}, "c1 m2" + kPlaces},
        {{{{"cpu-per-task", "200m"}}}, "c1 m512" + kPlaces},
        {{{{"cpu-per-task", "4"}}, 1500}, "c4 m512" + kPlaces},
        {{{{"cpu-per-task", "1500m"}}, 1500}, "c2 m512" + kPlaces},
        {{{{"cpu-per-task", "1.2"}}, 2000}, "c2 m512" + kPlaces},
        {{{{"cpu-per-task", "65533"}}}, "c65533 m512" + kPlaces},
        {{{{"cpu-per-task", ""}}, 3000}, "c3 m512" + kPlaces},
        {{{{"mem-per-node", "1Gi"}}}, "c1 m1024" + kPlaces},
        {{{{"mem-per-node", "1Gi"}}, 0, 1024 * kMi}, "c1 m1024" + kPlaces},
        {{{{"mem-per-node", "2G"}}, 0, kMi}, "c1 m1908" + kPlaces},
        {{{{"mem-per-node", "1"}}}, "c1 m1" + kPlaces},
        {{{{"min-nodes", "1"}, {"max-nodes", "1"}}}, "c1 m512" + kPlaces},
    });
    check_refused({
        {{{{"cpu-per-task", "1"}}, 1500},
         {"slurmjob.slinky.slurm.net/cpu-per-task", "\"1\"", "1500m CPU", "2 or more"}},
        {{{{"cpu-per-task", "foo"}}}, {"slurmjob.slinky.slurm.net/cpu-per-task", "\"foo\"", "accepted"}},
        {{{{"cpu-per-task", "0"}}}, {"cpu-per-task", "\"0\"", "above 0"}},
        {{{{"cpu-per-task", "-1"}}}, {"cpu-per-task", "\"-1\""}},
        {{{{"cpu-per-task", "65534"}}}, {"cpu-per-task", "65533"}},
        {{{{"cpu-per-task", "1e30"}}}, {"cpu-per-task", "too large"}},
        {{{}, 65534 * 1000}, {"65534 CPUs", "65533"}},
        {{{{"mem-per-node", "foo"}}}, {"slurmjob.slinky.slurm.net/mem-per-node", "\"foo\""}},
        {{{{"mem-per-node", "0"}}}, {"mem-per-node", "above 0"}},
        {{{{"mem-per-node", "1024"}}, 0, 2 * kMi}, {"mem-per-node", "\"1Mi\"", "2097152 bytes", "2Mi or more"}},
        {{{{"min-nodes", "2"}}}, {"slurmjob.slinky.slurm.net/min-nodes", "\"2\"", "one node", "accepted is 1"}},
        {{{{"max-nodes", "4"}}}, {"slurmjob.slinky.slurm.net/max-nodes", "\"4\"", "accepted is 1"}},
        {{{{"min-nodes", "foo"}}}, {"min-nodes", "\"foo\"", "whole number"}},
        {{{{"max-nodes", "0"}}}, {"max-nodes", "\"0\""}},
        {{{{"max-nodes", "1.0"}}}, {"max-nodes", "whole number"}},
    });
}
END_TEST

START_TEST(generic_resources_come_from_the_pod_and_its_annotation) {
    check_accepted({
        {{{}, 0, 0, {{"nvidia.com/gpu", 2}}}, "c1 m512" + kPlaces + " gpu=2"},
        {{{}, 0, 0, {{"amd.com/gpu", 2}}}, "c1 m512" + kPlaces + " gpu=2"},
        {{{}, 0, 0, {{"amd.com/gpu", 1}, {"nvidia.com/gpu", 2}}}, "c1 m512" + kPlaces + " gpu=3"},
        {{{}, 0, 0, {{"nvidia.com/gpu", 0}}}, "c1 m512" + kPlaces},
        {{{}, 0, 0, {{"example.com/unheard-of", 0}}}, "c1 m512" + kPlaces},
        {{{}, 0, 0, {{"example.com/a100", 4}}}, "c1 m512" + kPlaces + " gpu:a100=4"},
        {{{{"gres", "gpu:2"}}}, "c1 m512" + kPlaces + " gpu=2"},
        {{{{"gres", "gpu"}}}, "c1 m512" + kPlaces + " gpu=1"},
        {{{{"gres", "gres/gpu:a100:2,gres:shard:3"}}}, "c1 m512" + kPlaces + " gpu:a100=2 shard=3"},
        {{{{"gres", "gpu:1g.5gb"}}}, "c1 m512" + kPlaces + " gpu:1g.5gb=1"},
        {{{{"gres", "tmpdisk:10G"}}}, "c1 m512" + kPlaces + " tmpdisk=10737418240"},
        {{{{"gres", "gpu:1,gpu:2"}}}, "c1 m512" + kPlaces + " gpu=3"},
        {{{{"gres", "gpu:a100:2"}}, 0, 0, {{"nvidia.com/gpu", 2}}}, "c1 m512" + kPlaces + " gpu:a100=2"},
        {{{{"gres", "gpu:a100:1,gpu:h100:1"}}, 0, 0, {{"nvidia.com/gpu", 2}}},
         "c1 m512" + kPlaces + " gpu:a100=1 gpu:h100=1"},
        {{{{"gres", "gpu:4"}}, 0, 0, {{"nvidia.com/gpu", 2}}}, "c1 m512" + kPlaces + " gpu=4"},
        {{{{"gres", "shard:1"}}, 0, 0, {{"nvidia.com/gpu", 2}}}, "c1 m512" + kPlaces + " gpu=2 shard=1"},
        {{{{"gres", "gpu:a100:4"}}, 0, 0, {{"example.com/a100", 4}, {"example.com/disk", 9}}},
         "c1 m512" + kPlaces + " gpu:a100=4 tmpdisk=9"},
    });
    check_refused({
        {{{}, 0, 0, {{"example.com/fpga", 1}}},
         {"1 of example.com/fpga", "resource: example.com/fpga", "gres", "berth.yaml"}},
        {{{{"gres", "gpu:1"}}, 0, 0, {{"nvidia.com/gpu", 2}}},
         {"slurmjob.slinky.slurm.net/gres", "1 of gpu", "2 or more"}},
        {{{{"gres", "gpu:h100:4"}}, 0, 0, {{"example.com/a100", 4}}}, {"gres", "0 of gpu:a100", "4 or more"}},
        {{{{"gres", "gpu:4"}}, 0, 0, {{"example.com/a100", 4}}}, {"gres", "0 of gpu:a100", "4 or more"}},
        {{{{"gres", "gpu:a100:2"}}, 0, 0, {{"example.com/a100", 2}, {"nvidia.com/gpu", 1}}},
         {"gres", "2 of gpu ", "3 or more"}},
        {{{{"gres", "gpu:2"}},
          0,
          0,
          {{"amd.com/gpu", INT64_MAX}, {"example.com/a100", INT64_MAX}, {"nvidia.com/gpu", INT64_MAX}}},
         {"gres", "2 of gpu "}},
        {{{{"gres", "gpu:0"}}}, {"gres", "\"gpu:0\"", "accepted"}},
        {{{{"gres", "gres,shard:4"}}}, {"gres", "accepted"}},
        {{{{"gres", "gpu:-1"}}}, {"gres", "\"gpu:-1\"", "accepted"}},
        {{{{"gres", "gpu:99999999999P"}}}, {"gres", "accepted"}},
        {{{{"gres", "gpu:a100:x:2"}}}, {"gres", "accepted"}},
        {{{{"gres", "gpu:2,"}}}, {"gres", "accepted"}},
        {{{{"gres", ":2"}}}, {"gres", "accepted"}},
        {{{{"gres", "gpu: 2"}}}, {"gres", "accepted"}},
        {{{{"gres", "gpu:2\nx"}}}, {"gres", "printable"}},
        {{{{"gres", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"}}}, {"gres", "up to 16"}},
        {{{{"gres", "gpu:99999999999999999"}}}, {"gres", "accepted"}},
    });
}
END_TEST

START_TEST(an_annotation_chooses_inside_the_tenant_entry_never_outside) {
    check_accepted({
        {{{{"account", "chemistry"}}}, "c1 m512 acct=chemistry part=batch qos=normal"},
        {{{{"account", "physics"}}}, "c1 m512" + kPlaces},
        {{{{"partition", "gpu"}}}, "c1 m512 acct=physics part=gpu qos=normal"},
        {{{{"qos", "high"}}}, "c1 m512 acct=physics part=batch qos=high"},
        {{{{"reservation", "maint"}}}, "c1 m512" + kPlaces + " resv=maint"},
        {{{{"account", ""}}}, "c1 m512" + kPlaces},
        {{{}, 0, 0, {}, 0, "bare"}, "=1002.2002 c1 m512 name=bare/sim-0"},
        {{{}, 0, 0, {}, 0, "vip-7", "boss"}, "=1002.2002 c1 m512 name=vip-7/sim-0"},
    });
    check_refused({
        {{{{"account", "biology"}}},
         {"slurmjob.slinky.slurm.net/account", "\"biology\"", "physics, chemistry", "science"}},
        {{{{"partition", "secret"}}}, {"slurmjob.slinky.slurm.net/partition", "\"secret\"", "batch, gpu"}},
        {{{{"partition", "batch,secret"}}}, {"partition", "accepted"}},
        {{{{"qos", "urgent"}}}, {"slurmjob.slinky.slurm.net/qos", "\"urgent\"", "normal, high"}},
        {{{{"reservation", "other"}}}, {"slurmjob.slinky.slurm.net/reservation", "\"other\"", "maint"}},
        {{{{"account", "Physics"}}}, {"account", "physics, chemistry"}},
        {{{{"account", "a b"}}}, {"account", "\"a b\"", "accepted"}},
        {{{{"account", "physics\n"}}}, {"account", "accepted"}},
        {{{{"account", std::string(65, 'a')}}}, {"account", "accepted", "..."}},
        {{{{"account", "physics"}}, 0, 0, {}, 0, "bare"}, {"account", "bare", "no account"}},
        {{{{"partition", "batch"}}, 0, 0, {}, 0, "bare"}, {"partition", "no partition"}},
        {{{{"qos", "normal"}}, 0, 0, {}, 0, "bare"}, {"qos", "no qos"}},
        {{{{"reservation", "maint"}}, 0, 0, {}, 0, "bare"}, {"reservation", "no reservation"}},
        {{{}, 0, 0, {}, 0, "elsewhere"}, {"no tenant entry", "elsewhere", "berth.yaml"}},
        {{{}, 0, 0, {}, 0, "vip-7"}, {"no tenant entry", "vip-7", "default"}},
    });
}
END_TEST

START_TEST(identity_is_the_sites_and_never_root) {
    check_accepted({
        {{{{"user-id", "1001"}}}, "c1 m512" + kPlaces},
        {{{{"user-id", "ada"}, {"group-id", "2001"}}}, "c1 m512" + kPlaces},
    });
    check_refused({
        {{{{"user-id", "1002"}}},
         {"slurmjob.slinky.slurm.net/user-id", "\"1002\"", "accepted for namespace science is 1001"}},
        {{{{"user-id", "0"}}}, {"user-id", "\"0\"", "1001"}},
        {{{{"user-id", "root"}}}, {"user-id", "\"root\"", "1001"}},
        {{{{"user-id", "1001x"}}}, {"user-id", "1001"}},
        {{{{"user-id", "4294968297"}}}, {"user-id", "1001"}},
        {{{{"group-id", "0"}}}, {"slurmjob.slinky.slurm.net/group-id", "\"0\"", "2001"}},
        {{{{"group-id", "2002"}}}, {"group-id", "2001"}},
        {{{}, 0, 0, {}, 0, "rooted"}, {"rooted", "user 0"}},
        {{{}, 0, 0, {}, 0, "wheel"}, {"wheel", "group 0"}},
        {{{}, 0, 0, {}, 0, "ghost"}, {"tenant entry", "ghost", "nobody-here"}},
    });
}
END_TEST

START_TEST(time_limits_follow_the_smaller_of_deadline_and_annotation) {
    check_accepted({
        {{{{"timelimit", "30"}}}, "c1 m512" + kPlaces + " t30"},
        {{{{"timelimit", "90s"}}}, "c1 m512" + kPlaces + " t2"},
        {{{{"timelimit", "1-00:00:00"}}}, "c1 m512" + kPlaces + " t1440"},
        {{{{"timelimit", "0"}}}, "c1 m512" + kPlaces},
        {{{}, 0, 0, {}, 90}, "c1 m512" + kPlaces + " t2"},
        {{{}, 0, 0, {}, 60}, "c1 m512" + kPlaces + " t1"},
        {{{}, 0, 0, {}, INT64_MAX}, "c1 m512" + kPlaces + " t35791394"},
        {{{{"timelimit", "30"}}, 0, 0, {}, 60}, "c1 m512" + kPlaces + " t1"},
        {{{{"timelimit", "1"}}, 0, 0, {}, 3600}, "c1 m512" + kPlaces + " t1"},
        {{{{"timelimit", "0"}}, 0, 0, {}, 3600}, "c1 m512" + kPlaces + " t60"},
    });
    check_refused({
        {{{{"timelimit", "foo"}}}, {"slurmjob.slinky.slurm.net/timelimit", "\"foo\"", "accepted"}},
        {{{{"timelimit", "UNLIMITED"}}}, {"timelimit", "accepted"}},
    });
}
END_TEST

START_TEST(free_texts_are_bounded_and_printable) {
    check_accepted({
        {{{{"constraints", "intel&gpu|[rack1*2]"}}}, "c1 m512" + kPlaces + " feat=intel&gpu|[rack1*2]"},
        {{{{"licenses", "matlab:2,ansys@db:1"}}}, "c1 m512" + kPlaces + " lic=matlab:2,ansys@db:1"},
        {{{{"wckey", "proj_1"}}}, "c1 m512" + kPlaces + " wckey=proj_1"},
        {{{{"job-name", "my job"}}}, "c1 m512" + kPlaces + " name=my job"},
    });
    check_refused({
        {{{{"constraints", "a\nb"}}}, {"slurmjob.slinky.slurm.net/constraints", "printable"}},
        {{{{"constraints", std::string(257, 'a')}}}, {"constraints", "up to 256"}},
        {{{{"licenses", "a\x01"}}}, {"slurmjob.slinky.slurm.net/licenses", "printable"}},
        {{{{"job-name", "a\x1b[2J"}}}, {"slurmjob.slinky.slurm.net/job-name", "printable"}},
        {{{{"job-name", "na\xc3\xafve"}}}, {"job-name", "printable"}},
        {{{{"wckey", "*x"}}}, {"slurmjob.slinky.slurm.net/wckey", "accepted"}},
    });
}
END_TEST

START_TEST(sharing_is_the_default_and_exclusive_is_true_or_false) {
    check_accepted({
        {{{{"exclusive", "true"}}}, "c1 m512" + kPlaces + " exclusive"},
        {{{{"exclusive", "false"}}}, "c1 m512" + kPlaces},
        {{{{"exclusive", ""}}}, "c1 m512" + kPlaces},
    });
    check_refused({
        {{{{"exclusive", "yes"}}}, {"slurmjob.slinky.slurm.net/exclusive", "\"yes\"", "\"true\"", "\"false\""}},
        {{{{"exclusive", "True"}}}, {"exclusive", "accepted"}},
        {{{{"exclusive", "user"}}}, {"exclusive", "accepted"}},
    });
    Config config = make_config();
    config.defaults.exclusive = true;
    ck_assert(translate(make_pod({}), config)->exclusive);
    ck_assert(!translate(make_pod({{{"exclusive", "false"}}}), config)->exclusive);
}
END_TEST

START_TEST(priority_needs_the_sites_leave) {
    check_accepted({
        {{{{"priority", "100"}}, 0, 0, {}, 0, "vip-7", "boss"}, "=1002.2002 c1 m512 name=vip-7/sim-0 prio100"},
    });
    check_refused({
        {{{{"priority", "100"}}}, {"slurmjob.slinky.slurm.net/priority", "\"100\"", "science"}},
        {{{{"priority", "foo"}}}, {"priority", "\"foo\"", "whole numbers"}},
        {{{{"priority", "0"}}, 0, 0, {}, 0, "vip-7", "boss"}, {"priority", "\"0\"", "from 1"}},
        {{{{"priority", "-1"}}, 0, 0, {}, 0, "vip-7", "boss"}, {"priority", "whole numbers"}},
        {{{{"priority", "4294967294"}}, 0, 0, {}, 0, "vip-7", "boss"}, {"priority", "4294967293"}},
    });
}
END_TEST

START_TEST(unknown_keys_are_refused_and_foreign_ones_passed_over) {
    check_refused({
        {{{{"time-limit", "30"}}},
         {"slurmjob.slinky.slurm.net/time-limit is unknown", "timelimit", "account, constraints"}},
        {{{{"", "x"}}}, {"is unknown", "wckey"}},
        {{{{"+niec", "5"}}}, {"annotation berth.dev/niec is unknown", "begin, comment, deadline", "switches"}},
        {{{{"+Gang", "true"}}}, {"berth.dev/Gang is unknown"}},
        {{{{"Account", ""}}}, {"slurmjob.slinky.slurm.net/Account is unknown"}},
    });
    kube::Pod pod = make_pod({});
    pod.annotations = {{"berth.dev/nonce", "n"}, {"berth.dev/slot", "0.1"}, {"slinky.slurm.net/slurm-node", "n1"}};
    ck_assert(translate(pod, make_config()).ok());
}
END_TEST

START_TEST(a_pod_that_could_not_be_decoded_says_why) {
    kube::Pod pod = make_pod({});
    pod.problem = "container main: cpu request \"x\" is not a quantity";
    const Result<Placeholder> got = translate(pod, make_config());
    ck_assert(!got.ok());
    check_text(got.error(), pod.problem);
}
END_TEST

START_TEST(a_container_that_says_nothing_of_memory_gets_the_default_at_least) {
    const Config config = make_config();  // whose default is below the second size
    for (const std::int64_t mib : {std::int64_t{1}, config.defaults.memory_mib + 100}) {
        kube::Pod pod = make_pod({.memory_bytes = mib << 20});
        ck_assert_uint_eq(translate(pod, config)->memory_mib, static_cast<std::uint64_t>(mib));
        pod.memory_open = true;
        ck_assert_uint_eq(translate(pod, config)->memory_mib, static_cast<std::uint64_t>(std::max(mib, config.defaults.memory_mib)));
    }
}
END_TEST

START_TEST(site_defaults_serve_pods_that_say_nothing) {
    Config config = make_config();
    config.defaults.memory_mib = 2000;
    config.defaults.cpu_milli = 2500;
    config.defaults.time_limit_minutes = 45;
    const auto translated = [&](const Ask &ask) { return shown(*translate(make_pod(ask), config)); };
    check_text(translated({}), "1001.2001 c3 m2000" + kPlaces + " t45");
    check_text(translated({{}, 0, 0, {}, 60}), "1001.2001 c3 m2000" + kPlaces + " t1");
    // An annotation may go below a default, since the pod itself asked for nothing.
    check_text(translated({{{"cpu-per-task", "1"}, {"mem-per-node", "1Mi"}, {"timelimit", "50"}}}),
               "1001.2001 c1 m1" + kPlaces + " t50");
}
END_TEST

START_TEST(the_first_tenant_entry_that_matches_counts) {
    Config config;
    const std::pair<const char *, const char *> entries[] = {
        {"team-a", "robot"}, {"team-*", ""}, {"*-prod", ""}, {"a*b*c", ""}, {"**", ""}};
    for (const auto &[ns, account] : entries) {
        TenantConfig tenant;
        tenant.ns = ns;
        tenant.service_account = account;
        config.tenants.push_back(tenant);
    }
    const struct {
        const char *ns, *account;
        std::size_t expected;
    } rows[] = {
        {"team-a", "robot", 0}, {"team-a", "default", 1}, {"team-", "x", 1}, {"team-prod", "x", 1},
        {"web-prod", "x", 2},   {"-prod", "x", 2},        {"abc", "x", 3},   {"axxbyyc", "x", 3},
        {"acb", "x", 4},        {"anything", "", 4},
    };
    for (const auto &row : rows)
        ck_assert_msg(find_tenant(config, row.ns, row.account) == &config.tenants[row.expected], "%s/%s", row.ns,
                      row.account);
    config.tenants.pop_back();
    ck_assert_ptr_null(find_tenant(config, "anything", ""));
    ck_assert_ptr_null(find_tenant(config, "team", ""));
}
END_TEST

START_TEST(the_hosts_names_are_looked_up) {
    const IdentityLookup lookup = system_identities();
    const Result<Identity> root = lookup("root", "");
    ck_assert(root.ok());
    ck_assert_uint_eq(root->uid, 0);
    const Result<Identity> number = lookup("3999999999", "3999999998");
    ck_assert(number.ok());
    ck_assert_uint_eq(number->uid, 3999999999u);
    ck_assert_uint_eq(number->gid, 3999999998u);
    ck_assert(!lookup("3999999999", "").ok());
    ck_assert(!lookup("4294967295", "5").ok());
    ck_assert(!lookup("no-such-user-here", "").ok());
    ck_assert(!lookup("root", "no-such-group-here").ok());
    ck_assert(!lookup("", "").ok());
}
END_TEST

const std::string kUsual = "c1 m512" + kPlaces;

START_TEST(other_resources_become_what_the_site_says) {
    check_accepted({
        {{{}, 0, 0, {{"example.com/a100", 1}, {"example.com/h100", 1}}}, kUsual + " gpu:a100=1 gpu:h100=1"},
        {{{}, 0, 0, {{"example.com/a100", 1}, {"nvidia.com/gpu", 2}}}, kUsual + " gpu=2 gpu:a100=1"},
        {{{}, 0, 0, {{"example.com/disk", 5}, {"example.com/h100", 8}}}, kUsual + " gpu:h100=8 tmpdisk=5"},
        {{{}, 0, 64 * kMi, {{"hugepages-2Mi", 32 * kMi}}}, "c1 m96" + kPlaces},
        {{{}, 0, 64 * kMi + 1, {{"hugepages-2Mi", 2 * kMi}}}, "c1 m67" + kPlaces},
        {{{}, 0, 0, {{"hugepages-1Gi", 1024 * kMi}}}, "c1 m1536" + kPlaces},
        {{{}, 0, 1, {{"hugepages-1Gi", 1024 * kMi}, {"hugepages-2Mi", 2 * kMi}}}, "c1 m1027" + kPlaces},
        {{{}, 0, INT64_MAX, {{"hugepages-2Mi", INT64_MAX}}}, "c1 m8796093022208" + kPlaces},
        {{{{"mem-per-node", "96Mi"}}, 0, 64 * kMi, {{"hugepages-2Mi", 32 * kMi}}}, "c1 m96" + kPlaces},
        {{{}, 0, 0, {{"ephemeral-storage", 1 << 30}}}, kUsual},
        {{{}, 0, 0, {{"example.com/nothing", 3}}}, kUsual},
        {{{}, 0, 0, {{"example.com/scratch", 10 * kMi}}}, kUsual + " disk10"},
        {{{}, 0, 0, {{"example.com/scratch", 10 * kMi + 1}}}, kUsual + " disk11"},
        {{{}, 0, 0, {{"example.com/matlab", 2}}}, kUsual + " lic=matlab:2"},
        {{{{"licenses", "ansys@srv:1"}}, 0, 0, {{"example.com/matlab", 2}}}, kUsual + " lic=ansys@srv:1,matlab:2"},
        {{{{"licenses", "matlab:3"}}, 0, 0, {{"example.com/matlab", 2}}}, kUsual + " lic=matlab:3"},
        {{{{"licenses", "a:1|matlab:2"}}, 0, 0, {{"example.com/matlab", 2}}}, kUsual + " lic=a:1|matlab:2"},
    });
    check_refused({
        {{{{"mem-per-node", "64Mi"}}, 0, 64 * kMi, {{"hugepages-2Mi", 32 * kMi}}}, {"mem-per-node", "\"64Mi\"", "96Mi or more"}},
        {{{{"licenses", "matlab"}}, 0, 0, {{"example.com/matlab", 2}}}, {"licenses", "\"matlab\"", "2 of matlab", "matlab:2 or more"}},
        {{{{"licenses", "a|b"}}, 0, 0, {{"example.com/matlab", 1}}}, {"licenses", "\"a|b\"", "with commas"}},
        {{{}, 0, 0, {{"hugepages-64Ki", 65536}}}, {"65536 of hugepages-64Ki", "berth.yaml"}},
    });
    Config config = make_config();
    config.unmapped_resources = Unmet::ignore;
    const auto shapes = shapes_of(make_pod({{}, 0, 0, {{"example.com/fpga", 1}, {"nvidia.com/gpu", 1}}}), config);
    ck_assert(shapes.ok());
    check_text(shown(shapes->front().placeholder), "1001.2001 " + kUsual + " gpu=1");
    ck_assert_uint_eq(shapes->front().notes.size(), 1);
    check_text(shapes->front().notes[0], "the request for example.com/fpga is ignored, because Slurm knows nothing of it here");
}
END_TEST

START_TEST(our_own_annotations_are_told_to_slurm) {
    const Ask vip{{{"+nice", "-7"}}, 0, 0, {}, 0, "vip-7", "boss"};
    check_accepted({
        {{{{"+nice", "100"}}}, kUsual + " nice100"},
        {{{{"+nice", "0"}}}, kUsual + " nice0"},
        {vip, "=1002.2002 c1 m512 name=vip-7/sim-0 nice-7"},
        {{{{"+nice", ""}}}, kUsual},
        {{{{"+prefer", "a100|h100"}}}, kUsual + " prefer=a100|h100"},
        {{{{"+begin", "2026-11-16T13:00:00Z"}}}, kUsual + " begin+3600"},
        {{{{"+begin", "2026-11-16T14:00:00.5+01:00"}}}, kUsual + " begin+3600"},
        {{{{"+begin", "2026-11-16T11:00:00Z"}}}, kUsual},
        {{{{"+begin", "now+90s"}}}, kUsual + " begin+30"},
        {{{{"+begin", "now+5m"}}}, kUsual + " begin+240"},
        {{{{"+begin", "now+2h"}}}, kUsual + " begin+7140"},
        {{{{"+begin", "now+1d"}}}, kUsual + " begin+86340"},
        {{{{"+begin", "now+10s"}}}, kUsual},
        {{{{"+begin", "18:30"}}}, kUsual + " begin+23400"},
        {{{{"+begin", "11:00"}}}, kUsual + " begin+82800"},
        {{{{"+deadline", "now+2h"}}}, kUsual + " deadline+7140"},
        {{{{"+deadline", "23:59"}, {"+begin", "23:00"}}}, kUsual + " begin+39600 deadline+43140"},
        {{{{"+dependency", "afterok:Job/prepare"}}}, kUsual + " dep=afterok:12"},
        {{{{"+dependency", "afterok:first"}}}, kUsual + " dep=afterok:13"},
        {{{{"+dependency", "afterok:Job/prepare,afterok:Pod/first"}}}, kUsual + " dep=afterok:12:13"},
        {{{{"+dependency", "after:first,afternotok:Job/prepare,afterany:first"}}}, kUsual + " dep=after:13,afternotok:12,afterany:13"},
        {{{{"+warn", "5m"}}}, kUsual},
        {{{{"+warn", "0"}}}, kUsual},
        {{{{"+switches", "1"}}}, kUsual + " switches1@0"},
        {{{{"+switches", "2@5m"}}}, kUsual + " switches2@300"},
        {{{{"+exclude", "n1"}}}, kUsual + " not=n1"},
        {{{{"+exclude", "n[3,1-2],gpu-02"}}}, kUsual + " not=gpu-02,n[1-3]"},
        {{{{"+spread", "true"}}}, kUsual + " spread"},
        {{{{"+spread", "2"}}}, kUsual + " per-node2"},
        {{{{"+spread", "false"}, {"+pack", "true"}}}, kUsual + " pack"},
        {{{{"+pack", "false"}, {"+spread", "true"}}}, kUsual + " spread"},
        {{{{"+gang", "false"}}}, kUsual},
    });
    check_refused({
        {{{{"+nice", "-1"}}}, {"annotation berth.dev/nice: \"-1\"", "science", "0 or more"}},
        {{{{"+nice", "much"}}}, {"berth.dev/nice: \"much\"", "whole numbers"}},
        {{{{"+nice", "2147483648"}}}, {"berth.dev/nice", "2147483645"}},
        {{{{"+nice", "--1"}}}, {"berth.dev/nice", "whole numbers"}},
        {{{{"+prefer", "a\nb"}}}, {"berth.dev/prefer", "printable"}},
        {{{{"+comment", std::string(1025, 'x')}}}, {"berth.dev/comment", "1024 printable"}},
        {{{{"+comment", "a\x1b[31m"}}}, {"berth.dev/comment", "printable"}},
        {{{{"+begin", "tomorrow"}}}, {"berth.dev/begin: \"tomorrow\"", "RFC 3339", "now+5m", "HH:MM"}},
        {{{{"+begin", "24:00"}}}, {"berth.dev/begin: \"24:00\"", "accepted"}},
        {{{{"+begin", "2026-02-30T00:00:00Z"}}}, {"berth.dev/begin", "accepted"}},
        {{{{"+begin", "2026-11-16T12:00:00"}}}, {"berth.dev/begin", "accepted"}},
        {{{{"+begin", "2026-11-16"}}}, {"berth.dev/begin", "accepted"}},
        {{{{"+begin", "now+5"}}}, {"berth.dev/begin", "accepted"}},
        {{{{"+begin", "now"}}}, {"berth.dev/begin", "accepted"}},
        {{{{"+deadline", "now+30s"}}}, {"berth.dev/deadline: \"now+30s\"", "has passed"}},
        {{{{"+deadline", "13:00"}, {"+begin", "14:00"}}}, {"berth.dev/deadline: \"13:00\"", "berth.dev/begin", "later"}},
        {{{{"+deadline", "soon"}}}, {"berth.dev/deadline: \"soon\"", "accepted"}},
        {{{{"+dependency", "afterok:Job/clean"}}}, {"berth.dev/dependency", "waits for Job science/clean", "it is not known"}},
        {{{{"+dependency", "afterok:prepare"}}}, {"waits for Pod science/prepare"}},
        {{{{"+dependency", "before:first"}}}, {"berth.dev/dependency: \"before:first\"", "afternotok"}},
        {{{{"+dependency", "afterok:Deployment/x"}}}, {"berth.dev/dependency", "LeaderWorkerSet"}},
        {{{{"+dependency", "afterok:12,,"}}}, {"berth.dev/dependency", "accepted"}},
        {{{{"+dependency", "afterok"}}}, {"berth.dev/dependency", "accepted"}},
        {{{{"+dependency", "afterok:a:b"}}}, {"berth.dev/dependency", "accepted"}},
        {{{{"+warn", "soon"}}}, {"annotation berth.dev/warn: \"soon\" is refused", "5m"}},
        {{{{"+switches", "0"}}}, {"berth.dev/switches: \"0\"", "\"1@5m\""}},
        {{{{"+switches", "1@5"}}}, {"berth.dev/switches: \"1@5\"", "accepted"}},
        {{{{"+switches", "1@"}}}, {"berth.dev/switches", "accepted"}},
        {{{{"+exclude", "n[1-"}}}, {"berth.dev/exclude: \"n[1-\"", "n[1-3,7]"}},
        {{{{"+exclude", "n1 n2"}}}, {"berth.dev/exclude", "separated by commas"}},
        {{{{"+spread", "0"}}}, {"berth.dev/spread: \"0\"", "\"true\"", "number"}},
        {{{{"+spread", "yes"}}}, {"berth.dev/spread: \"yes\"", "accepted"}},
        {{{{"+pack", "1"}}}, {"berth.dev/pack: \"1\"", "\"true\""}},
        {{{{"+pack", "true"}, {"+spread", "true"}}}, {"berth.dev/pack: \"true\"", "berth.dev/spread", "one of the two"}},
        {{{{"+pack", "true"}, {"+spread", "2"}}}, {"berth.dev/pack", "one of the two"}},
        {{{{"+gang", "maybe"}}}, {"berth.dev/gang: \"maybe\"", "\"true\" and \"false\""}},
    });
}
END_TEST

START_TEST(a_comment_is_for_people_and_bounded) {
    check_text(translate(make_pod({{{"+comment", "run 7: \"hot\""}}}), make_config())->comment, "pod science/sim-0: run 7: \"hot\"");
    const std::string longest = translate(make_pod({{{"+comment", std::string(1024, 'x')}}}), make_config())->comment;
    ck_assert_uint_eq(longest.size(), 1024);
}
END_TEST

START_TEST(a_priority_class_means_what_the_site_says_and_annotations_win) {
    const auto with = [](const std::string &name, const Words &words = {}, const std::string &ns = "science",
                         const std::string &account = "default") {
        return Ask{words, 0, 0, {}, 0, ns, account, name};
    };
    const std::string high = "c1 m512 acct=physics part=batch qos=high";
    check_accepted({
        {with("urgent"), high},
        {with("patient"), kUsual + " nice500"},
        {with("pushy"), high + " nice-100"},
        {with("unheard-of"), kUsual},
        {with(""), kUsual},
        {with("pushy", {{"qos", "normal"}}), kUsual + " nice-100"},
        {with("pushy", {{"+nice", "5"}}), high + " nice5"},
        {with("royal", {{"qos", "normal"}}), kUsual},
        {with("patient", {}, "bare"), "=1002.2002 c1 m512 name=bare/sim-0 nice500"},
    });
    check_refused({
        {with("royal"), {"priority class royal", "QOS king", "science: normal, high"}},
        {with("urgent", {}, "bare"), {"priority class urgent", "QOS high", "bare: none"}},
        {with("patient", {{"+nice", "-5"}}), {"berth.dev/nice", "0 or more"}},
    });
}
END_TEST

START_TEST(shapes_name_what_a_pod_and_its_own_annotations_ask_for) {
    const Config config = make_config();
    const auto shape = [&](const Ask &ask) { return shape_of(make_pod(ask), config); };
    check_text(shape({}), "1c 512m");
    check_text(shape({{}, 1500, 100 * kMi, {{"nvidia.com/gpu", 2}, {"example.com/a100", 1}}}), "2c 100m gpu:2,gpu:a100:1");
    check_text(shape({{{"cpu-per-task", "4"}, {"mem-per-node", "1Gi"}, {"gres", "shard:3"}}}), "4c 1024m shard:3");
    check_text(shape({{{"qos", "?"}, {"+typo", "x"}}}), "1c 512m");
    check_text(shape({{{"cpu-per-task", "1"}}, 2000}), "");
    check_text(shape({{}, 0, 0, {{"example.com/fpga", 1}}}), "");
    const kube::Pod pod = make_pod({{{"cpu-per-task", "4"}}, 2000});
    ck_assert_uint_eq(need_of(pod, {annotations({{"cpu-per-task", "8"}}), pod.annotations}, config)->cpus, 8);
    ck_assert(!need_of(pod, {annotations({{"cpu-per-task", "1"}}), pod.annotations}, config).ok());
    check_text(gres_text({{"gpu:a100", 2}, {"shard", 4}}), "gpu:a100:2,shard:4");
    check_text(gres_text({}), "");
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite(
        "placeholder", {a_silent_pod_gets_the_defaults, a_container_that_says_nothing_of_memory_gets_the_default_at_least, sizes_round_up_and_never_fall_below_the_pod,
                        generic_resources_come_from_the_pod_and_its_annotation,
                        an_annotation_chooses_inside_the_tenant_entry_never_outside,
                        identity_is_the_sites_and_never_root, time_limits_follow_the_smaller_of_deadline_and_annotation,
                        free_texts_are_bounded_and_printable, sharing_is_the_default_and_exclusive_is_true_or_false,
                        priority_needs_the_sites_leave, unknown_keys_are_refused_and_foreign_ones_passed_over,
                        a_pod_that_could_not_be_decoded_says_why, site_defaults_serve_pods_that_say_nothing,
                        the_first_tenant_entry_that_matches_counts, the_hosts_names_are_looked_up,
                        other_resources_become_what_the_site_says, our_own_annotations_are_told_to_slurm,
                        a_comment_is_for_people_and_bounded, a_priority_class_means_what_the_site_says_and_annotations_win,
                        shapes_name_what_a_pod_and_its_own_annotations_ask_for});
}
