#include "agent/kube/object.h"

#include <fmt/core.h>

#include "agent/kube/decode.h"
#include "agent/kube/discovery.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::kube;

namespace {

// An object of the kind, with the rest of its JSON after the metadata.
Object decode(const char *api_version, const char *kind, const std::string &rest) {
    std::string json =
        fmt::format(R"({{"apiVersion":"{}","kind":"{}","metadata":{{"namespace":"n","name":"o","uid":"u","resourceVersion":"7",)"
                    R"("creationTimestamp":"2026-01-31T12:00:00Z"}}{}{}}})",
                    api_version, kind, rest.empty() ? "" : ",", rest);
    auto got = Decoder().object(padded(json), {});
    ck_assert_msg(got.ok(), "%s: %s", json.c_str(), got.ok() ? "" : got.error().c_str());
    return *got;
}

START_TEST(a_job_is_read) {
    const Object job = decode("batch/v1", "Job",
                              R"("spec":{"parallelism":4,"completions":6,"completionMode":"Indexed","suspend":true,)"
                              R"("activeDeadlineSeconds":90},"status":{"conditions":[{"type":"Complete","status":"False"},)"
                              R"({"type":"Failed","status":"True"}]})");
    ck_assert(job.parallelism == 4 && job.completions == 6 && job.indexed && job.suspended && job.finished && job.failed);
    ck_assert_int_eq(job.active_deadline_seconds, 90);
    ck_assert_int_eq(job.created, 1769860800);
    ck_assert_text(job.full_name(), "n/o");
    const Object plain = decode("batch/v1", "Job", R"("spec":{"parallelism":2})");
    ck_assert(plain.parallelism == 2 && !plain.completions && !plain.indexed && !plain.finished);
    const Object done = decode("batch/v1", "Job", R"("spec":{},"status":{"conditions":[{"type":"Complete","status":"True"}]})");
    ck_assert(done.finished && !done.failed);
}
END_TEST

START_TEST(the_pods_of_a_job_set_are_counted) {
    const Object set = decode("jobset.x-k8s.io/v1alpha2", "JobSet",
                              R"("spec":{"replicatedJobs":[{"name":"driver","template":{"spec":{"parallelism":1}}},)"
                              R"({"name":"w","replicas":3,"template":{"spec":{"parallelism":4,"completions":2}}},)"
                              R"({"name":"none","replicas":0,"template":{"spec":{"parallelism":4}}}]},)"
                              R"("status":{"conditions":[{"type":"Completed","status":"True"}]})");
    ck_assert_int_eq(set.pods, 1 + 3 * 2);
    ck_assert(set.finished && !set.failed && !set.in_order);
    ck_assert(decode("jobset.x-k8s.io/v1alpha2", "JobSet", R"("spec":{"startupPolicy":{"startupPolicyOrder":"InOrder"}})").in_order);
    ck_assert(decode("jobset.x-k8s.io/v1alpha2", "JobSet", R"("spec":{"replicatedJobs":[{"dependsOn":[{"name":"a"}]}]})").in_order);
    const Object huge = decode("jobset.x-k8s.io/v1alpha2", "JobSet",
                               R"("spec":{"replicatedJobs":[{"replicas":9223372036854775807,)"
                               R"("template":{"spec":{"parallelism":9223372036854775807}}}]})");
    ck_assert(!huge.problem.empty());
}
END_TEST

START_TEST(a_leader_worker_set_has_a_size) {
    const Object set = decode("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet",
                              R"("spec":{"replicas":2,"leaderWorkerTemplate":{"size":4}})");
    ck_assert(set.size == 4 && set.replicas == 2);
    ck_assert_int_eq(decode("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", R"("spec":{})").size, 1);
}
END_TEST

START_TEST(a_pod_group_with_its_status_is_read) {
    const Object group =
        decode("scheduling.x-k8s.io/v1alpha1", "PodGroup",
               R"("spec":{"minMember":3,"minResources":{"cpu":"6","memory":"1Gi","nvidia.com/gpu":2},"scheduleTimeoutSeconds":60},)"
               R"("status":{"phase":"Running","occupiedBy":"n/j","scheduleStartTime":"2026-01-31T12:00:00Z","scheduled":3,)"
               R"("running":2,"succeeded":1,"failed":4})");
    ck_assert_int_eq(group.min_member, 3);
    ck_assert_int_eq(group.schedule_timeout_seconds, 60);
    ck_assert(group.min_resources && group.min_resources->cpu_milli == 6000 && group.min_resources->memory_bytes == 1 << 30);
    ck_assert_uint_eq(group.min_resources->extended.size(), 1);
    ck_assert((group.status == Object::GroupStatus{"Running", "n/j", "2026-01-31T12:00:00Z", 3, 2, 1, 4}));
    const Object bad = decode("scheduling.x-k8s.io/v1alpha1", "PodGroup", R"("spec":{"minResources":{"cpu":"lots"}})");
    ck_assert(bad.problem.starts_with("minResources: cpu"));
}
END_TEST

struct GroupCase {
    const char *version, *spec;
    long long least;
    const char *workload;
};

START_TEST(every_version_of_the_servers_own_pod_group_is_understood) {
    const GroupCase cases[] = {
        {"v1alpha2",
         R"({"schedulingPolicy":{"gang":{"minCount":4}},)"
         R"("podGroupTemplateRef":{"workload":{"workloadName":"w","podGroupTemplateName":"t"}}})",
         4, "w"},
        {"v1alpha3", R"({"schedulingPolicy":{"gang":{"minCount":2}},"workloadRef":{"workloadName":"w","templateName":"t"}})", 2, "w"},
        {"v1beta1", R"({"policy":{"gang":{"minCount":2}},"workloadRef":{"name":"v"}})", 2, "v"},
        {"v1beta1", R"({"schedulingPolicy":{"basic":{}}})", 0, ""},
    };
    for (const GroupCase &c : cases) {
        const Object group = decode(fmt::format("scheduling.k8s.io/{}", c.version).c_str(), "PodGroup",
                                    fmt::format(R"("spec":{})", c.spec));
        ck_assert_int_eq(group.min_member, c.least);
        ck_assert_text(group.workload, c.workload);
    }
    for (const char *name : {"PodGroupScheduled", "PodGroupInitiallyScheduled"}) {
        const Object told = decode("scheduling.k8s.io/v1beta1", "PodGroup",
                                   fmt::format(R"("spec":{{}},"status":{{"conditions":[{{"type":"{}","status":"False",)"
                                               R"("reason":"Unschedulable","message":"m"}}]}})",
                                               name));
        ck_assert(told.condition_status == "False" && told.condition_reason == "Unschedulable" && told.condition_message == "m");
    }
}
END_TEST

START_TEST(metadata_alone_and_items_of_lists_take_their_kind_from_the_request) {
    Object blank;
    blank.api_version = "apps/v1";
    blank.kind = "ReplicaSet";
    std::string partial = R"({"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"namespace":"n","name":"rs",)"
                          R"("uid":"u","annotations":{"berth.dev/gang":"false","x":"y"},"ownerReferences":[{"apiVersion":"apps/v1",)"
                          R"("kind":"Deployment","name":"d","uid":"u2","controller":true}]}})";
    const auto set = Decoder().object(padded(partial), blank);
    ck_assert(set.ok() && set->kind == "ReplicaSet" && set->api_version == "apps/v1" && set->owner.kind == "Deployment");
    ck_assert_text(std::string(set->annotation("berth.dev/gang")), "false");
    ck_assert_uint_eq(set->annotations.size(), 1);
    blank.api_version = "batch/v1";
    blank.kind = "Job";
    std::string list = R"({"kind":"JobList","apiVersion":"batch/v1","metadata":{"resourceVersion":"5"},)"
                       R"("items":[{"metadata":{"namespace":"n","name":"j","uid":"u"},"spec":{"parallelism":3}}]})";
    const auto page = Decoder().list<Object>(padded(list), blank);
    ck_assert(page.ok() && page->items.size() == 1 && page->items[0].parallelism == 3);
    std::string nameless = R"({"metadata":{"namespace":"n"}})";
    ck_assert(!Decoder().object(padded(nameless), blank).ok());
}
END_TEST

START_TEST(odd_objects_do_no_harm) {
    for (const char *kind : {"batch/v1 Job", "jobset.x-k8s.io/v1 JobSet", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet",
                             "scheduling.x-k8s.io/v1alpha1 PodGroup", "scheduling.k8s.io/v1beta1 PodGroup"}) {
        const std::string both = kind;
        const auto blank = both.find(' ');
        for (const char *rest : {"", R"("spec":7)", R"("spec":{},"status":[])", R"("status":{"conditions":[1,{}]})",
                                 R"("spec":{"replicatedJobs":[{"template":[]},4],"minResources":3,"parallelism":"x"})"})
            decode(both.substr(0, blank).c_str(), both.substr(blank + 1).c_str(), rest);
    }
}
END_TEST

START_TEST(discovery_is_read) {
    const auto groups = read_api_groups(
        R"({"kind":"APIGroupList","groups":[{"name":"batch",)"
        R"("versions":[{"groupVersion":"batch/v1","version":"v1"},{"version":"v1beta1"}]}]})");
    ck_assert(groups.ok() && groups->at("batch") == std::vector<std::string>({"v1", "v1beta1"}));
    ck_assert(!read_api_groups("[]").ok() && !read_api_groups("{}").ok());
    const auto resources = read_api_resources(
        R"({"resources":[{"name":"..","kind":"Up"},{"name":"a?b#c","kind":"Odd"},{"name":"jobs","kind":"Job","namespaced":true,"verbs":["get","list","watch"]},
        {"name":"jobs/status","kind":"Job","namespaced":true},{"name":"nodes","kind":"Node","namespaced":false,"verbs":["get"]}]})");
    ck_assert(resources.ok() && resources->size() == 2 && (*resources)[0].watchable && !(*resources)[1].namespaced);
    ck_assert_text(resource_path("batch/v1", "jobs", "n", "j"), "/apis/batch/v1/namespaces/n/jobs/j");
    ck_assert_text(resource_path("v1", "pods", ""), "/api/v1/pods");
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "object", {a_job_is_read, the_pods_of_a_job_set_are_counted, a_leader_worker_set_has_a_size,
                   a_pod_group_with_its_status_is_read, every_version_of_the_servers_own_pod_group_is_understood,
                   metadata_alone_and_items_of_lists_take_their_kind_from_the_request, odd_objects_do_no_harm, discovery_is_read});
}
