#include "agent/workload/owners.h"

#include "agent/workload/owners_scene.h"

using namespace berth;
using namespace berth::test;
using kube::Object;
using kube::Pod;

namespace {

const std::string job_path = "/apis/batch/v1/namespaces/n/jobs/train";
const std::string job_list = "/apis/batch/v1/jobs";
const std::string group_list = "/apis/scheduling.x-k8s.io/v1alpha1/podgroups";
const char *const group_label = "scheduling.x-k8s.io/pod-group";

START_TEST(a_server_without_any_of_the_kinds_is_synced) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.start();
        co_await scene.until("synced");
        const Chain chain = co_await scene.resolve(labelled("app", "x"));
        ck_assert(chain.owners.empty() && chain.missing.empty());
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(an_old_priority_class_api_is_not_taken_for_pod_groups) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.apis["/apis/scheduling.k8s.io/v1beta1"] = resource("priorityclasses", "PriorityClass");
        scene.start();
        co_await scene.until("synced");
        ck_assert(!scene.asked.contains("/apis/scheduling.k8s.io/v1beta1/podgroups"));
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_job_is_read_once_and_then_kept_by_its_watch) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_jobs();
        scene.objects[job_path] = fmt::format(R"({{{},"spec":{{"parallelism":2}}}})", meta("train", 11));
        scene.start();
        co_await scene.until("synced");
        const Pod first = pod_of("batch/v1", "Job", "train", "p1"), second = pod_of("batch/v1", "Job", "train", "p2");
        Chain chain = co_await scene.resolve(first);
        ck_assert(chain.owners.size() == 1 && chain.owners[0]->parallelism == 2 && chain.owners[0]->kind == "Job");
        chain = co_await scene.resolve(second);
        ck_assert_int_eq(scene.asked[job_path], 1);
        co_await scene.until("watch " + job_list);
        // A state that the read was ahead of, one of a job that no pod names, one that shows nothing new, and then one that does.
        scene.send(job_list, "MODIFIED", meta("train", 9) + R"(,"spec":{"parallelism":1})");
        scene.send(job_list, "ADDED", meta("other", 12) + R"(,"spec":{"parallelism":1})");
        scene.send(job_list, "MODIFIED", meta("train", 13) + R"(,"spec":{"parallelism":2},"status":{"active":1})");
        scene.send(job_list, "MODIFIED", meta("train", 14) + R"(,"spec":{"parallelism":2,"suspend":true})");
        co_await scene.until("+Job train");
        ck_assert_uint_eq(scene.heard.size(), 2);
        const Chain again = co_await scene.resolve(first);
        ck_assert(again.owners[0]->suspended);
        scene.owners->forget(first);
        scene.owners->forget(second);
        scene.send(job_list, "DELETED", meta("train", 15));
        scene.objects.clear();
        const Chain gone = co_await scene.resolve(first);
        ck_assert(gone.owners.empty());
        ck_assert_int_ge(scene.asked[job_path], 2);  // once more when the deletion meets the read
        ck_assert_uint_eq(scene.heard.size(), 2);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_chain_is_walked_to_its_end_by_metadata) {
    Scene scene;
    const auto script = [&]() -> Script {
        const std::string base = "/apis/apps/v1/namespaces/n/";
        scene.objects[base + "replicasets/rs"] = fmt::format("{{{}}}", meta("rs", 1, owner("apps/v1", "Deployment", "d")));
        scene.objects[base + "deployments/d"] = fmt::format("{{{}}}", meta("d", 1, owner("ray.io/v1", "RayCluster", "ray")));
        scene.apis["/apis/ray.io/v1"] = resource("rayclusters", "RayCluster");
        scene.objects["/apis/ray.io/v1/namespaces/n/rayclusters/ray"] =
            fmt::format(R"({{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1",{}}})",
                        meta("ray", 1, owner("none.io/v1", "Nothing", "none")));
        bool partial = false;
        scene.special = [&](const Exchange &e, const std::string &path) {
            partial = partial || (path == base + "replicasets/rs" && e.has_header("as=PartialObjectMetadata"));
            return false;
        };
        scene.start();
        co_await scene.until("synced");
        const Chain chain = co_await scene.resolve(pod_of("apps/v1", "ReplicaSet", "rs"));
        ck_assert_uint_eq(chain.owners.size(), 3);
        ck_assert(chain.owners[1]->name == "d" && chain.owners[2]->kind == "RayCluster" && partial);
        co_await scene.resolve(pod_of("ray.io/v1", "RayCluster", "ray", "p2"));
        ck_assert_int_eq(scene.asked["/apis/ray.io/v1"], 1);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_ring_of_owners_ends) {
    Scene scene;
    const auto script = [&]() -> Script {
        const std::string base = "/apis/apps/v1/namespaces/n/";
        scene.objects[base + "replicasets/a"] = fmt::format("{{{}}}", meta("a", 1, owner("apps/v1", "ReplicaSet", "b")));
        scene.objects[base + "replicasets/b"] = fmt::format("{{{}}}", meta("b", 1, owner("apps/v1", "ReplicaSet", "a")));
        for (int i = 0; i < 12; ++i)
            scene.objects[fmt::format("{}deployments/d{}", base, i)] =
                fmt::format("{{{}}}", meta(fmt::format("d{}", i), 1, owner("apps/v1", "Deployment", fmt::format("d{}", i + 1))));
        scene.start();
        co_await scene.until("synced");
        const Chain before = co_await scene.resolve(pod_of("apps/v1", "ReplicaSet", "a"));
        ck_assert_uint_eq(before.owners.size(), 2);
        const Chain after = co_await scene.resolve(pod_of("apps/v1", "Deployment", "d0", "p2"));
        ck_assert_uint_eq(after.owners.size(), 8);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(an_error_is_asked_again_and_a_refusal_is_not) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_jobs();
        scene.objects[job_path] = fmt::format(R"({{{},"spec":{{}}}})", meta("train", 11, owner("apps/v1", "Deployment", "d")));
        int failures = 0;
        scene.special = [&](const Exchange &e, const std::string &path) {
            if (path == job_path && ++failures <= 3)
                return failures == 2 ? e.cut() : e.respond(500, R"({"message":"oops"})"), true;
            if (path == "/apis/apps/v1/namespaces/n/deployments/d")
                return e.respond(403, R"({"message":"no"})"), true;
            return false;
        };
        scene.start();
        co_await scene.until("synced");
        const Chain before = co_await scene.resolve(pod_of("batch/v1", "Job", "train"));
        ck_assert_uint_eq(before.owners.size(), 1);
        ck_assert_int_eq(failures, 4);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(reads_of_one_object_are_joined) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_jobs();
        std::vector<Exchange> held;
        scene.special = [&](const Exchange &e, const std::string &path) {
            if (path == job_path)
                held.push_back(e);
            if (path == job_path)
                scene.notice("held");
            return path == job_path;
        };
        scene.start();
        co_await scene.until("synced");
        int done = 0;
        for (const char *uid : {"p1", "p2", "p3"})
            scene.owners->resolve(pod_of("batch/v1", "Job", "train", uid), [&](Chain chain) {
                ck_assert_uint_eq(chain.owners.size(), 1);
                if (++done == 2)
                    scene.notice("done");
            });
        scene.owners->forget(pod_of("batch/v1", "Job", "train", "p3"));  // is not called back any more
        co_await scene.until("held");
        held[0].respond(200, fmt::format(R"({{{},"spec":{{}}}})", meta("train", 11)));
        co_await scene.until("done");
        ck_assert_int_eq(scene.asked[job_path], 1);
        ck_assert_int_eq(done, 2);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(an_owner_of_another_uid_is_gone) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_jobs();
        scene.objects[job_path] = fmt::format(R"({{{},"spec":{{}}}})", meta("train", 11));
        scene.start();
        co_await scene.until("synced");
        const Chain before = co_await scene.resolve(pod_of("batch/v1", "Job", "train", "p1"));
        ck_assert_uint_eq(before.owners.size(), 1);
        Pod late = pod_of("batch/v1", "Job", "train", "p2");
        late.owner.uid = "uid-new";
        const Chain after = co_await scene.resolve(late);
        ck_assert(after.owners.empty());
        // The name is used again before the watch says so.
        scene.objects[job_path] = R"({"metadata":{"namespace":"n","name":"train","uid":"uid-new","resourceVersion":"20"},"spec":{}})";
        const Chain last = co_await scene.resolve(late);
        ck_assert_uint_eq(last.owners.size(), 1);
        co_await scene.until("-Job train");
        co_await scene.until("+Job train");
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_pod_group_that_is_not_there_is_missing_until_it_comes) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_groups();
        scene.lists[group_list] = fmt::format(R"({{{},"spec":{{"minMember":2}}}})", meta("old", 5));
        scene.start();
        co_await scene.until("synced");
        ck_assert(scene.heard.front() == "+PodGroup old");
        ck_assert_int_eq(scene.owners->pod_group("n", "old")->min_member, 2);
        ck_assert(!scene.owners->pod_group("m", "old"));
        const Pod pod = labelled(group_label, "ring");
        const Chain before = co_await scene.resolve(pod);
        ck_assert_text(before.missing, "PodGroup n/ring");
        co_await scene.until("watch " + group_list);
        scene.send(group_list, "ADDED", meta("ring", 12) + R"(,"spec":{"minMember":3})");
        co_await scene.until("+PodGroup ring");
        const Chain chain = co_await scene.resolve(pod);
        ck_assert(chain.missing.empty() && chain.pod_group->min_member == 3);
        scene.send(group_list, "DELETED", meta("ring", 13) + R"(,"spec":{"minMember":3})");
        co_await scene.until("-PodGroup ring");
        const Chain after = co_await scene.resolve(pod);
        ck_assert_text(after.missing, "PodGroup n/ring");
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(an_api_that_comes_later_is_found) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.look_again = 20ms;
        scene.start();
        co_await scene.until("synced");
        const Pod pod = labelled(group_label, "ring");
        const Chain before = co_await scene.resolve(pod);
        ck_assert_text(before.missing, "PodGroup n/ring");
        scene.with_groups();
        scene.lists[group_list] = fmt::format(R"({{{},"spec":{{"minMember":2}}}})", meta("ring", 5));
        co_await scene.until("+PodGroup ring");
        const Chain after = co_await scene.resolve(pod);
        ck_assert(after.pod_group);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_pod_that_names_an_api_makes_it_looked_for) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.start();
        co_await scene.until("synced");
        scene.with_groups();
        const std::string group = fmt::format(R"({{{},"spec":{{"minMember":2}}}})", meta("ring", 5));
        scene.lists[group_list] = group;
        scene.objects["/apis/scheduling.x-k8s.io/v1alpha1/namespaces/n/podgroups/ring"] = group;
        co_await scene.pause(10ms);  // past look_soonest
        const Chain before = co_await scene.resolve(labelled(group_label, "ring"));
        ck_assert(before.pod_group);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_kind_that_may_not_be_listed_is_read_one_by_one) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_jobs();
        scene.with_groups();
        scene.look_again = 20ms;
        scene.objects[job_path] = fmt::format(R"({{{},"spec":{{"suspend":true}}}})", meta("train", 11));
        scene.special = [&](const Exchange &e, const std::string &path) {
            return path == job_list ? e.respond(403, R"({"message":"no"})"), true : false;
        };
        scene.start();
        co_await scene.until("synced");
        const Chain before = co_await scene.resolve(pod_of("batch/v1", "Job", "train"));
        ck_assert(before.owners[0]->suspended);
        scene.objects[job_path] = fmt::format(R"({{{},"spec":{{"suspend":false}}}})", meta("train", 12));
        co_await scene.until("+Job train");
        const Chain after = co_await scene.resolve(pod_of("batch/v1", "Job", "train"));
        ck_assert(!after.owners[0]->suspended);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(nothing_is_concluded_before_the_server_says_what_it_has) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_groups();
        scene.lists[group_list] = fmt::format(R"({{{},"spec":{{"minMember":2}}}})", meta("ring", 5));
        scene.objects["/apis/scheduling.x-k8s.io/v1alpha1/namespaces/n/podgroups/ring"] = scene.lists[group_list];
        int failures = 0;
        scene.special = [&](const Exchange &e, const std::string &path) {
            if (path == "/apis" && ++failures <= 2)
                return e.respond(500, "{}"), true;
            if (path == "/apis/scheduling.x-k8s.io/v1alpha1" && ++failures <= 5)
                return e.respond(500, "{}"), true;
            return false;
        };
        scene.start();
        const Chain before = co_await scene.resolve(labelled(group_label, "ring"));
        ck_assert(before.pod_group);
        co_await scene.until("synced");
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(one_slow_list_is_waited_for_only_while_it_lasts) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_jobs();
        scene.with_groups();
        std::optional<Exchange> held;
        int lists = 0;
        scene.special = [&](const Exchange &e, const std::string &path) {
            if (path != group_list || ++lists > 1)
                return false;
            held = e;
            scene.notice("held");
            return true;
        };
        scene.start();
        co_await scene.until("held");
        co_await scene.until("watch " + job_list);
        ck_assert(scene.heard.empty());
        held->respond(500, "{}");
        co_await scene.until("synced");
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(pods_of_a_leader_worker_set_are_led_to_it_by_their_label) {
    Scene scene;
    const auto script = [&]() -> Script {
        const std::string list = "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets";
        scene.apis["/apis/leaderworkerset.x-k8s.io/v1"] = resource("leaderworkersets", "LeaderWorkerSet");
        scene.lists[list] = "";
        scene.start();
        co_await scene.until("synced");
        Pod pod = labelled("leaderworkerset.sigs.k8s.io/name", "serve");
        pod.owner = {"apps/v1", "StatefulSet", "serve", "uid-sts"};
        const Chain before = co_await scene.resolve(pod);
        ck_assert_text(before.missing, "LeaderWorkerSet n/serve");
        co_await scene.until("watch " + list);
        scene.send(list, "ADDED", meta("serve", 11) + R"(,"spec":{"leaderWorkerTemplate":{"size":4}})");
        co_await scene.until("+LeaderWorkerSet serve");
        const Chain chain = co_await scene.resolve(pod);
        ck_assert(chain.set && chain.set->size == 4 && chain.owners.size() == 1 && chain.missing.empty());
        ck_assert(!scene.asked.contains("/apis/apps/v1/namespaces/n/statefulsets/serve"));
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_scheduling_group_brings_its_workload) {
    Scene scene;
    const auto script = [&]() -> Script {
        const std::string base = "/apis/scheduling.k8s.io/v1alpha3";
        scene.apis["/apis/scheduling.k8s.io/v1beta1"] = resource("priorityclasses", "PriorityClass");
        scene.apis[base] = R"({"resources":[{"name":"podgroups","kind":"PodGroup","namespaced":true,"verbs":["list","watch"]},
            {"name":"workloads","kind":"Workload","namespaced":true,"verbs":["list","watch"]}]})";
        scene.lists[base + "/podgroups"] = fmt::format(
            R"({{{},"spec":{{"schedulingPolicy":{{"gang":{{"minCount":2}}}},"workloadRef":{{"workloadName":"w"}}}}}})", meta("pg", 5));
        scene.lists[base + "/workloads"] = "";
        scene.objects[base + "/namespaces/n/workloads/w"] =
            fmt::format("{{{}}}", meta("w", 6, R"(,"annotations":{"berth.dev/nice":"1"})"));
        scene.start();
        co_await scene.until("synced");
        Pod pod = labelled("app", "x");
        pod.scheduling_group = "pg";
        const Chain chain = co_await scene.resolve(pod);
        ck_assert(chain.pod_group && chain.pod_group->min_member == 2 && chain.pod_group->api_version == "scheduling.k8s.io/v1alpha3");
        ck_assert(chain.workload && chain.workload->annotations.size() == 1);
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(what_went_away_before_its_watch_began_is_noticed) {
    Scene scene;
    const auto script = [&]() -> Script {
        scene.with_jobs();
        scene.objects[job_path] = fmt::format(R"({{{},"spec":{{}}}})", meta("train", 3));
        std::optional<Exchange> held;
        scene.special = [&](const Exchange &e, const std::string &path) {
            if (path != job_list || held)
                return false;
            held = e;
            scene.notice("held");
            return true;
        };
        scene.start();
        const Chain before = co_await scene.resolve(pod_of("batch/v1", "Job", "train"));
        ck_assert_uint_eq(before.owners.size(), 1);
        scene.objects.clear();
        co_await scene.until("held");
        held->respond(200, R"({"metadata":{"resourceVersion":"10"},"items":[]})");
        co_await scene.until("-Job train");
        scene.end();
    };
    script();
    ck_assert(test::run(scene.loop));
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "owners",
        {a_server_without_any_of_the_kinds_is_synced, an_old_priority_class_api_is_not_taken_for_pod_groups,
         a_job_is_read_once_and_then_kept_by_its_watch, a_chain_is_walked_to_its_end_by_metadata, a_ring_of_owners_ends,
         an_error_is_asked_again_and_a_refusal_is_not, reads_of_one_object_are_joined, an_owner_of_another_uid_is_gone,
         a_pod_group_that_is_not_there_is_missing_until_it_comes, an_api_that_comes_later_is_found,
         a_pod_that_names_an_api_makes_it_looked_for, a_kind_that_may_not_be_listed_is_read_one_by_one,
         nothing_is_concluded_before_the_server_says_what_it_has, one_slow_list_is_waited_for_only_while_it_lasts,
         pods_of_a_leader_worker_set_are_led_to_it_by_their_label, a_scheduling_group_brings_its_workload,
         what_went_away_before_its_watch_began_is_noticed});
}
