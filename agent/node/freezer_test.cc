#include "agent/node/freezer.h"

#include <filesystem>
#include <fstream>

#include "agent/node/cgroup_tree.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;

namespace {

struct V1 : test::CgroupTree {
    const std::string directory = std::string("freezer/kubepods/burstable/pod") + test::pod_uid, state = directory + "/freezer.state";
    V1() {
        make(directory, "freezer.state", "THAWED\n");
        make(std::string("memory/kubepods/burstable/pod") + test::pod_uid, "memory.limit_in_bytes", "1\n");
    }
};

struct V2 : test::CgroupTree {
    const std::string directory = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice", state = directory + "/cgroup.freeze";
    V2() {
        write("cgroup.controllers", "cpu memory\n");
        make(directory, "cgroup.freeze", "0\n");
    }
};

}  // namespace

START_TEST(v1_pod_is_frozen_and_thawed_by_its_own_cgroup) {
    const V1 tree;
    ck_assert(!frozen(tree.pod()));
    const auto done = freeze(tree.pod());
    ck_assert(done && *done);
    ck_assert_text(tree.read(tree.state), "FROZEN");
    ck_assert(frozen(tree.pod()));
    ck_assert(thaw(tree.pod()));
    ck_assert_text(tree.read(tree.state), "THAWED");
    ck_assert(!frozen(tree.pod()));
}
END_TEST

START_TEST(v1_pod_that_is_still_freezing_is_thawed) {
    const V1 tree;
    tree.write(tree.state, "FREEZING\n");
    ck_assert(frozen(tree.pod()));
    ck_assert(thaw(tree.pod()));
    ck_assert_text(tree.read(tree.state).substr(0, 6), "THAWED");
}
END_TEST

START_TEST(v2_pod_is_frozen_and_thawed_by_its_own_cgroup) {
    const V2 tree;
    ck_assert(!frozen(tree.pod()));
    const auto done = freeze(tree.pod());
    ck_assert(done && *done);
    ck_assert_text(tree.read(tree.state), "1");
    ck_assert(frozen(tree.pod()));
    ck_assert(thaw(tree.pod()));
    ck_assert_text(tree.read(tree.state), "0");
}
END_TEST

START_TEST(pod_without_a_cgroup_is_not_frozen_and_that_is_told) {
    const test::CgroupTree tree;
    const auto done = freeze(tree.pod());
    ck_assert(done && !*done);
    ck_assert(!frozen(tree.pod()));
    ck_assert(thaw(tree.pod()));
}
END_TEST

START_TEST(thawing_what_is_not_frozen_writes_nothing) {
    const V1 tree;
    const auto before = std::filesystem::last_write_time(tree.path(tree.state));
    std::filesystem::last_write_time(tree.path(tree.state), before - std::chrono::hours(1));
    ck_assert(thaw(tree.pod()));
    ck_assert(std::filesystem::last_write_time(tree.path(tree.state)) == before - std::chrono::hours(1));
}
END_TEST

START_TEST(other_pods_are_left_alone) {
    const V1 tree;
    const std::string other = "freezer/kubepods/pod99999999-2222-3333-4444-555555555555";
    tree.make(other, "freezer.state", "THAWED\n");
    ck_assert(freeze(tree.pod()));
    ck_assert_text(tree.read(other + "/freezer.state"), "THAWED");
}
END_TEST

START_TEST(killing_a_frozen_pod_thaws_it) {
    const V1 tree;
    ck_assert(freeze(tree.pod()));
    tree.pod().kill();
    ck_assert_text(tree.read(tree.state), "THAWED");
}
END_TEST

int main() {
    return berth::test::run_suite("freezer", {v1_pod_is_frozen_and_thawed_by_its_own_cgroup, v1_pod_that_is_still_freezing_is_thawed,
                                              v2_pod_is_frozen_and_thawed_by_its_own_cgroup,
                                              pod_without_a_cgroup_is_not_frozen_and_that_is_told,
                                              thawing_what_is_not_frozen_writes_nothing, other_pods_are_left_alone,
                                              killing_a_frozen_pod_thaws_it});
}
