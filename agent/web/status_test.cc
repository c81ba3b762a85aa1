#include "agent/web/status.h"

#include "agent/slurm/queue.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::web;

START_TEST(a_nodes_share_is_split_between_pods_and_jobs) {
    const Share both = Share::of(8, 6, 2, true);
    ck_assert_uint_eq(both.pods, 2);
    ck_assert_uint_eq(both.jobs, 4);
    // Slurm rounds up to whole cores: without native jobs all of it is the pods'.
    const Share pods = Share::of(8, 4, 1, false);
    ck_assert_uint_eq(pods.pods, 4);
    ck_assert_uint_eq(pods.jobs, 0);
    // What pods ask for beyond their place is no more than there is.
    const Share more = Share::of(8, 2, 100, true);
    ck_assert_uint_eq(more.pods, 2);
    ck_assert_uint_eq(more.jobs, 0);
    ck_assert_uint_eq(Share::of(8, 9, 0, true).jobs, 8);
}
END_TEST

START_TEST(gpus_are_counted_in_slurms_words) {
    ck_assert_uint_eq(gpus_in(""), 0);
    ck_assert_uint_eq(gpus_in("gpu:4"), 4);
    ck_assert_uint_eq(gpus_in("gpu:a100:2(S:0-1),gpu:v100:1,craynetwork:4"), 3);
    ck_assert_uint_eq(gpus_in("gpu:a100:2(IDX:0,3),shard:0"), 2);
    ck_assert_uint_eq(gpus_in("gpu"), 1);
    ck_assert_uint_eq(gpus_in("gpu:(null):0(IDX:N/A)"), 0);
}
END_TEST

START_TEST(native_jobs_are_noted_by_host) {
    slurm::NativeJobs native;
    slurm::QueuedJob job;
    job.id = 7;
    job.name = "sweep";
    job.state = slurm::JobState::running;
    job.nodes = "n[1-2]";
    native.add(job);
    job.state = slurm::JobState::pending;
    job.nodes = "";
    native.add(job);
    job.state = slurm::JobState::ended;
    job.nodes = "n1";
    native.add(job);
    ck_assert_uint_eq(native.running, 1);
    ck_assert_uint_eq(native.pending, 1);
    ck_assert_uint_eq(native.by_host["n1"].count, 1);
    ck_assert_text(native.by_host["n2"].names.front(), "7 sweep");
}
END_TEST

START_TEST(status_is_json_whatever_names_there_are) {
    Status status;
    status.role = "leader";
    status.nodes.push_back({.name = "n\"1", .slurm = "idle", .kubernetes = "ready", .cpus = {8, 1, 2}});
    status.workloads.push_back({.ns = "team-a", .name = "x", .kind = "Pod", .state = "pending", .reason = "Resources\n"});
    status.landings.push_back({1.5, 0.25, true, "team-a/x"});
    status.events.push_back({2, "warning", "<script>"});
    const std::string json = to_json(status);
    ck_assert_part(json, R"("ages":{"jobs":null,"nodes":null,"native":null})");
    ck_assert_part(json, R"("name":"n\"1","slurm":"idle","kubernetes":"ready")");
    ck_assert_part(json, R"("cpus":{"total":8,"pods":1,"jobs":2})");
    ck_assert_part(json, R"("state":"pending","reason":"Resources\u000a")");
    ck_assert_part(json, R"({"at":1.500,"seconds":0.250,"queued":true,"name":"team-a/x"})");
}
END_TEST

int main() {
    return berth::test::run_suite("status", {a_nodes_share_is_split_between_pods_and_jobs, gpus_are_counted_in_slurms_words,
                                             native_jobs_are_noted_by_host, status_is_json_whatever_names_there_are});
}
