#include "agent/translate/node_names.h"

#include "agent/keys.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

using Names = std::vector<std::string>;

std::map<std::string, kube::Node> nodes(std::initializer_list<std::pair<const char *, const char *>> named) {
    std::map<std::string, kube::Node> out;
    for (const auto &[name, label] : named) {
        kube::Node &node = out[name];
        node.name = name;
        if (*label != '\0')
            node.labels = {{"kubernetes.io/os", "linux"}, {keys::slurm_node_name, label}};
    }
    return out;
}

}  // namespace

START_TEST(nodes_of_the_same_name_are_the_same) {
    const NodeNames names({"n1", "n2"}, nodes({{"n1", ""}, {"n3", ""}}), {});
    ck_assert_text(names.kube_of("n1"), "n1");
    ck_assert_text(names.slurm_of("n1"), "n1");
    ck_assert(names.kube_of("n2").empty() && names.slurm_of("n3").empty());
}
END_TEST

START_TEST(a_label_names_the_slurm_node) {
    const NodeNames names({"n1", "n2"}, nodes({{"worker-1", "n1"}, {"n2", ""}}), {});
    ck_assert_text(names.kube_of("n1"), "worker-1");
    ck_assert_text(names.slurm_of("worker-1"), "n1");
    ck_assert_text(names.kube_of("n2"), "n2");
}
END_TEST

START_TEST(the_configuration_beats_label_and_name) {
    const std::vector<NodeMapConfig> map{{.slurm = "n1", .kubernetes = "worker-1"}};
    const NodeNames names({"n1", "n2"}, nodes({{"worker-1", "n2"}, {"n1", ""}}), map);
    ck_assert_text(names.kube_of("n1"), "worker-1");
    ck_assert(names.slurm_of("n1").empty() && names.kube_of("n2").empty());
    ck_assert_text(kube_name_of("n1", map), "worker-1");
    ck_assert_text(kube_name_of("n2", map), "n2");
    // Also while that node is not there: another does not take its place.
    const NodeNames away({"n1"}, nodes({{"n1", ""}}), map);
    ck_assert(away.kube_of("n1").empty());
}
END_TEST

START_TEST(a_label_beats_a_name) {
    // n1 of Kubernetes is no Slurm node: what is n1 in Slurm is called otherwise here.
    const NodeNames names({"n1"}, nodes({{"n1", ""}, {"worker-1", "n1"}}), {});
    ck_assert_text(names.kube_of("n1"), "worker-1");
    ck_assert(names.slurm_of("n1").empty());
    // Names may be swapped.
    const NodeNames swapped({"n1", "n2"}, nodes({{"n1", "n2"}, {"n2", "n1"}}), {});
    ck_assert_text(swapped.kube_of("n1"), "n2");
    ck_assert_text(swapped.slurm_of("n1"), "n2");
}
END_TEST

START_TEST(what_two_claim_belongs_to_neither) {
    const auto kube = nodes({{"a", "n1"}, {"b", "n1"}, {"n2", ""}});
    const NodeNames names({"n1", "n2"}, kube, {});
    ck_assert(names.kube_of("n1").empty() && names.slurm_of("a").empty() && names.slurm_of("b").empty());
    const Unmatched out = unmatched({"n1", "n2"}, kube, {});
    ck_assert(out.slurm == Names{"n1"} && out.kube == (Names{"a", "b"}));
    ck_assert(out.disputed.at("n1") == (Names{"a", "b"}));
}
END_TEST

START_TEST(nodes_without_a_partner_are_named) {
    const Unmatched out = unmatched({"n1", "login"}, nodes({{"n1", ""}, {"control-plane", ""}, {"worker-9", "n9"}}), {});
    ck_assert(out.slurm == Names{"login"} && out.kube == (Names{"control-plane", "worker-9"}) && out.disputed.empty());
    ck_assert(unmatched({"n1"}, nodes({{"n1", ""}}), {}).empty());
    ck_assert(unmatched({}, {}, {}).empty());
}
END_TEST

int main() {
    return berth::test::run_suite("node_names", {nodes_of_the_same_name_are_the_same, a_label_names_the_slurm_node,
                                                 the_configuration_beats_label_and_name, a_label_beats_a_name,
                                                 what_two_claim_belongs_to_neither, nodes_without_a_partner_are_named});
}
