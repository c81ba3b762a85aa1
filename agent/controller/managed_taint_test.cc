#include "agent/controller/managed_taint.h"

#include "agent/keys.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

const std::string key = "slinky.slurm.net/managed-node";
const kube::Taint ours{key, "slurm", "NoSchedule"}, other{"gpu", "yes", "NoExecute", "2026-01-31T12:00:00Z"};

// The node after the change, as the server would have it.
kube::Node after(kube::Node node, const std::string &wanted, bool expect_change = true) {
    kube::NodeChange change;
    manage_taint(node, wanted, change);
    ck_assert_msg(change.empty() != expect_change, "a write that is not due, or none that is");
    if (change.taints)
        node.taints = *change.taints;
    for (const auto &[name, value] : change.annotations) {
        std::erase_if(node.annotations, [&](const auto &note) { return note.first == name; });
        if (value)
            node.annotations.emplace_back(name, *value);
    }
    kube::NodeChange again;
    manage_taint(node, wanted, again);
    ck_assert_msg(again.empty(), "one write is not enough");
    return node;
}

kube::Node tainted_by_us() {
    kube::Node node;
    node.taints = {other};
    return after(node, key);
}

}  // namespace

START_TEST(it_is_set_and_marked_as_ours_and_the_others_stay) {
    const kube::Node node = tainted_by_us();
    ck_assert(node.taints == (std::vector<kube::Taint>{other, ours}));
    ck_assert_text(std::string(kube::value_of(node.annotations, keys::tainted)), key);
}
END_TEST

START_TEST(what_somebody_removed_is_put_back) {
    kube::Node node = tainted_by_us();
    node.taints = {other};
    ck_assert(after(node, key).taints == (std::vector<kube::Taint>{other, ours}));
}
END_TEST

START_TEST(without_the_wish_ours_goes_and_the_others_stay) {
    const kube::Node node = after(tainted_by_us(), "");
    ck_assert(node.taints == std::vector<kube::Taint>{other} && node.annotations.empty());
}
END_TEST

START_TEST(one_that_was_set_by_hand_is_good_enough_and_never_removed) {
    kube::Node node;
    node.taints = {{key, "anything", "NoSchedule"}};
    after(node, key, false);
    after(node, "", false);
    // Another effect does not keep the default scheduler off.
    node.taints[0].effect = "PreferNoSchedule";
    ck_assert_uint_eq(after(node, key).taints.size(), 2);
}
END_TEST

START_TEST(another_key_takes_the_olds_place) {
    const kube::Node node = after(tainted_by_us(), "site/slurm");
    ck_assert(node.taints == (std::vector<kube::Taint>{other, {"site/slurm", "slurm", "NoSchedule"}}));
    ck_assert_text(std::string(kube::value_of(node.annotations, keys::tainted)), "site/slurm");
}
END_TEST

int main() {
    return berth::test::run_suite("managed_taint", {it_is_set_and_marked_as_ours_and_the_others_stay, what_somebody_removed_is_put_back,
                                                    without_the_wish_ours_goes_and_the_others_stay,
                                                    one_that_was_set_by_hand_is_good_enough_and_never_removed,
                                                    another_key_takes_the_olds_place});
}
