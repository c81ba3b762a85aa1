// Placement: node selectors, affinities, tolerations and the nodes' labels and taints -> the nodes that Slurm must leave out.
#include "agent/translate/placeholder.h"
#include "agent/translate/table_test.h"

using namespace berth;
using namespace berth::test;
using kube::Placement;
using kube::Requirement;
using kube::Toleration;
using Op = Requirement::Op;

namespace {

SiteNode node(const std::string &name, kube::KeyValues labels, std::vector<kube::Taint> taints = {}) {
    std::sort(labels.begin(), labels.end());
    return {.slurm_name = name, .in_kubernetes = true, .labels = std::move(labels), .taints = std::move(taints), .kube_name = name + ".k8s"};
}

// Six nodes: n1 to n3 plain, gpu1 and gpu2 with devices and a taint, and one that Kubernetes does not know.
std::vector<SiteNode> make_nodes() {
    const std::vector<kube::Taint> managed = {{"slinky.slurm.net/managed-node", "x", "NoExecute"}};
    std::vector<kube::Taint> gpu = managed;
    gpu.push_back({"gpu", "only", "NoSchedule"});
    std::vector<kube::Taint> passing = managed;
    passing.push_back({"node.kubernetes.io/not-ready", "", "NoExecute"});
    passing.push_back({"node.kubernetes.io/disk-pressure", "", "NoSchedule"});
    passing.push_back({"soft", "", "PreferNoSchedule"});
    std::vector<SiteNode> nodes = {
        node("n1", {{"disk", "ssd"}, {"cores", "8"}, {"zone", "a"}}, managed),
        node("n2", {{"disk", "hdd"}, {"cores", "16"}, {"zone", "a"}}, passing),
        node("n3", {{"cores", "many"}, {"zone", "b"}}),
        node("gpu1", {{"example.com/model", "a100"}, {"zone", "b"}}, gpu),
        node("gpu2", {{"example.com/model", "h100"}, {"zone", "b"}}, gpu),
        node("login", {}),
    };
    nodes[1].unschedulable = true;
    nodes[5].in_kubernetes = false;
    return nodes;
}

Placement selecting(kube::KeyValues selector) {
    std::sort(selector.begin(), selector.end());
    return {.node_selector = std::move(selector)};
}

Placement requiring(std::vector<kube::Term> terms) { return {.has_required = true, .required = std::move(terms)}; }

Requirement is(const std::string &key, Op op, std::vector<std::string> values = {}, bool field = false) {
    return {key, op, std::move(values), field};
}

Placement tolerating(std::vector<Toleration> tolerations) { return {.tolerations = std::move(tolerations)}; }

Placement preferring(std::vector<std::pair<std::int64_t, kube::Term>> preferred) { return {.preferred = std::move(preferred)}; }

struct Row {
    Placement placement;
    std::string expected;  // the nodes left out; or the prefer words
    Words annotations;
};

Result<std::vector<Shape>> translate(const std::vector<Row> &pods, const std::vector<SiteNode> &nodes = make_nodes(),
                                     const Config &config = make_config()) {
    std::vector<kube::Pod> made;
    for (const Row &row : pods) {
        kube::Pod pod;
        pod.ns = "science";
        pod.name = fmt::format("sim-{}", made.size());
        pod.uid = pod.name;
        pod.placement = std::make_shared<Placement>(row.placement);
        pod.annotations = annotations(row.annotations);
        made.push_back(std::move(pod));
    }
    Membership m;
    m.kind = "PodGroup";
    m.ns = "science";
    m.name = "ring";
    m.gang = pods.size() > 1;
    m.size = static_cast<std::uint32_t>(pods.size());
    std::vector<const kube::Pod *> members;
    for (const kube::Pod &pod : made)
        members.push_back(&pod);
    return berth::translate(m, members, Site{config, identities, nodes, {}, kNow});
}

template <class View>
void check_rows(const std::vector<Row> &rows, View view) {
    for (std::size_t i = 0; i < rows.size(); i++) {
        const auto got = translate({rows[i]});
        ck_assert_msg(got.ok(), "row %zu (%s) is refused: %s", i, rows[i].expected.c_str(), got ? "" : got.error().c_str());
        const std::string seen = view(got->front());
        ck_assert_msg(seen == rows[i].expected, "row %zu:\n got      %s\n expected %s", i, seen.c_str(), rows[i].expected.c_str());
    }
}

std::string left_out(const Shape &shape) { return shape.placeholder.excluded_nodes; }

const std::vector<Toleration> kGpuTolerated = {{"gpu", "Exists", "", ""}};
Placement with_gpus(Placement placement) {
    placement.tolerations = kGpuTolerated;
    return placement;
}

START_TEST(node_selectors_and_affinities_leave_nodes_out) {
    check_rows(
        {
            {with_gpus({}), "login", {}},
            {selecting({{"disk", "ssd"}}), "gpu[1-2],login,n[2-3]", {}},
            {with_gpus(selecting({{"zone", "b"}})), "login,n[1-2]", {}},
            {with_gpus(selecting({{"example.com/model", "h100"}, {"zone", "b"}})), "gpu1,login,n[1-3]", {}},
            {with_gpus(requiring({{is("zone", Op::in, {"a", "c"})}})), "gpu[1-2],login,n3", {}},
            {with_gpus(requiring({{is("zone", Op::not_in, {"a"})}})), "login,n[1-2]", {}},
            {with_gpus(requiring({{is("disk", Op::not_in, {"ssd"})}})), "login,n1", {}},
            {with_gpus(requiring({{is("disk", Op::exists)}})), "gpu[1-2],login,n3", {}},
            {with_gpus(requiring({{is("disk", Op::does_not_exist)}})), "login,n[1-2]", {}},
            {with_gpus(requiring({{is("cores", Op::gt, {"8"})}})), "gpu[1-2],login,n[1,3]", {}},
            {with_gpus(requiring({{is("cores", Op::gt, {"7"})}})), "gpu[1-2],login,n3", {}},
            {with_gpus(requiring({{is("cores", Op::lt, {"16"})}})), "gpu[1-2],login,n[2-3]", {}},
            {with_gpus(requiring({{is("metadata.name", Op::in, {"n3.k8s"}, true)}})), "gpu[1-2],login,n[1-2]", {}},
            {with_gpus(requiring({{is("metadata.name", Op::not_in, {"n3.k8s"}, true)}})), "login,n3", {}},
            {with_gpus(requiring({{is("zone", Op::in, {"a"}), is("disk", Op::in, {"hdd"})}})), "gpu[1-2],login,n[1,3]", {}},
            {with_gpus(requiring({{is("disk", Op::in, {"ssd"})}, {is("example.com/model", Op::exists)}})), "login,n[2-3]", {}},
            {with_gpus(requiring({{}, {is("disk", Op::in, {"ssd"})}})), "gpu[1-2],login,n[2-3]", {}},
            {{}, "gpu[1-2],login,n2", {{"+exclude", "n2"}}},
            {selecting({{"zone", "a"}}), "gpu[1-2],login,n[1,3]", {{"+exclude", "n1,gpu[1-2]"}}},
        },
        left_out);
}
END_TEST

START_TEST(taints_leave_nodes_out_unless_tolerated) {
    check_rows(
        {
            {{}, "gpu[1-2],login", {}},
            {tolerating({{"gpu", "Equal", "only", "NoSchedule"}}), "login", {}},
            {tolerating({{"gpu", "", "only", ""}}), "login", {}},
            {tolerating({{"gpu", "Equal", "other", ""}}), "gpu[1-2],login", {}},
            {tolerating({{"gpu", "Equal", "only", "NoExecute"}}), "gpu[1-2],login", {}},
            {tolerating({{"gpu", "Exists", "", "NoSchedule"}}), "login", {}},
            {tolerating({{"", "Exists", "", ""}}), "login", {}},
            {tolerating({{"", "Exists", "", "NoExecute"}}), "gpu[1-2],login", {}},
            {tolerating({{"", "Equal", "only", ""}}), "gpu[1-2],login", {}},
            {tolerating({{"other", "Exists", "", ""}, {"gpu", "Exists", "", ""}}), "login", {}},
            {tolerating({{"gpu", "Gt", "only", ""}}), "gpu[1-2],login", {}},
        },
        left_out);
    const SiteNode tainted = node("x", {}, {{"slinky.slurm.net/managed-node", "", "NoSchedule"}});
    Config config = make_config();
    ck_assert_text(mismatch({}, tainted, config), "");
    config.defaults.managed_taint = "example.com/slurm";
    ck_assert_text(mismatch({}, tainted, config), "it does not tolerate the taint slinky.slurm.net/managed-node:NoSchedule");
    for (const char *key : {"not-ready", "unreachable", "unschedulable", "disk-pressure", "memory-pressure", "pid-pressure",
                            "network-unavailable"})
        ck_assert_text(mismatch({}, node("x", {}, {{std::string("node.kubernetes.io/") + key, "", "NoSchedule"}}), config), "");
    ck_assert(!mismatch({}, node("x", {}, {{"node.kubernetes.io/out-of-service", "y", "NoExecute"}}), config).empty());
}
END_TEST

START_TEST(a_workload_that_can_never_fit_says_so_at_once) {
    const struct {
        std::vector<Row> pods;
        std::vector<std::string> words;
    } rows[] = {
        {{{selecting({{"disk", "tape"}}), "", {}}},
         {"no node can take pod science/sim-0", "Slurm's 6 nodes", "5 because its nodeSelector asks for disk=tape",
          "1 because Kubernetes knows no such node"}},
        {{{selecting({{"zone", "b"}, {"cores", "16"}}), "", {}}}, {"asks for cores=16", "4 because"}},
        {{{selecting({{"example.com/model", "a100"}}), "", {}}},
         {"4 because its nodeSelector asks for example.com/model=a100",
          "1 because it does not tolerate the taint gpu=only:NoSchedule"}},
        {{{requiring({{is("zone", Op::in, {"x", "y"})}}), "", {}}}, {"required node affinity asks for zone In (x, y)"}},
        {{{requiring({{is("zone", Op::in, {"x"}), is("disk", Op::exists)}, {is("cores", Op::gt, {"99"})}}), "", {}}},
         {"zone In (x) and disk Exists, or cores Gt 99"}},
        {{{requiring({}), "", {}}}, {"asks for nothing that a node could have"}},
        {{{requiring({{}}), "", {}}}, {"5 because its required node affinity"}},
        {{{requiring({{is("cores", Op::gt, {"x"})}}), "", {}}}, {"cores Gt x"}},
        {{{requiring({{is("cores", Op::unknown, {"x"})}}), "", {}}}, {"cores with an operator"}},
        {{{requiring({{is("metadata.uid", Op::does_not_exist, {}, true)}}), "", {}}}, {"metadata.uid DoesNotExist"}},
        {{{{}, "", {{"+exclude", "n[1-3]"}}}}, {"3 because annotation berth.dev/exclude says so", "2 because it does not tolerate"}},
        {{{{}, "", {{"+exclude", "n[3-5]"}}}}, {"berth.dev/exclude: \"n[4-5]\"", "no such node"}},
        {{{selecting({{"disk", "ssd"}}), "", {}}, {selecting({{"disk", "hdd"}}), "", {}}},
         {"no node suits all of the 2 pods", "each alone would find one", "give them the same"}},
        {{{selecting({{"disk", "ssd"}}), "", {}}, {selecting({{"disk", "tape"}}), "", {}}}, {"no node can take", "disk=tape"}},
        {{{Placement{.pod_affinity = true}, "", {}}}, {"required affinity to other pods", "Slurm cannot be told", "unmet.pod_affinity"}},
    };
    for (std::size_t i = 0; i < std::size(rows); i++) {
        const auto got = translate(rows[i].pods);
        ck_assert_msg(!got.ok(), "row %zu (%s) is accepted", i, rows[i].words[0].c_str());
        check_refusal(i, got.error(), rows[i].words);
    }
    std::vector<SiteNode> foreign = make_nodes();
    for (SiteNode &n : foreign)
        n.in_kubernetes = false;
    check_refusal(0, translate({{}}, foreign).error(), {"6 because Kubernetes knows no such node"});
}
END_TEST

START_TEST(pods_of_one_size_are_placed_alike) {
    const auto got = translate({{with_gpus(selecting({{"zone", "b"}})), "", {}}, {selecting({{"zone", "b"}}), "", {}}, {with_gpus({}), "", {}}});
    ck_assert(got.ok());
    ck_assert_uint_eq(got->size(), 1);
    ck_assert_text(left_out(got->front()), "gpu[1-2],login,n[1-2]");
    // Others have placements of their own.
    const auto apart = translate({{selecting({{"disk", "ssd"}}), "", {{"cpu-per-task", "2"}}}, {selecting({{"disk", "hdd"}}), "", {}}});
    ck_assert(apart.ok());
    ck_assert_text(left_out((*apart)[0]), "gpu[1-2],login,n[2-3]");
    ck_assert_text(left_out((*apart)[1]), "gpu[1-2],login,n[1,3]");
}
END_TEST

START_TEST(without_known_nodes_only_those_named_are_left_out) {
    ck_assert_text(left_out(translate({{selecting({{"disk", "tape"}}), "", {}}}, {})->front()), "");
    ck_assert_text(left_out(translate({{{}, "", {{"+exclude", "x[1-2]"}}}}, {})->front()), "x[1-2]");
}
END_TEST

START_TEST(preferred_affinity_becomes_prefer_where_slurm_has_the_feature) {
    const auto term = [](const std::string &key, Op op, std::vector<std::string> values = {}) {
        return kube::Term{is(key, op, std::move(values))};
    };
    check_rows(
        {
            {preferring({{10, term("example.com/model", Op::in, {"a100"})}}), "a100", {}},
            {preferring({{10, term("example.com/model", Op::in, {"h100", "a100"})}}), "h100|a100", {}},
            {preferring({{10, term("example.com/model", Op::in, {"b200", "a100"})}}), "a100", {}},
            {preferring({{10, term("example.com/model", Op::exists)}}), "a100|h100", {}},
            {preferring({{20, term("zone", Op::in, {"b"})}, {10, term("example.com/model", Op::exists)}}), "b", {}},
            {preferring({{20, term("zone", Op::in, {"nowhere"})}, {10, term("example.com/model", Op::exists)}}), "a100|h100", {}},
            {preferring({{20, term("disk", Op::in, {"ssd"})}, {10, term("zone", Op::in, {"a"})}}), "a", {}},
            {preferring({{20, term("zone", Op::not_in, {"a"})}}), "", {}},
            {preferring({{20, {is("zone", Op::exists), is("disk", Op::exists)}}}), "", {}},
            {preferring({{10, term("zone", Op::in, {"a"})}}), "fast&near", {{"+prefer", "fast&near"}}},
            {{}, "", {}},
        },
        [](const Shape &shape) { return shape.placeholder.prefer; });
    ck_assert_text(translate({{preferring({{1, term("zone", Op::in, {"q"})}}), "", {}}}, {})->front().placeholder.prefer, "q");
    ck_assert_text(translate({{preferring({{1, term("zone", Op::in, {"a|b&c"})}}), "", {}}}, {})->front().placeholder.prefer, "");
}
END_TEST

START_TEST(what_is_ignored_is_noted) {
    Config config = make_config();
    config.pod_affinity = Unmet::ignore;
    const auto ignored = translate({{Placement{.pod_affinity = true, .topology_spread = true}, "", {}}}, make_nodes(), config);
    ck_assert(ignored.ok());
    ck_assert(ignored->front().notes ==
              (std::vector<std::string>{"the required affinity to other pods is ignored, because Slurm cannot be told of it",
                                        "the topology spread constraint is ignored, because Slurm cannot be told of it"}));
    config.topology_spread = Unmet::refuse;
    const auto refused = translate({{Placement{.topology_spread = true}, "", {}}}, make_nodes(), config);
    ck_assert(!refused.ok());
    check_refusal(0, refused.error(), {"topology spread constraint", "berth.dev/spread", "unmet.topology_spread"});
    const auto preferred = translate({{preferring({{5, {is("disk", Op::in, {"ssd"})}}}), "", {}}});
    ck_assert_uint_eq(preferred->front().notes.size(), 1);
    ck_assert_text(preferred->front().notes[0],
                   "the preferred node affinity for disk In (ssd) is ignored, because Slurm knows no feature for it");
    ck_assert(translate({{}})->front().notes.empty());
}
END_TEST

START_TEST(a_thousand_ignored_wishes_are_told_in_a_few_sentences) {
    std::vector<std::pair<std::int64_t, kube::Term>> wishes;
    for (int i = 0; i < 1000; ++i)
        wishes.push_back({1, {is("disk", Op::in, {std::to_string(i)})}});
    const auto shapes = translate({{preferring(wishes), "", {}}});
    ck_assert_uint_eq(shapes->front().notes.size(), 11);
    ck_assert_text(shapes->front().notes.back(), "990 more wishes are ignored likewise");
}
END_TEST

// By default a pod asks for one CPU and 512 MiB.
START_TEST(a_gang_says_how_many_nodes_it_needs_at_least) {
    std::vector<SiteNode> nodes = make_nodes();
    const std::vector<Row> five(5);
    ck_assert_uint_eq(translate(five, nodes)->front().placeholder.min_nodes, 1);  // sizes are not known
    for (SiteNode &n : nodes) {
        n.cpu_milli = 2500;
        n.memory_bytes = 64LL << 30;
    }
    ck_assert_uint_eq(translate(five, nodes)->front().placeholder.min_nodes, 3);
    nodes[3].cpu_milli = 8000;
    ck_assert_uint_eq(translate(five, nodes)->front().placeholder.min_nodes, 1);
    nodes[3].memory_bytes = 2LL << 30;
    ck_assert_uint_eq(translate(five, nodes)->front().placeholder.min_nodes, 2);
}
END_TEST

START_TEST(a_node_can_check_the_choice_again) {
    kube::Pod pod;
    const Config config = make_config();
    const SiteNode n1 = make_nodes()[0];
    ck_assert_text(mismatch(pod, n1, config), "");
    pod.placement = std::make_shared<Placement>(selecting({{"disk", "hdd"}}));
    ck_assert_text(mismatch(pod, n1, config), "its nodeSelector asks for disk=hdd");
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite(
        "placement", {node_selectors_and_affinities_leave_nodes_out, taints_leave_nodes_out_unless_tolerated,
                      a_workload_that_can_never_fit_says_so_at_once, pods_of_one_size_are_placed_alike,
                      without_known_nodes_only_those_named_are_left_out, preferred_affinity_becomes_prefer_where_slurm_has_the_feature,
                      what_is_ignored_is_noted, a_thousand_ignored_wishes_are_told_in_a_few_sentences, a_gang_says_how_many_nodes_it_needs_at_least, a_node_can_check_the_choice_again});
}
