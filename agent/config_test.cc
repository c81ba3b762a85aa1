#include "agent/config.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "agent/config_check.h"
#include "agent/config_reader.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

const std::string kCluster = "clusters:\n- name: main\n";

void check_text(const std::string &got, const std::string &expected) {
    ck_assert_str_eq(got.c_str(), expected.c_str());
}

Config parsed(const std::string &text) {
    const Result<Config> got = parse_config(text, "t.yaml");
    ck_assert_msg(got.ok(), "refused: %s\n%s", got ? "" : got.error().c_str(), text.c_str());
    return *got;
}

std::string example_text() {
    std::ifstream in(std::string(BERTH_SRCDIR) + "/etc/berth.yaml.example");
    ck_assert_msg(in.good(), "etc/berth.yaml.example cannot be read");
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
}

void check_defaults(const Config &got, const Config &expected) {
    check_text(got.key_file, expected.key_file);
    check_text(got.log_level, expected.log_level);
    ck_assert_int_eq(got.defaults.memory_mib, expected.defaults.memory_mib);
    ck_assert_int_eq(got.defaults.cpu_milli, expected.defaults.cpu_milli);
    ck_assert_uint_eq(got.defaults.time_limit_minutes, expected.defaults.time_limit_minutes);
    ck_assert(got.defaults.exclusive == expected.defaults.exclusive);
    ck_assert(got.defaults.indexed_job_is_gang == expected.defaults.indexed_job_is_gang);
    check_text(got.defaults.managed_taint, expected.defaults.managed_taint);
    ck_assert(got.unmapped_resources == expected.unmapped_resources);
    ck_assert(got.pod_affinity == expected.pod_affinity);
    ck_assert(got.topology_spread == expected.topology_spread);
    ck_assert_uint_eq(got.controller.doorbell_port, expected.controller.doorbell_port);
    check_text(got.controller.notify_socket, expected.controller.notify_socket);
    check_text(got.controller.placeholder_table, expected.controller.placeholder_table);
    ck_assert(got.controller.reconcile == expected.controller.reconcile);
    ck_assert_uint_eq(got.controller.submit_threads, expected.controller.submit_threads);
    ck_assert(got.controller.max_placeholders == expected.controller.max_placeholders);
    ck_assert(got.controller.condition_delay == expected.controller.condition_delay);
    ck_assert(got.controller.warn == expected.controller.warn);
    check_text(got.controller.lease.ns, expected.controller.lease.ns);
    check_text(got.controller.lease.name, expected.controller.lease.name);
    check_text(got.controller.lease.identity, expected.controller.lease.identity);
    ck_assert(got.controller.lease.duration == expected.controller.lease.duration);
    ck_assert(got.controller.lease.renew_deadline == expected.controller.lease.renew_deadline);
    ck_assert(got.controller.lease.retry == expected.controller.lease.retry);
    ck_assert(got.services.renew == expected.services.renew);
    ck_assert_uint_eq(got.services.renew_up_to_minutes, expected.services.renew_up_to_minutes);
    ck_assert(got.nodes.mirror.on_slurm_drain == expected.nodes.mirror.on_slurm_drain);
    ck_assert(got.nodes.mirror.drain_in_slurm == expected.nodes.mirror.drain_in_slurm);
    ck_assert(got.nodes.not_ready_patience == expected.nodes.not_ready_patience);
    ck_assert(got.nodes.taint == expected.nodes.taint);
    ck_assert(got.nodes.lost == expected.nodes.lost);
    check_text(got.node.run_dir, expected.node.run_dir);
    check_text(got.node.kube_name, expected.node.kube_name);
    check_text(got.node.cgroup_mount, expected.node.cgroup_mount);
    check_text(got.node.cgroup_root, expected.node.cgroup_root);
    ck_assert(got.node.isolation == expected.node.isolation);
    ck_assert(got.node.reconcile == expected.node.reconcile);
    ck_assert(got.hold.max_grace == expected.hold.max_grace);
    ck_assert(got.hold.limit == expected.hold.limit);
    ck_assert(got.hold.kill_wait == expected.hold.kill_wait);
    ck_assert(got.hold.api_down == expected.hold.api_down);
    check_text(got.web.listen, expected.web.listen);
    check_text(got.web.node_listen, expected.web.node_listen);
    ck_assert(got.web.beyond_loopback == expected.web.beyond_loopback);
    ck_assert_uint_eq(got.gres.size(), expected.gres.size());
    for (std::size_t i = 0; i < got.gres.size(); i++) {
        check_text(got.gres[i].resource, expected.gres[i].resource);
        check_text(got.gres[i].gres, expected.gres[i].gres);
        check_text(got.gres[i].license, expected.gres[i].license);
        ck_assert(got.gres[i].memory == expected.gres[i].memory);
        ck_assert(got.gres[i].tmp_disk == expected.gres[i].tmp_disk);
        ck_assert(got.gres[i].ignore == expected.gres[i].ignore);
    }
    ck_assert_uint_eq(got.priority_classes.size(), expected.priority_classes.size());
    for (std::size_t i = 0; i < got.priority_classes.size(); i++) {
        check_text(got.priority_classes[i].name, expected.priority_classes[i].name);
        check_text(got.priority_classes[i].qos, expected.priority_classes[i].qos);
        ck_assert(got.priority_classes[i].nice == expected.priority_classes[i].nice);
    }
    ck_assert_uint_eq(got.features.size(), expected.features.size());
    for (std::size_t i = 0; i < got.features.size(); i++)
        check_text(got.features[i].label, expected.features[i].label);
}

START_TEST(a_cluster_alone_is_enough) {
    const Config got = parsed("clusters:\n  - kubeconfig: /etc/berth/kubeconfig\n");
    check_defaults(got, Config());
    ck_assert_uint_eq(got.clusters.size(), 1);
    check_text(got.clusters[0].name, "main");
    check_text(got.clusters[0].kubeconfig, "/etc/berth/kubeconfig");
    check_text(got.clusters[0].scheduler_name, "slurm-bridge-scheduler");
    ck_assert(got.tenants.empty());
}
END_TEST

START_TEST(the_example_parses_as_it_stands_and_shows_the_defaults) {
    const Config got = parsed(example_text());
    check_defaults(got, Config());
    ck_assert_uint_eq(got.clusters.size(), 1);
    check_text(got.clusters[0].name, ClusterConfig().name);
    check_text(got.clusters[0].kubeconfig, ClusterConfig().kubeconfig);
    check_text(got.clusters[0].context, ClusterConfig().context);
    check_text(got.clusters[0].scheduler_name, ClusterConfig().scheduler_name);
    ck_assert(got.tenants.empty());
}
END_TEST

START_TEST(the_example_parses_with_its_examples_uncommented) {
    std::stringstream in(example_text());
    std::string text;
    for (std::string line; std::getline(in, line);)
        text += (line.starts_with("#  ") ? line.substr(1) : line) + "\n";
    const Config got = parsed(text);
    ck_assert_uint_eq(got.tenants.size(), 1);
    check_text(got.tenants[0].ns, "physics-*");
    check_text(got.tenants[0].user, "phys");
    ck_assert_uint_eq(got.tenants[0].accounts.size(), 2);
    ck_assert_uint_eq(got.gres.size(), 7);
    check_text(got.gres[5].gres, "gpu:a100");
    check_text(got.gres[6].license, "matlab");
    ck_assert_uint_eq(got.priority_classes.size(), 1);
    check_text(got.priority_classes[0].qos, "normal");
    ck_assert_int_eq(got.priority_classes[0].nice.value_or(0), -100);
    ck_assert_uint_eq(got.features.size(), 1);
    ck_assert_uint_eq(got.nodes.map.size(), 1);
}
END_TEST

// Whoever adds a key to the configuration must show it in the example.
START_TEST(the_example_shows_every_key) {
    const std::string text = example_text();
    std::istringstream keys(
        "key_file log_level clusters name kubeconfig context scheduler_name tenants namespace "
        "service_account user group accounts partitions qos reservations may_set_priority defaults "
        "memory cpu time_limit exclusive gang managed_taint gres resource license as unmet resources "
        "pod_affinity topology_spread priority_classes qos nice features label controller doorbell_port notify_socket "
        "placeholder_table reconcile submit_threads max_placeholders condition_delay warn lease identity duration renew_deadline retry services renew renew_up_to nodes on_slurm_drain "
        "on_kubernetes_trouble not_ready_patience map slurm kubernetes lost taint node run_dir kube_name "
        "cgroup_mount cgroup_root isolation hold max_grace limit kill_wait api_down "
        "web listen node_listen beyond_loopback");
    for (std::string key; keys >> key;)
        ck_assert_msg(text.find(key + ":") != std::string::npos, "%s", key.c_str());
}
END_TEST

START_TEST(every_key_is_read) {
    const Config got = parsed(R"(
key_file: /k
log_level: debug
clusters:
  - name: east-1
    kubeconfig: /a/config:/b/config
    context: admin@east
    scheduler_name: berth.example
  - name: west
tenants:
  - namespace: a-*
    service_account: robot
    user: DOM\ada
    group: "100"
    accounts: [x, y]
    partitions: [p.1]
    qos: [q_1]
    reservations: [r]
    may_set_priority: true
  - {namespace: a-*, user: 1001}
defaults: {memory: 1Gi, cpu: 1500m, time_limit: 1-0, exclusive: true, gang: indexed, managed_taint: a.b/c}
gres:
  - {resource: nvidia.com/gpu, gres: "gpu:a100"}
  - {resource: example.com/fpga, gres: fpga}
  - {resource: example.com/matlab, license: matlab}
  - {resource: ephemeral-storage, as: tmp_disk}
  - {resource: hugepages-1Gi, as: ignore}
  - {resource: hugepages-64Ki, as: memory}
unmet: {resources: ignore, pod_affinity: ignore, topology_spread: refuse}
priority_classes:
  - {name: urgent, qos: high}
  - {name: system-node-critical, nice: -5, qos: q.1}
  - {name: patient, nice: 100}
features: [{label: example.com/model}, {label: zone}]
controller: {doorbell_port: 6820, notify_socket: /n, placeholder_table: /t, reconcile: 1m, submit_threads: 8, max_placeholders: 20%,
             condition_delay: 250ms, warn: 90s,
             lease: {namespace: ns, name: l, identity: ctl1.example, duration: 30s, renew_deadline: 20s, retry: 4s}}
services: {renew: true, renew_up_to: 2d}
nodes: {on_slurm_drain: mark, on_kubernetes_trouble: nothing, not_ready_patience: 2m, lost: force, taint: true,
        map: [{slurm: n1, kubernetes: worker-1}, {slurm: n2, kubernetes: worker-2.example}]}
node: {run_dir: /run/berth/%n, kube_name: n1.example, cgroup_mount: /c, cgroup_root: /kube/%n, isolation: cores, reconcile: 10s}
hold: {max_grace: 1m, limit: 60s, kill_wait: 5s, api_down: 1h}
web: {listen: "[::1]:80", node_listen: 0.0.0.0:81, beyond_loopback: true}
)");
    Config expected;
    expected.key_file = "/k";
    expected.log_level = "debug";
    expected.defaults = {1024, 1500, 1440, true, true, "a.b/c"};
    expected.gres = {{.resource = "nvidia.com/gpu", .gres = "gpu:a100"},    {.resource = "amd.com/gpu", .gres = "gpu"},
                     {.resource = "hugepages-2Mi", .memory = true},         {.resource = "hugepages-1Gi", .ignore = true},
                     {.resource = "ephemeral-storage", .tmp_disk = true},   {.resource = "example.com/fpga", .gres = "fpga"},
                     {.resource = "example.com/matlab", .license = "matlab"}, {.resource = "hugepages-64Ki", .memory = true}};
    expected.unmapped_resources = Unmet::ignore;
    expected.pod_affinity = Unmet::ignore;
    expected.topology_spread = Unmet::refuse;
    expected.priority_classes = {{"urgent", "high", {}}, {"system-node-critical", "q.1", -5}, {"patient", "", 100}};
    expected.features = {{"example.com/model"}, {"zone"}};
    expected.controller = {6820, "/n", "/t", std::chrono::seconds(60), 8, {0, 20}, std::chrono::milliseconds(250), std::chrono::seconds(90),
                           {"ns", "l", "ctl1.example", std::chrono::seconds(30), std::chrono::seconds(20), std::chrono::seconds(4)}};
    expected.services = {true, 2880};
    expected.nodes.mirror = {OnSlurmDrain::mark, false};
    expected.nodes.not_ready_patience = std::chrono::seconds(120);
    expected.nodes.taint = true;
    expected.nodes.lost = OnLostNode::force;
    ck_assert_uint_eq(got.nodes.map.size(), 2);
    check_text(got.nodes.map[1].slurm + " " + got.nodes.map[1].kubernetes, "n2 worker-2.example");
    expected.node = {"/run/berth/%n", "n1.example", "/c", "/kube/%n", Isolation::cores, std::chrono::seconds(10)};
    expected.web = {"[::1]:80", "0.0.0.0:81", true};
    expected.hold = {std::chrono::seconds(60), std::chrono::seconds(60), std::chrono::seconds(5),
                     std::chrono::seconds(3600)};
    check_defaults(got, expected);
    ck_assert_uint_eq(got.clusters.size(), 2);
    check_text(got.clusters[0].name, "east-1");
    check_text(got.clusters[0].kubeconfig, "/a/config:/b/config");
    check_text(got.clusters[0].context, "admin@east");
    check_text(got.clusters[0].scheduler_name, "berth.example");
    ck_assert_uint_eq(got.tenants.size(), 2);
    const TenantConfig &tenant = got.tenants[0];
    check_text(tenant.ns, "a-*");
    check_text(tenant.service_account, "robot");
    check_text(tenant.user, "DOM\\ada");
    check_text(tenant.group, "100");
    ck_assert(tenant.accounts == (std::vector<std::string>{"x", "y"}));
    ck_assert(tenant.partitions == std::vector<std::string>{"p.1"});
    ck_assert(tenant.qos == std::vector<std::string>{"q_1"});
    ck_assert(tenant.reservations == std::vector<std::string>{"r"});
    ck_assert(tenant.may_set_priority);
    check_text(got.tenants[1].user, "1001");
}
END_TEST

START_TEST(warnings_can_be_off_and_renewals_unbounded) {
    const Config got = parsed("clusters: [{name: a}]\ncontroller: {warn: 0}\nservices: {renew_up_to: unlimited}\n");
    ck_assert_int_eq(got.controller.warn.count(), 0);
    ck_assert_uint_eq(got.services.renew_up_to_minutes, 0);
}
END_TEST

START_TEST(empty_sections_keep_the_defaults) {
    const std::string sections = "tenants:\ndefaults:\ngres: []\nunmet:\npriority_classes: []\nfeatures:\n";
    check_defaults(parsed(kCluster + sections + "controller:\nnode: {}\nhold:\n"), Config());
}
END_TEST

struct Wrong {
    std::string text;   // after kCluster, so that its first line is line 3
    std::string begin;  // how the error begins
    std::vector<std::string> words;
};

START_TEST(errors_name_file_line_and_key_and_what_is_accepted) {
    const std::string tenant = "tenants:\n- namespace: a\n  user: ada\n";
    const Wrong rows[] = {
        {"hold:\n  max_grase: 5s\n", "t.yaml:4: hold.max_grase: unknown key", {"perhaps max_grace", "kill_wait"}},
        {"hold: {maxGrace: 5s}\n", "t.yaml:3: hold.maxGrace: unknown key", {"perhaps max_grace"}},
        {"Tenants: []\n", "t.yaml:3: Tenants: unknown key", {"perhaps tenants", "key_file"}},
        {"controller: {warn: 500ms}\n", "t.yaml:3: controller.warn: \"500ms\"", {"5m", "0 for no warning"}},
        {"controller: {lease: {duration: 10s}}\n", "t.yaml:3: controller.lease: duration (10s) is not longer", {"11s or more"}},
        {"controller: {lease: {duration: 3601s}}\n", "t.yaml:3: controller.lease: duration (3601s) is longer", {"3600s or less"}},
        {"controller: {lease: {retry: 6s}}\n", "t.yaml:3: controller.lease: renew_deadline (10s) is shorter", {"12s or more"}},
        {"controller: {lease: {identity: 'a b'}}\n", "t.yaml:3: controller.lease.identity: \"a b\"", {"printable"}},
        {"services: {renew_up_to: forever}\n", "t.yaml:3: services.renew_up_to: \"forever\"", {"unlimited", "30d"}},
        {"zebra: 1\n", "t.yaml:3: zebra: unknown key; accepted are key_file", {}},
        {tenant + "  acounts: [x]\n", "t.yaml:6: tenants[0].acounts: unknown key", {"perhaps accounts"}},
        {tenant + "  ns: x\n", "t.yaml:6: tenants[0].ns: unknown key", {"namespace"}},
        {"log_level: loud\n", "t.yaml:3: log_level: \"loud\"", {"accepted", "warning"}},
        {"log_level:\n", "t.yaml:3: log_level: has no value", {"accepted"}},
        {"log_level: [info]\n", "t.yaml:3: log_level: is a list or map", {"accepted"}},
        {"key_file: key\n", "t.yaml:3: key_file: \"key\"", {"absolute"}},
        {"tenants: x\n", "t.yaml:3: tenants: is not a list", {"accepted"}},
        {"tenants: [x]\n", "t.yaml:3: tenants[0]: is not a map", {"accepted"}},
        {"tenants:\n- namespace: a\n", "t.yaml:4: tenants[0].user: is missing", {"required"}},
        {"tenants:\n- user: ada\n", "t.yaml:4: tenants[0].namespace: is missing", {"required"}},
        {"tenants:\n-\n", "t.yaml:4: tenants[0].namespace: is missing", {}},
        {"tenants:\n- namespace: a\n  user: root\n",
         "t.yaml:5: tenants[0].user: \"root\" is refused",
         {"root", "accepted"}},
        {"tenants:\n- namespace: a\n  user: 0\n", "t.yaml:5: tenants[0].user: \"0\" is refused", {"root"}},
        {"tenants:\n- namespace: a\n  user: '00'\n", "t.yaml:5: tenants[0].user: \"00\" is refused", {"root"}},
        {"tenants:\n- namespace: a\n  user: ''\n", "t.yaml:5: tenants[0].user: \"\"", {"accepted"}},
        {tenant + "  group: 0\n", "t.yaml:6: tenants[0].group: \"0\" is refused", {"root"}},
        {"tenants:\n- namespace: A_b\n  user: ada\n", "t.yaml:4: tenants[0].namespace: \"A_b\"", {"accepted"}},
        {tenant + "  accounts: [a, 'b c']\n", "t.yaml:6: tenants[0].accounts[1]: \"b c\"", {"accepted"}},
        {tenant + "  accounts: [a, a]\n", "t.yaml:6: tenants[0].accounts[1]: \"a\" is given twice", {"once"}},
        {tenant + "  accounts: a\n", "t.yaml:6: tenants[0].accounts: is not a list", {"accepted"}},
        {tenant + "  may_set_priority: yes\n", "t.yaml:6: tenants[0].may_set_priority: \"yes\"", {"true and false"}},
        {tenant + "- namespace: a\n  user: bob\n", "t.yaml:6: tenants[1].namespace: \"a\"", {"tenants[0]"}},
        {"defaults:\n  memory: 0\n", "t.yaml:4: defaults.memory: \"0\"", {"accepted", "512Mi"}},
        {"defaults:\n  memory: lots\n", "t.yaml:4: defaults.memory: \"lots\" is not a quantity", {"accepted"}},
        {"defaults:\n  cpu: 0\n", "t.yaml:4: defaults.cpu: \"0\"", {"accepted"}},
        {"defaults:\n  cpu: 65534\n", "t.yaml:4: defaults.cpu: \"65534\"", {"65533"}},
        {"defaults:\n  time_limit: soon\n", "t.yaml:4: defaults.time_limit: \"soon\"", {"accepted"}},
        {"defaults:\n  exclusive: 'true'\n", "t.yaml:4: defaults.exclusive: \"true\"", {"accepted"}},
        {"defaults: 5\n", "t.yaml:3: defaults: is not a map", {"accepted"}},
        {"gres:\n- resource: gpu\n  gres: gpu\n", "t.yaml:4: gres[0].resource: \"gpu\"", {"nvidia.com/gpu"}},
        {"gres:\n- resource: a.b/c\n", "t.yaml:4: gres[0]: says nowhere", {"gres, license and as"}},
        {"gres:\n- {resource: a.b/c, gres: x, as: ignore}\n", "t.yaml:4: gres[0]: says more than once", {"one of"}},
        {"gres:\n- resource: a.b/c\n  as: gres\n", "t.yaml:5: gres[0].as: \"gres\"", {"memory, tmp_disk and ignore"}},
        {"gres:\n- resource: a.b/c\n  license: 'a b'\n", "t.yaml:5: gres[0].license: \"a b\"", {"accepted"}},
        {"gres:\n- resource: hugepages-big\n  as: memory\n", "t.yaml:4: gres[0].resource: \"hugepages-big\"", {"hugepages-2Mi"}},
        {"unmet:\n  resources: maybe\n", "t.yaml:4: unmet.resources: \"maybe\"", {"refuse and ignore"}},
        {"unmet:\n  topology: ignore\n", "t.yaml:4: unmet.topology: unknown key", {"topology_spread"}},
        {"unmet:\n  pod_affinity:\n", "t.yaml:4: unmet.pod_affinity: has no value", {"accepted"}},
        {"priority_classes:\n- qos: x\n", "t.yaml:4: priority_classes[0].name: is missing", {"required"}},
        {"priority_classes:\n- name: x\n", "t.yaml:4: priority_classes[0]: does not say", {"qos, nice or both"}},
        {"priority_classes:\n- name: x\n  nice: much\n", "t.yaml:5: priority_classes[0].nice: \"much\"", {"2147483645"}},
        {"priority_classes:\n- {name: x, nice: 1}\n- {name: x, nice: 2}\n",
         "t.yaml:5: priority_classes[1].name: \"x\" is given twice",
         {"one entry"}},
        {"features:\n- label: 'a b'\n", "t.yaml:4: features[0].label: \"a b\"", {"accepted"}},
        {"features:\n- {}\n", "t.yaml:4: features[0].label: is missing", {"required"}},
        {"features:\n- label: a\n- label: a\n", "t.yaml:5: features[1].label: \"a\" is given twice", {"once"}},
        {"defaults:\n  gang: always\n", "t.yaml:4: defaults.gang: \"always\"", {"asked and indexed"}},
        {"defaults:\n  managed_taint: a b\n", "t.yaml:4: defaults.managed_taint: \"a b\"", {"accepted"}},
        {"gres:\n- resource: a.b/c\n  gres: 'gpu:a:2'\n", "t.yaml:5: gres[0].gres: \"gpu:a:2\"", {"NAME:TYPE"}},
        {"gres:\n- {resource: a.b/c, gres: x}\n- {resource: a.b/c, gres: y}\n",
         "t.yaml:5: gres[1].resource: \"a.b/c\"",
         {"twice"}},
        {"controller:\n  doorbell_port: 65536\n", "t.yaml:4: controller.doorbell_port: \"65536\"", {"0 to 65535"}},
        {"controller:\n  doorbell_port: x\n", "t.yaml:4: controller.doorbell_port: \"x\"", {"whole numbers"}},
        {"controller:\n  submit_threads: 0\n", "t.yaml:4: controller.submit_threads: \"0\"", {"1 to 64"}},
        {"controller:\n  max_placeholders: 0\n", "t.yaml:4: controller.max_placeholders: \"0\" is refused", {"from 1"}},
        {"controller:\n  max_placeholders: 95%\n", "t.yaml:4: controller.max_placeholders: \"95%\" is refused", {"90%"}},
        {"controller:\n  max_placeholders: -5\n", "t.yaml:4: controller.max_placeholders: \"-5\" is refused", {"a number"}},
        {"controller:\n  max_placeholders: 5x\n", "t.yaml:4: controller.max_placeholders: \"5x\" is refused", {"a number"}},
        {"controller:\n  reconcile: 30\n", "t.yaml:4: controller.reconcile: \"30\" is not a duration", {"30s"}},
        {"controller:\n  reconcile: 0s\n", "t.yaml:4: controller.reconcile: \"0s\"", {"above 0"}},
        {"controller:\n  reconcile: 1500ms\n", "t.yaml:4: controller.reconcile: \"1500ms\"", {"whole seconds"}},
        {"controller:\n  notify_socket: /" + std::string(107, 'x') + "\n",
         "t.yaml:4: controller.notify_socket: ",
         {"107", "..."}},
        {"nodes:\n  on_slurm_drain: drain\n", "t.yaml:4: nodes.on_slurm_drain: \"drain\"", {"cordon, mark and nothing"}},
        {"nodes:\n  on_kubernetes_trouble: panic\n", "t.yaml:4: nodes.on_kubernetes_trouble: \"panic\"", {"drain and nothing"}},
        {"nodes:\n  not_ready_patience: 40\n", "t.yaml:4: nodes.not_ready_patience: \"40\" is not a duration", {"accepted"}},
        {"nodes:\n  map: [{slurm: n1}]\n", "t.yaml:4: nodes.map[0].kubernetes: is missing", {"required"}},
        {"nodes:\n  map:\n  - {slurm: n1, kubernetes: a}\n  - {slurm: n1, kubernetes: b}\n",
         "t.yaml:6: nodes.map[1]: \"n1\" is given twice",
         {"one entry"}},
        {"node:\n  kube_name: N_1\n", "t.yaml:4: node.kube_name: \"N_1\"", {"accepted"}},
        {"node:\n  run_dir: run\n", "t.yaml:4: node.run_dir: \"run\"", {"absolute"}},
        {"web:\n  listen: localhost:80\n", "t.yaml:4: web.listen: \"localhost:80\" is no address", {"127.0.0.1:9484", "off"}},
        {"web:\n  listen: 0.0.0.0:80\n", "t.yaml:4: web.listen: \"0.0.0.0:80\" can be reached from other hosts", {"web.beyond_loopback: true"}},
        {"web:\n  beyond_loopback: false\n  node_listen: \"[::]:80\"\n", "t.yaml:5: web.node_listen: ", {"loopback"}},
        {"hold:\n  max_grace: 60s\n  limit: 59s\n", "t.yaml:5: hold.limit: ", {"59s", "60s or more"}},
        {"hold:\n  max_grace: 181s\n", "t.yaml:4: hold.max_grace: ", {"180s", "181s or more"}},
        {"hold:\n  limit: 100s\n", "t.yaml:4: hold.limit: ", {"120s or more"}},
        {"hold: {}\nhold: {}\n", "t.yaml:4: hold: given twice", {}},
    };
    for (const Wrong &row : rows) {
        const Result<Config> got = parse_config(kCluster + row.text, "t.yaml");
        ck_assert_msg(!got.ok(), "accepted: %s", row.text.c_str());
        ck_assert_msg(got.error().starts_with(row.begin), "%s\n got      %s\n expected %s", row.text.c_str(),
                      got.error().c_str(), row.begin.c_str());
        for (const std::string &word : row.words)
            ck_assert_msg(got.error().find(word) != std::string::npos, "\"%s\" is missing in: %s", word.c_str(),
                          got.error().c_str());
        ck_assert_msg(got.error().find('\n') == std::string::npos, "newline in: %s", got.error().c_str());
    }
}
END_TEST

START_TEST(clusters_are_required_and_have_names_of_their_own) {
    const std::pair<std::string, std::string> rows[] = {
        {"", "t.yaml:1: clusters: is missing; accepted is a list"},
        {"log_level: info\n", "t.yaml:1: clusters: is missing"},
        {"log_level: info\nclusters: []\n", "t.yaml:2: clusters: is empty"},
        {"clusters:\n", "t.yaml:1: clusters: is empty"},
        {"clusters:\n- name: A\n", "t.yaml:2: clusters[0].name: \"A\""},
        {"clusters:\n- name: ''\n", "t.yaml:2: clusters[0].name: \"\""},
        {"clusters:\n- name: a\n- name: b\n- name: a\n",
         "t.yaml:4: clusters[2].name: \"a\" is the name of clusters[0] too"},
        {"clusters:\n- name: a\n  kubeconfig: config\n", "t.yaml:3: clusters[0].kubeconfig: \"config\""},
        {"clusters:\n- name: a\n  kubeconfig: /a:b\n", "t.yaml:3: clusters[0].kubeconfig: \"/a:b\""},
        {"clusters:\n- name: a\n  scheduler_name: ''\n", "t.yaml:3: clusters[0].scheduler_name: \"\""},
        {"- a\n", "t.yaml:1: is not a map"},
        {"clusters: [\n", "t.yaml:2: "},
    };
    for (const auto &[text, begin] : rows) {
        const Result<Config> got = parse_config(text, "t.yaml");
        ck_assert_msg(!got.ok(), "accepted: %s", text.c_str());
        ck_assert_msg(got.error().starts_with(begin), "%s\n got      %s\n expected %s", text.c_str(),
                      got.error().c_str(), begin.c_str());
    }
}
END_TEST

START_TEST(a_missing_file_is_named) {
    const Result<Config> got = load_config("/nonexistent/berth.yaml");
    ck_assert(!got.ok());
    ck_assert_msg(got.error().starts_with("/nonexistent/berth.yaml: "), "%s", got.error().c_str());
}
END_TEST

// What check_config() writes for a path: its status, standard output and standard error in one text.
std::string checked(const std::string &path) {
    char *out_text = nullptr, *err_text = nullptr;
    std::size_t out_size = 0, err_size = 0;
    std::FILE *out = open_memstream(&out_text, &out_size), *err = open_memstream(&err_text, &err_size);
    const int status = check_config(path, out, err);
    std::fclose(out);
    std::fclose(err);
    const std::string all = std::to_string(status) + "|" + out_text + "|" + err_text;
    std::free(out_text);
    std::free(err_text);
    return all;
}

START_TEST(checking_a_file_says_ok_or_one_line_of_error) {
    const std::string good = std::string(BERTH_SRCDIR) + "/etc/berth.yaml.example";
    check_text(checked(good), "0|" + good + ": ok\n|");
    check_text(checked("/nonexistent/berth.yaml"), "1||/nonexistent/berth.yaml: No such file or directory\n");
}
END_TEST

START_TEST(only_near_words_are_suggested) {
    const std::vector<std::string_view> known = {"max_grace", "limit", "kill_wait", "api_down", "qos"};
    check_text(std::string(nearest("kill-wait", known)), "kill_wait");
    check_text(std::string(nearest("limits", known)), "limit");
    check_text(std::string(nearest("apidwon", known)), "api_down");
    check_text(std::string(nearest("xy", known)), "");
    check_text(std::string(nearest("", known)), "");
    check_text(std::string(nearest("colour", known)), "");
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite(
        "config", {a_cluster_alone_is_enough, the_example_parses_as_it_stands_and_shows_the_defaults,
                   the_example_parses_with_its_examples_uncommented, the_example_shows_every_key, every_key_is_read,
                   warnings_can_be_off_and_renewals_unbounded, empty_sections_keep_the_defaults, errors_name_file_line_and_key_and_what_is_accepted,
                   clusters_are_required_and_have_names_of_their_own, a_missing_file_is_named,
                   checking_a_file_says_ok_or_one_line_of_error, only_near_words_are_suggested});
}
