#include "agent/lifecycle/lost_node.h"

#include "test/unit/suite.h"

using namespace berth;

namespace {

constexpr std::time_t now = 1'000;
const SlurmNode up{.name = "n1"}, drained{.name = "n1", .drain = true}, down{.name = "n1", .down = true},
    powered_off{.name = "n1", .asleep = true};

}  // namespace

START_TEST(node_is_lost_only_when_both_sides_have_given_it_up) {
    for (const SlurmNode *slurm : {&down, &powered_off, static_cast<const SlurmNode *>(nullptr)}) {
        ck_assert(node_is_lost(slurm, false));
        ck_assert(!node_is_lost(slurm, true));  // its kubelet ends the pod
    }
    for (const SlurmNode *slurm : {&up, &drained})
        ck_assert(!node_is_lost(slurm, false));  // a kubelet that restarts
}
END_TEST

START_TEST(pod_is_forced_only_where_the_site_says_so_and_after_its_grace) {
    ck_assert(may_force(OnLostNode::force, now - 30, 30, now));
    ck_assert(may_force(OnLostNode::force, now - 1, 0, now));
    ck_assert(!may_force(OnLostNode::force, now - 29, 30, now));  // it has its grace
    ck_assert(!may_force(OnLostNode::force, 0, 0, now));          // the node is not lost
    ck_assert(!may_force(OnLostNode::wait, now - 3600, 30, now));
}
END_TEST

int main() {
    return test::run_suite("lost node", {node_is_lost_only_when_both_sides_have_given_it_up,
                                         pod_is_forced_only_where_the_site_says_so_and_after_its_grace});
}
