#include "agent/node/confinement.h"

#include <filesystem>
#include <fstream>

#include "agent/node/cgroup_tree.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;

namespace {

constexpr std::uint64_t limit = 64 << 20;

struct V1 : test::CgroupTree {
    const std::string below = std::string("/kubepods/burstable/pod") + test::pod_uid, memory = "memory" + below, cpus = "cpuset" + below;
    V1() {
        make("freezer" + below, "freezer.state", "THAWED\n");
        make(memory, "memory.limit_in_bytes", "9223372036854771712\n");
        make(cpus, "cpuset.cpus", "0-7\n");
        make(cpus + "/container", "cpuset.cpus", "0-7\n");
    }
};

struct V2 : test::CgroupTree {
    const std::string directory = "kubepods.slice/kubepods-pod11111111_2222_3333_4444_555555555555.slice";
    V2() {
        write("cgroup.controllers", "cpuset cpu memory\n");
        make(directory, "cgroup.controllers", "cpuset cpu memory\n");
        make(directory, "memory.max", "max\n");
        make(directory, "memory.high", "max\n");
        make(directory, "memory.current", "4096\n");
        make(directory, "cpuset.cpus", "\n");
        make(directory + "/container", "cpuset.cpus", "\n");
    }
};

bool done(const Result<bool> &result) { return result && *result; }

}  // namespace

START_TEST(v1_pod_without_a_limit_gets_one) {
    const V1 tree;
    ck_assert(done(limit_memory(tree.pod(), limit)));
    ck_assert_text(tree.read(tree.memory + "/memory.limit_in_bytes"), "67108864");
}
END_TEST

START_TEST(v2_pod_without_a_limit_gets_one) {
    const V2 tree;
    ck_assert(done(limit_memory(tree.pod(), limit)));
    ck_assert_text(tree.read(tree.directory + "/memory.max"), "67108864");
    ck_assert_text(tree.read(tree.directory + "/memory.high"), "max");
}
END_TEST

START_TEST(v2_pod_that_uses_more_is_held_back_and_not_killed) {
    const V2 tree;
    tree.write(tree.directory + "/memory.current", "70000000\n");
    const auto first = limit_memory(tree.pod(), limit);
    ck_assert(first && !*first);
    ck_assert_text(tree.read(tree.directory + "/memory.max"), "max");
    ck_assert_text(tree.read(tree.directory + "/memory.high"), "67108864");
    tree.write(tree.directory + "/memory.current", "60000000\n");
    ck_assert(done(limit_memory(tree.pod(), limit)));
    ck_assert_text(tree.read(tree.directory + "/memory.max"), "67108864");
    ck_assert_text(tree.read(tree.directory + "/memory.high"), "max");
}
END_TEST

START_TEST(lower_limit_stays) {
    const V1 one;
    one.write(one.memory + "/memory.limit_in_bytes", "1048576\n");
    ck_assert(done(limit_memory(one.pod(), limit)));
    ck_assert_text(one.read(one.memory + "/memory.limit_in_bytes"), "1048576");
    const V2 two;
    two.write(two.directory + "/memory.max", "1048576\n");
    ck_assert(done(limit_memory(two.pod(), limit)));
    ck_assert_text(two.read(two.directory + "/memory.max"), "1048576");
}
END_TEST

START_TEST(pod_without_a_cgroup_is_confined_later) {
    const test::CgroupTree tree;
    const auto memory = limit_memory(tree.pod(), limit);
    ck_assert(memory && !*memory);
    const auto cpus = confine_cpus(tree.pod(), "0-1");
    ck_assert(cpus && !*cpus);
}
END_TEST

START_TEST(v1_pod_and_its_containers_are_confined_to_cpus) {
    const V1 tree;
    ck_assert(done(confine_cpus(tree.pod(), "2-3")));
    ck_assert_text(tree.read(tree.cpus + "/cpuset.cpus"), "2-3");
    ck_assert_text(tree.read(tree.cpus + "/container/cpuset.cpus"), "2-3");
}
END_TEST

START_TEST(v2_pod_is_confined_to_cpus_and_its_containers_follow) {
    const V2 tree;
    ck_assert(done(confine_cpus(tree.pod(), "0,4")));
    ck_assert_text(tree.read(tree.directory + "/cpuset.cpus"), "0,4");
    ck_assert_text(tree.read(tree.directory + "/container/cpuset.cpus"), "");
}
END_TEST

START_TEST(cpus_of_a_job_are_its_extern_steps) {
    const test::CgroupTree tree;
    ck_assert_text(job_cpus(tree.path(), "n1", 12, 1000), "");
    tree.make("system.slice/slurmstepd.scope/job_12", "cpuset.cpus", "0-7\n");
    ck_assert_text(job_cpus(tree.path(), "n1", 12, 1000), "0-7");
    tree.make("system.slice/slurmstepd.scope/job_12/step_extern", "cpuset.cpus", "4-5\n");
    ck_assert_text(job_cpus(tree.path(), "n1", 12, 1000), "4-5");
    ck_assert_text(job_cpus(tree.path(), "n1", 13, 1000), "");
    tree.make("cpuset/slurm_n1/uid_1000/job_13/step_extern", "cpuset.cpus", "1\n");
    ck_assert_text(job_cpus(tree.path(), "n1", 13, 1000), "1");
    ck_assert_text(job_cpus(tree.path(), "n2", 13, 1000), "");
    tree.make("system.slice/n2_slurmstepd.scope/job_14", "cpuset.cpus", "\n");  // not constrained
    ck_assert_text(job_cpus(tree.path(), "n2", 14, 1000), "");
}
END_TEST

int main() {
    return berth::test::run_suite("confinement",
                                  {v1_pod_without_a_limit_gets_one, v2_pod_without_a_limit_gets_one,
                                   v2_pod_that_uses_more_is_held_back_and_not_killed, lower_limit_stays,
                                   pod_without_a_cgroup_is_confined_later, v1_pod_and_its_containers_are_confined_to_cpus,
                                   v2_pod_is_confined_to_cpus_and_its_containers_follow, cpus_of_a_job_are_its_extern_steps});
}
