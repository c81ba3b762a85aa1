#include "agent/kube/api.h"

#include <fmt/core.h>

#include <deque>
#include <optional>

#include "agent/kube/faulty_server.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::kube;
using test::FaultyServer;
using Exchange = FaultyServer::Exchange;

namespace {

const PodRef ref{"ml", "train-0", "u1"};

// A server that gives one answer to everything and remembers the last request.
struct Scene {
    explicit Scene(int status, std::string body)
        : server(loop, [this, status, body = std::move(body)](Exchange e) {
              seen.push_back(e);
              e.respond(status, body);
          }) {
        http = Http::create(loop, server.credentials(), {});
        // 2026-01-31T12:00:00.250Z
        api.emplace(*http, "berth-controller", "host1",
                    [] { return std::chrono::system_clock::from_time_t(1769860800) + std::chrono::milliseconds(250); });
    }

    Api::Done into() {
        return [this](Response response) {
            got = std::move(response);
            loop.quit();
        };
    }

    void expect(const char *method, const char *path, const std::string &body) const {
        ck_assert_text(seen.back().method, method);
        ck_assert_text(seen.back().path, path);
        ck_assert_text(seen.back().body, body);
    }

    Loop loop;
    std::deque<Exchange> seen;
    FaultyServer server;
    std::unique_ptr<Http> http;
    std::optional<Api> api;
    Response got;
};

START_TEST(a_binding_carries_uid_and_annotations) {
    Scene scene(201, "{}");
    scene.api->bind(ref, "node7", {{"berth.dev/job", "12"}, {"berth.dev/x", "\""}}, scene.into());
    ck_assert(test::run(scene.loop));
    ck_assert(scene.got.ok());
    scene.expect("POST", "/api/v1/namespaces/ml/pods/train-0/binding",
                 R"({"apiVersion":"v1","kind":"Binding","metadata":{"uid":"u1","namespace":"ml","name":"train-0",)"
                 R"("annotations":{"berth.dev/job":"12","berth.dev/x":"\""}},)"
                 R"("target":{"apiVersion":"v1","kind":"Node","name":"node7"}})");
}
END_TEST

START_TEST(a_deletion_names_the_uid_and_maybe_a_grace) {
    Scene scene(200, "{}");
    scene.api->remove(ref, -1, [&](Response) {
        scene.expect("DELETE", "/api/v1/namespaces/ml/pods/train-0",
                     R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u1"}})");
        scene.api->remove(ref, 0, scene.into());
    });
    ck_assert(test::run(scene.loop));
    scene.expect("DELETE", "/api/v1/namespaces/ml/pods/train-0",
                 R"({"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"u1"},"gracePeriodSeconds":0})");
}
END_TEST

START_TEST(an_eviction_names_the_uid_and_the_version_that_the_server_has) {
    for (const auto &[minor, version] : {std::pair{"20+", "policy/v1beta1"}, std::pair{"22", "policy/v1"}}) {
        Scene scene(200, std::string(R"({"major":"1","minor":")") + minor + "\"}");
        scene.api->evict(ref, scene.into());
        ck_assert(test::run(scene.loop));
        scene.expect("POST", "/api/v1/namespaces/ml/pods/train-0/eviction",
                     std::string(R"({"apiVersion":")") + version +
                         R"(","kind":"Eviction","metadata":{"namespace":"ml","name":"train-0"},)"
                         R"("deleteOptions":{"preconditions":{"uid":"u1"}}})");
    }
}
END_TEST

START_TEST(a_condition_is_patched_by_type_with_the_uid) {
    Scene scene(200, "{}");
    scene.api->set_condition(ref, {"PodScheduled", "False", "Unschedulable", "waits"}, scene.into());
    ck_assert(test::run(scene.loop));
    ck_assert(scene.seen.back().has_header("Content-Type: application/strategic-merge-patch+json\r\n"));
    scene.expect(
        "PATCH", "/api/v1/namespaces/ml/pods/train-0/status",
        R"({"metadata":{"uid":"u1","name":"train-0"},"status":{"conditions":[{"type":"PodScheduled","status":"False",)"
        R"("reason":"Unschedulable","message":"waits","lastTransitionTime":"2026-01-31T12:00:00Z"}]}})");
}
END_TEST

START_TEST(another_uid_is_a_conflict_on_old_servers_too) {
    Scene scene(422, R"({"kind":"Status","message":"m","reason":"Invalid",)"
                     R"("details":{"causes":[{"field":"metadata.uid"}]},"code":422})");
    scene.api->set_condition(ref, {"PodScheduled", "False", "x", "y", false}, scene.into());
    ck_assert(test::run(scene.loop));
    ck_assert_int_eq(scene.got.status, 409);
    ck_assert(scene.seen.back().body.find("lastTransitionTime") == std::string::npos);
}
END_TEST

START_TEST(an_event_has_all_that_the_server_asks_for) {
    Scene scene(201, "{}");
    const std::string name = std::string(49, 'a') + "-bcd";
    scene.api->post_event({"ml", name, "u1"}, {"Warning", "Failed", "Binding", std::string(1023, 'x') + "ü"});
    scene.api->server_version([&](int) { scene.loop.quit(); });
    ck_assert(test::run(scene.loop));
    const Exchange &event = scene.seen[scene.seen[0].method == "POST" ? 0 : 1];
    ck_assert_text(event.path, "/apis/events.k8s.io/v1/namespaces/ml/events");
    ck_assert_text(
        event.body,
        fmt::format(
            R"({{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{{"namespace":"ml","generateName":"{}-"}},)"
            R"("eventTime":"2026-01-31T12:00:00.250000Z","reportingController":"berth-controller",)"
            R"("reportingInstance":"host1",)"
            R"("type":"Warning","reason":"Failed","action":"Binding","note":"{}",)"
            R"("regarding":{{"apiVersion":"v1","kind":"Pod","uid":"u1","namespace":"ml","name":"{}"}}}})",
            std::string(49, 'a'), std::string(1023, 'x'), name));
}
END_TEST

START_TEST(a_pod_is_read_or_is_not_there) {
    Scene scene(200, R"({"metadata":{"namespace":"ml","name":"train-0","uid":"u2"}})");
    std::optional<Pod> pod;
    scene.api->get_pod(ref, [&](Response response, std::optional<Pod> got) {
        ck_assert_int_eq(response.status, 200);
        pod = std::move(got);
        scene.loop.quit();
    });
    ck_assert(test::run(scene.loop));
    ck_assert(pod && pod->uid == "u2");

    Scene none(404, R"({"message":"not found"})");
    none.api->get_pod(ref, [&](Response response, std::optional<Pod> got) {
        ck_assert_int_eq(response.status, 404);
        ck_assert(!got);
        none.loop.quit();
    });
    ck_assert(test::run(none.loop));

    Scene broken(200, "{}");
    broken.api->get_pod(ref, [&](Response response, std::optional<Pod> got) {
        ck_assert(!response.ok() && !response.error.empty() && !got);
        broken.loop.quit();
    });
    ck_assert(test::run(broken.loop));
}
END_TEST

START_TEST(the_version_is_asked_once) {
    Scene scene(200, R"({"major":"1","minor":"20+"})");
    int answers = 0;
    const auto answer = [&](int minor) {
        ck_assert_int_eq(minor, 20);
        if (++answers == 3)
            scene.loop.quit();
    };
    scene.api->server_version(answer);
    scene.api->server_version([&](int minor) {
        answer(minor);
        scene.api->server_version(answer);
    });
    ck_assert(test::run(scene.loop));
    ck_assert_uint_eq(scene.seen.size(), 1);
}
END_TEST

START_TEST(an_unknown_version_counts_as_old_and_is_asked_again) {
    Scene scene(403, "{}");
    scene.api->server_version([&](int minor) {
        ck_assert_int_eq(minor, 0);
        scene.api->server_version([&](int again) {
            ck_assert_int_eq(again, 0);
            scene.loop.quit();
        });
    });
    ck_assert(test::run(scene.loop));
    ck_assert_uint_eq(scene.seen.size(), 2);
}
END_TEST

Object group(const char *api_version) {
    Object out;
    out.api_version = api_version;
    out.kind = "PodGroup";
    out.ns = "ml";
    out.name = "ring";
    out.uid = "g1";
    return out;
}

START_TEST(an_event_may_be_about_any_object) {
    Scene scene(201, "{}");
    scene.api->post_event(group("scheduling.x-k8s.io/v1alpha1"), {"Warning", "Timeout", "Scheduling", "late"});
    scene.api->server_version([&](int) { scene.loop.quit(); });
    ck_assert(test::run(scene.loop));
    const Exchange &event = scene.seen[scene.seen[0].method == "POST" ? 0 : 1];
    ck_assert(event.body.find(R"("regarding":{"apiVersion":"scheduling.x-k8s.io/v1alpha1","kind":"PodGroup","uid":"g1",)"
                              R"("namespace":"ml","name":"ring"})") != std::string::npos);
}
END_TEST

START_TEST(only_what_changed_in_a_group_is_written) {
    Scene scene(200, "{}");
    Object pod_group = group("scheduling.x-k8s.io/v1alpha1");
    pod_group.status = {"Scheduling", "job-1", "", 1, 0, 0, 0};
    Object::GroupStatus status = {"Running", "", "2026-01-31T12:00:00Z", 1, 2, 0, 0};
    scene.api->patch_group_status(pod_group, status, scene.into());
    ck_assert(test::run(scene.loop));
    ck_assert(scene.seen.back().has_header("Content-Type: application/merge-patch+json\r\n"));
    scene.expect("PATCH", "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/ml/podgroups/ring/status",
                 R"({"metadata":{"uid":"g1","name":"ring"},"status":{"phase":"Running","occupiedBy":null,)"
                 R"("scheduleStartTime":"2026-01-31T12:00:00Z","running":2}})");
    pod_group.status = status;
    int answer = 0;
    scene.api->patch_group_status(pod_group, status, [&](Response response) { answer = response.status; });
    ck_assert_int_eq(answer, 200);
    ck_assert_uint_eq(scene.seen.size(), 1);
}
END_TEST

START_TEST(a_group_condition_has_the_name_of_its_version) {
    Scene scene(200, "{}");
    Object old = group("scheduling.k8s.io/v1alpha2");
    scene.api->set_group_condition(old, {"", "False", "Unschedulable", "waits"}, scene.into());
    ck_assert(test::run(scene.loop));
    ck_assert(scene.seen.back().has_header("Content-Type: application/strategic-merge-patch+json\r\n"));
    scene.expect("PATCH", "/apis/scheduling.k8s.io/v1alpha2/namespaces/ml/podgroups/ring/status",
                 R"({"metadata":{"uid":"g1","name":"ring"},"status":{"conditions":[{"type":"PodGroupScheduled","status":"False",)"
                 R"("reason":"Unschedulable","message":"waits","lastTransitionTime":"2026-01-31T12:00:00Z"}]}})");
    for (const char *version : {"scheduling.k8s.io/v1alpha3", "scheduling.k8s.io/v1beta1"}) {
        Scene newer(200, "{}");
        Object now = group(version);
        now.condition_status = "True";
        newer.api->set_group_condition(now, {"", "True", "Scheduled", ""}, newer.into());
        ck_assert(test::run(newer.loop));
        ck_assert(newer.seen.back().body.find(R"("type":"PodGroupInitiallyScheduled","status":"True")") != std::string::npos);
        ck_assert(newer.seen.back().body.find("lastTransitionTime") == std::string::npos);
    }
}
END_TEST

START_TEST(a_claim_is_read_and_given_a_node) {
    Scene scene(200, R"({"metadata":{"namespace":"ml","name":"data","uid":"c1",)"
                     R"("annotations":{"volume.kubernetes.io/selected-node":"node3"}},)"
                     R"("spec":{"storageClassName":"local","volumeName":"v"},"status":{"phase":"Pending"}})");
    std::optional<Claim> claim;
    scene.api->get_claim({"ml", "data", ""}, [&](Response, std::optional<Claim> got) {
        claim = std::move(got);
        scene.expect("GET", "/api/v1/namespaces/ml/persistentvolumeclaims/data", "");
        scene.api->select_node_for_claim({"ml", "data", "c1"}, "node7", scene.into());
    });
    ck_assert(test::run(scene.loop));
    ck_assert(claim && claim->uid == "c1" && claim->phase == "Pending" && claim->selected_node == "node3");
    ck_assert(claim->storage_class == "local" && claim->volume == "v");
    scene.expect("PATCH", "/api/v1/namespaces/ml/persistentvolumeclaims/data",
                 R"({"metadata":{"uid":"c1","name":"data","annotations":{"volume.kubernetes.io/selected-node":"node7"}}})");
}
END_TEST

START_TEST(a_node_is_changed_only_as_it_was_read) {
    Scene scene(200, "{}");
    Node node;
    node.name = "n1";
    node.uid = "nu";
    node.resource_version = "77";
    scene.api->patch_node(node, {.unschedulable = true, .annotations = {{"berth.dev/cordoned", "DRAIN: \"disk\""}}, .taints = {}},
                          scene.into());
    ck_assert(test::run(scene.loop));
    ck_assert(scene.seen.back().has_header("Content-Type: application/merge-patch+json\r\n"));
    scene.expect("PATCH", "/api/v1/nodes/n1",
                 R"({"metadata":{"uid":"nu","resourceVersion":"77","annotations":{"berth.dev/cordoned":"DRAIN: \"disk\""}},)"
                 R"("spec":{"unschedulable":true}})");
    Scene undone(200, "{}");
    undone.api->patch_node(node,
                           {.unschedulable = false,
                            .annotations = {{"berth.dev/cordoned", std::nullopt}},
                            .taints = {{{"a", "b", "NoSchedule"}, {"c", "", "NoExecute", "2026-01-31T12:00:00Z"}}}},
                           undone.into());
    ck_assert(test::run(undone.loop));
    undone.expect("PATCH", "/api/v1/nodes/n1",
                  R"({"metadata":{"uid":"nu","resourceVersion":"77","annotations":{"berth.dev/cordoned":null}},)"
                  R"("spec":{"unschedulable":null,"taints":[{"key":"a","value":"b","effect":"NoSchedule"},)"
                  R"({"key":"c","value":"","effect":"NoExecute","timeAdded":"2026-01-31T12:00:00Z"}]}})");
}
END_TEST

START_TEST(an_event_on_a_node_is_where_kubectl_looks_for_it) {
    Scene scene(201, "{}");
    Node node;
    node.name = "n1";
    node.uid = "nu";
    scene.api->post_node_event(node, {"Warning", "SlurmDrained", "Cordoning", "why"});
    scene.api->server_version([&](int) { scene.loop.quit(); });
    ck_assert(test::run(scene.loop));
    const Exchange &event = scene.seen[scene.seen[0].method == "POST" ? 0 : 1];
    ck_assert_text(event.path, "/apis/events.k8s.io/v1/namespaces/kube-system/events");
    ck_assert(event.body.find(R"("regarding":{"apiVersion":"v1","kind":"Node","uid":"n1","name":"n1"})") != std::string::npos);
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "api", {a_binding_carries_uid_and_annotations, a_deletion_names_the_uid_and_maybe_a_grace,
                an_eviction_names_the_uid_and_the_version_that_the_server_has, a_condition_is_patched_by_type_with_the_uid,
                another_uid_is_a_conflict_on_old_servers_too,
                an_event_has_all_that_the_server_asks_for, a_pod_is_read_or_is_not_there, the_version_is_asked_once,
                an_unknown_version_counts_as_old_and_is_asked_again, an_event_may_be_about_any_object,
                only_what_changed_in_a_group_is_written, a_group_condition_has_the_name_of_its_version,
                a_claim_is_read_and_given_a_node, a_node_is_changed_only_as_it_was_read,
                an_event_on_a_node_is_where_kubectl_looks_for_it});
}
