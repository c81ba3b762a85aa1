#include "agent/controller/site_nodes.h"

#include "agent/keys.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

const std::vector<NodeMapConfig> same_names;

kube::Node node(const char *name, const char *slurm = "") {
    kube::Node out;
    out.name = name;
    if (*slurm != '\0')
        out.labels = {{keys::slurm_node_name, slurm}};
    return out;
}

}  // namespace

START_TEST(nothing_is_said_before_both_sides_are_known) {
    SiteNodes nodes(same_names);
    nodes.set_kube(node("n1"));
    ck_assert(nodes.for_translation().empty());
    nodes.set_slurm({{.name = "n1"}});
    ck_assert(!nodes.known() && nodes.for_translation().empty());
    nodes.set_listed();
    ck_assert(nodes.known() && nodes.for_translation().size() == 1);
}
END_TEST

START_TEST(a_slurm_node_has_what_its_partner_has) {
    SiteNodes nodes(std::vector<NodeMapConfig>{{.slurm = "n2", .kubernetes = "worker-2"}});
    nodes.set_slurm({{.name = "n1"}, {.name = "n2"}, {.name = "n3"}});
    nodes.set_kube(node("worker-1", "n1"));
    nodes.set_kube(node("worker-2"));
    nodes.set_listed();
    const auto site = nodes.for_translation();
    ck_assert(site[0].in_kubernetes && site[1].in_kubernetes && !site[2].in_kubernetes);
    ck_assert_text(site[0].kube_name, "worker-1");
    ck_assert_text(site[1].kube_name, "worker-2");
    ck_assert_text(nodes.remove_kube("worker-1"), "n1");
    ck_assert_text(nodes.remove_kube("worker-9"), "");
    ck_assert(!nodes.for_translation()[0].in_kubernetes);
}
END_TEST

START_TEST(a_changed_label_changes_the_partner) {
    SiteNodes nodes(same_names);
    nodes.set_slurm({{.name = "n1"}, {.name = "n2"}});
    nodes.set_kube(node("a", "n1"));
    nodes.set_listed();
    ck_assert_text(nodes.names().kube_of("n1"), "a");
    nodes.set_kube(node("a", "n2"));
    ck_assert(nodes.names().kube_of("n1").empty());
    ck_assert(nodes.for_translation()[1].in_kubernetes);
}
END_TEST

START_TEST(a_new_state_of_the_same_nodes_is_seen) {
    SiteNodes nodes(same_names);
    nodes.set_slurm({{.name = "n1"}, {.name = "n2"}});
    nodes.set_slurm({{.name = "n1"}, {.name = "n2", .drain = true, .reason = "disk"}});
    ck_assert(nodes.slurm("n2")->drain && !nodes.slurm("n1")->drain && nodes.slurm("n3") == nullptr);
}
END_TEST

int main() {
    return berth::test::run_suite("site_nodes", {nothing_is_said_before_both_sides_are_known, a_slurm_node_has_what_its_partner_has,
                                                 a_changed_label_changes_the_partner, a_new_state_of_the_same_nodes_is_seen});
}
