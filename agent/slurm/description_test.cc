// What slurmctld is asked for.
#include "agent/slurm/description.h"

#include <cstring>

#include "test/unit/suite.h"

using namespace berth;
using namespace berth::slurm;

namespace {

Placeholder gang(std::uint32_t tasks) {
    Placeholder p;
    p.job_name = "ring";
    p.tasks = tasks;
    p.cpus_per_task = 3;
    p.memory_mib = 1000;
    p.max_nodes = tasks > 1 ? 0 : 1;
    return p;
}

const std::string prefix = slurm_api::gres_prefix;

}  // namespace

START_TEST(single_pod_asks_by_node) {
    Placeholder p = gang(1);
    p.gres = {{"gpu:a100", 2}, {"shard", 4}};
    Description description(p, "{}", 6818);
    const job_desc_msg_t &d = description.message();
    ck_assert_uint_eq(d.num_tasks, 1);
    ck_assert_uint_eq(d.min_cpus, 3);
    ck_assert_uint_eq(d.min_nodes, 1);
    ck_assert_uint_eq(d.max_nodes, 1);
    ck_assert(d.pn_min_memory == 1000);
    ck_assert_text(d.tres_per_node, prefix + "gpu:a100:2," + prefix + "shard:4");
    ck_assert_ptr_null(d.tres_per_task);
    ck_assert_uint_eq(d.other_port, 6818);
    ck_assert_uint_eq(d.alloc_resp_port, 0);
    ck_assert_uint_eq(d.kill_on_node_fail, 1);
    ck_assert_str_eq(d.admin_comment, "{}");
    ck_assert_str_eq(d.spank_job_env[0], "SPANK_BERTH=unsealed");
}
END_TEST

START_TEST(gang_asks_by_task_and_its_memory_by_cpu_rounded_up) {
    Placeholder p = gang(8);
    p.gres = {{"gpu:a100", 2}};
    Description description(p, "{}", 0);
    const job_desc_msg_t &d = description.message();
    ck_assert_uint_eq(d.num_tasks, 8);
    ck_assert_uint_eq(d.min_cpus, 24);
    ck_assert(d.pn_min_memory == (MEM_PER_CPU | 334));
    ck_assert_text(d.tres_per_task, prefix + "gpu:a100:2");
    ck_assert_ptr_null(d.tres_per_node);
    ck_assert_uint_eq(d.max_nodes, NO_VAL);  // a number would make Slurm spread
    ck_assert_uint_eq(d.ntasks_per_node, NO_VAL16);
    ck_assert_uint_eq(d.shared, NO_VAL16);
}
END_TEST

START_TEST(gang_on_whole_nodes_asks_for_the_memory_of_a_node_s_pods) {
    Placeholder p = gang(8);
    p.exclusive = true;
    p.tasks_per_node = 2;
    p.tmp_disk_mib = 10;
    Description description(p, "{}", 0);
    const job_desc_msg_t &d = description.message();
    ck_assert(d.pn_min_memory == 2000);
    ck_assert_uint_eq(d.ntasks_per_node, 2);
    ck_assert_uint_eq(d.pn_min_tmp_disk, 20);
    ck_assert_uint_eq(d.shared, 0);
}
END_TEST

START_TEST(no_node_is_asked_for_more_tasks_than_there_are) {
    Placeholder p = gang(3);
    p.tasks_per_node = 16;
    Description description(p, "{}", 0);
    ck_assert_uint_eq(description.message().ntasks_per_node, 3);
}
END_TEST

START_TEST(more_cpus_than_can_be_counted_stay_many) {
    Placeholder p = gang(100000);
    p.cpus_per_task = 65533;
    Description description(p, "{}", 0);
    ck_assert_uint_eq(description.message().min_cpus, NO_VAL - 1);
}
END_TEST

START_TEST(wishes_reach_slurm_and_what_is_not_said_stays_unsaid) {
    Placeholder p = gang(2);
    Description plain(p, "{}", 0);
    p.nice = -5;
    p.priority = 0;
    p.prefer = "fast";
    p.begin = 1900000000;
    p.deadline = 1900000001;
    p.dependency = "afterok:12";
    p.switches = 1;
    p.switches_wait_seconds = 60;
    p.excluded_nodes = "n[1-2]";
    p.spread = p.pack = true;
    p.time_limit_minutes = 5;
    Description description(p, "{}", 0);
    const job_desc_msg_t &d = description.message(), &none = plain.message();
    ck_assert_uint_eq(d.nice, NICE_OFFSET - 5);
    ck_assert_uint_eq(d.priority, 0);
    ck_assert_str_eq(d.prefer, "fast");
    ck_assert(d.begin_time == 1900000000 && d.deadline == 1900000001);
    ck_assert_str_eq(d.dependency, "afterok:12");
    ck_assert_uint_eq(d.req_switch, 1);
    ck_assert_uint_eq(d.wait4switch, 60);
    ck_assert_str_eq(d.exc_nodes, "n[1-2]");
    ck_assert((d.bitflags & SPREAD_JOB) != 0 && (d.bitflags & USE_MIN_NODES) != 0);
    ck_assert_uint_eq(d.time_limit, 5);
    job_desc_msg_t fresh;
    slurm_init_job_desc_msg(&fresh);
    ck_assert_uint_eq(none.nice, fresh.nice);
    ck_assert_uint_eq(none.priority, fresh.priority);
    ck_assert(none.prefer == nullptr && none.dependency == nullptr && none.exc_nodes == nullptr && none.features == nullptr);
    ck_assert(none.begin_time == fresh.begin_time && none.deadline == fresh.deadline && none.bitflags == fresh.bitflags);
    ck_assert_uint_eq(none.req_switch, fresh.req_switch);
    ck_assert_uint_eq(none.time_limit, fresh.time_limit);
    ck_assert_uint_eq(none.pn_min_tmp_disk, fresh.pn_min_tmp_disk);
}
END_TEST

int main() {
    return test::run_suite("description", {single_pod_asks_by_node, gang_asks_by_task_and_its_memory_by_cpu_rounded_up,
                                           gang_on_whole_nodes_asks_for_the_memory_of_a_node_s_pods,
                                           no_node_is_asked_for_more_tasks_than_there_are, more_cpus_than_can_be_counted_stay_many,
                                           wishes_reach_slurm_and_what_is_not_said_stays_unsaid});
}
