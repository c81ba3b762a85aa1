#include "agent/kube/decode.h"

#include <fmt/core.h>

#include "agent/kube/json_text.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::kube;

namespace {

Result<Pod> decode(std::string json) { return Decoder().pod(padded(json)); }

Pod pod(std::string_view spec, std::string_view status) {
    auto got = decode(
        fmt::format(R"({{"metadata":{{"namespace":"n","name":"p","uid":"u"}},"spec":{},"status":{}}})", spec, status));
    ck_assert_msg(got.ok(), "%s", got.ok() ? "" : got.error().c_str());
    return *got;
}

const char *const running_pod = R"({
 "kind":"Pod","apiVersion":"v1",
 "metadata":{"name":"train-0","namespace":"ml","uid":"8f2b3c1e-7a53-4a0e-9c1d-2f6f0a9d7b11","resourceVersion":"48213",
  "creationTimestamp":"2026-01-31T10:00:00Z",
  "labels":{"app":"train","berth.dev/group":"g","controller-uid":"x"},
  "annotations":{"slurmjob.slinky.slurm.net/timelimit":"30","kubernetes.io/psp":"x","berth.dev/job":"12",
   "slinky.slurm.net/a":"\u00fc"},
  "ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"other","uid":"o1"},
   {"apiVersion":"batch/v1","kind":"Job","name":"train","uid":"o2","controller":true,"blockOwnerDeletion":true}],
  "managedFields":[{"manager":"kubectl","operation":"Update","fieldsV1":{"f:metadata":{"f:labels":{".":{}}}}}]},
 "spec":{"volumes":[{"name":"v","emptyDir":{}}],
  "containers":[{"name":"main","image":"x","resources":{"limits":{"cpu":"2","memory":"1Gi","nvidia.com/gpu":"2"},
    "requests":{"cpu":"500m","memory":"2Gi","nvidia.com/gpu":"2","ephemeral-storage":"1Gi"}}},
   {"name":"side","image":"y","resources":{"requests":{"cpu":"100m","hugepages-2Mi":"4Mi"}}}],
  "restartPolicy":"Never","terminationGracePeriodSeconds":45,"activeDeadlineSeconds":600,"serviceAccountName":"robot",
  "nodeName":"node7","schedulerName":"slurm-bridge-scheduler","priorityClassName":"high","tolerations":[],
  "schedulingGates":[],"overhead":{"cpu":"250m","memory":"64Mi"}},
 "status":{"phase":"Running","qosClass":"Burstable","conditions":[
   {"type":"Initialized","status":"True"},
   {"type":"berth.dev/Ending","status":"True","reason":"SlurmTimeLimit","message":"soon"},
   {"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"job 12 waits: \"Resources\""}],
  "containerStatuses":[{"name":"main","state":{"running":{"startedAt":"2026-01-31T10:00:05Z"}},"lastState":{}}]}})";

START_TEST(a_pod_is_read_and_the_rest_dropped) {
    const auto got = decode(running_pod);
    ck_assert_msg(got.ok(), "%s", got.ok() ? "" : got.error().c_str());
    ck_assert_text(got->full_name(), "ml/train-0");
    ck_assert_text(got->uid, "8f2b3c1e-7a53-4a0e-9c1d-2f6f0a9d7b11");
    ck_assert_text(got->resource_version, "48213");
    ck_assert_text(got->scheduler_name, "slurm-bridge-scheduler");
    ck_assert_text(got->node_name, "node7");
    ck_assert_text(got->service_account, "robot");
    ck_assert_text(got->priority_class, "high");
    ck_assert_text(got->owner.kind, "Job");
    ck_assert_text(got->owner.uid, "o2");
    ck_assert(got->phase == Phase::running);
    ck_assert(!got->deleting && !got->gated && !got->exit_known);
    ck_assert_int_eq(got->grace_seconds, 45);
    ck_assert_int_eq(got->active_deadline_seconds, 600);
    ck_assert_int_eq(got->need.cpu_milli, 2000 + 100 + 250);
    ck_assert_int_eq(got->need.memory_bytes, (2048LL + 64) << 20);
    const std::vector<std::pair<std::string, std::int64_t>> extended = {
        {"ephemeral-storage", 1 << 30}, {"hugepages-2Mi", 4 << 20}, {"nvidia.com/gpu", 2}};
    ck_assert(got->need.extended == extended);
    ck_assert_uint_eq(got->annotations.size(), 3);
    ck_assert_text(std::string(got->annotation("berth.dev/job")), "12");
    ck_assert_text(std::string(got->annotation("slinky.slurm.net/a")), "ü");
    ck_assert(got->annotation("kubernetes.io/psp").empty());
    ck_assert_uint_eq(got->labels.size(), 2);
    ck_assert_text(std::string(got->label("controller-uid")), "x");
    ck_assert_text(got->owner.api_version, "batch/v1");
    ck_assert_text(got->owner.name, "train");
    ck_assert_int_eq(got->created, 1769853600);
    ck_assert(!got->placement && got->claims.empty());
    ck_assert_text(got->scheduled_reason, "Unschedulable");
    ck_assert_text(got->ending_reason, "SlurmTimeLimit");
    ck_assert_text(got->ending_message, "soon");
    ck_assert_text(got->scheduled_message, "job 12 waits: \"Resources\"");
}
END_TEST

START_TEST(absent_fields_have_defaults_and_unknown_ones_do_no_harm) {
    const auto got =
        decode(R"({"metadata":{"namespace":"n","name":"p","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z"},)"
               R"("future":[1,{}]})");
    ck_assert(got.ok());
    ck_assert(got->phase == Phase::pending);
    ck_assert(got->deleting);
    ck_assert_int_eq(got->grace_seconds, 30);
    const Pod odd = pod(
        R"({"nodeName":5,"containers":{"a":1},"terminationGracePeriodSeconds":"x","schedulingGates":[{"name":"g"}]})",
        R"({"phase":["x"],"conditions":[1,null,{"type":7}],"containerStatuses":"no"})");
    ck_assert(odd.node_name.empty());
    ck_assert(odd.gated);
    ck_assert_int_eq(odd.grace_seconds, 30);
}
END_TEST

START_TEST(where_a_pod_wants_to_be_is_read) {
    const Pod got = pod(R"({
        "priority":1000,"schedulingGroup":{"podGroupName":"ring"},
        "volumes":[{"name":"a","persistentVolumeClaim":{"claimName":"data"}},{"name":"tmp","ephemeral":{"volumeClaimTemplate":{}}}],
        "nodeSelector":{"zone":"b","disk":"ssd"},
        "affinity":{"nodeAffinity":{
            "requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
                {"matchExpressions":[{"key":"gpu","operator":"In","values":["a100","h100"]},{"key":"old","operator":"DoesNotExist"}],
                 "matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n1"]}]},
                {}]},
            "preferredDuringSchedulingIgnoredDuringExecution":[
                {"weight":1,"preference":{"matchExpressions":[{"key":"cores","operator":"Gt","values":["8"]}]}},
                {"weight":50,"preference":{"matchExpressions":[{"key":"cores","operator":"Lt","values":["99"]}]}}]},
          "podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"x"}]}},
        "tolerations":[
            {"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
            {"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},
            {"key":"pool","value":"ml"}],
        "topologySpreadConstraints":[{"whenUnsatisfiable":"DoNotSchedule"}]})",
                        "{}");
    ck_assert_int_eq(got.priority, 1000);
    ck_assert_text(got.scheduling_group, "ring");
    ck_assert(got.claims == std::vector<std::string>({"data", "p-tmp"}));
    ck_assert(got.placement != nullptr);
    using Op = Requirement::Op;
    Placement want;
    want.node_selector = {{"disk", "ssd"}, {"zone", "b"}};
    want.has_required = want.pod_affinity = want.topology_spread = true;
    want.required = {{{"gpu", Op::in, {"a100", "h100"}, false},
                      {"old", Op::does_not_exist, {}, false},
                      {"metadata.name", Op::not_in, {"n1"}, true}}};
    want.preferred = {{50, {{"cores", Op::lt, {"99"}, false}}}, {1, {{"cores", Op::gt, {"8"}, false}}}};
    want.tolerations = {{"pool", "Equal", "ml", ""}};
    ck_assert(*got.placement == want);
}
END_TEST

START_TEST(a_pod_that_asks_for_no_place_has_none) {
    const Pod soft = pod(R"({"affinity":{"podAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1}]}},
        "tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute"}],
        "topologySpreadConstraints":[{"whenUnsatisfiable":"ScheduleAnyway"}],"nodeSelector":{}})",
                         "{}");
    ck_assert(!soft.placement);
    const Pod nowhere = pod(
        R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{}]}}}})", "{}");
    ck_assert(nowhere.placement && nowhere.placement->has_required && nowhere.placement->required.empty());
}
END_TEST

START_TEST(names_of_workloads_are_kept_and_their_repetitions_are_not) {
    const auto got = decode(R"({"metadata":{"namespace":"n","name":"p","uid":"u","labels":{
        "job-name":"j","batch.kubernetes.io/job-name":"j","batch.kubernetes.io/job-completion-index":"3","jobset.sigs.k8s.io/jobset-name":"s",
        "leaderworkerset.sigs.k8s.io/group-index":"0","scheduling.x-k8s.io/pod-group":"g","app":"x"},
        "annotations":{"batch.kubernetes.io/job-completion-index":"3","leaderworkerset.sigs.k8s.io/size":"4",
        "jobset.sigs.k8s.io/jobset-name":"s","x":"y"}}})");
    ck_assert(got.ok());
    ck_assert_uint_eq(got->labels.size(), 5);
    ck_assert_text(std::string(got->label("scheduling.x-k8s.io/pod-group")), "g");
    ck_assert_uint_eq(got->annotations.size(), 1);
    const auto old = decode(R"({"metadata":{"namespace":"n","name":"p","uid":"u",
        "annotations":{"batch.kubernetes.io/job-completion-index":"3"}}})");
    ck_assert(old.ok() && old->annotation("batch.kubernetes.io/job-completion-index") == "3");
    ck_assert_text(std::string(got->annotation("leaderworkerset.sigs.k8s.io/size")), "4");
}
END_TEST

struct ResourceCase {
    const char *spec;
    long long cpu, memory;
};

START_TEST(suspension_is_read_from_its_condition) {
    ck_assert(!pod("{}", "{}").suspended);
    ck_assert(pod("{}", R"({"conditions":[{"type":"berth.dev/Suspended","status":"True"}]})").suspended);
    ck_assert(!pod("{}", R"({"conditions":[{"type":"berth.dev/Suspended","status":"False"}]})").suspended);
}
END_TEST

START_TEST(requests_are_kept_apart_where_limits_are_higher) {
    const Pod higher = pod(R"({"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Mi"},"limits":{"cpu":"4","memory":"1Mi"}}}]})", "{}");
    ck_assert_int_eq(higher.need.cpu_milli, 4000);
    ck_assert(higher.requests != nullptr);
    ck_assert_int_eq(higher.requested().cpu_milli, 1000);
    ck_assert_int_eq(higher.requested().memory_bytes, 1 << 20);
    const Pod limits_alone = pod(R"({"containers":[{"resources":{"limits":{"cpu":"4"}}}]})", "{}");
    ck_assert(limits_alone.requests == nullptr);
    ck_assert_int_eq(limits_alone.requested().cpu_milli, 4000);
}
END_TEST

START_TEST(what_is_never_undone_tells_which_state_was_first) {
    Pod waits, bound, ended, leaving;
    bound.node_name = ended.node_name = leaving.node_name = "n1";
    ended.phase = Phase::succeeded;
    leaving.deleting = true;
    for (const Pod *later : {&bound, &ended, &leaving}) {
        ck_assert(is_older(waits, *later) && !is_older(*later, waits));
        ck_assert(!is_older(*later, *later));
    }
    ck_assert(is_older(bound, ended) && is_older(bound, leaving) && !is_older(ended, bound));
}
END_TEST

START_TEST(memory_is_limited_when_every_container_is_or_the_pod) {
#define LIMITED R"({"resources":{"limits":{"memory":"1Mi"}}})"
#define OPEN R"({"resources":{"requests":{"memory":"1Mi"}}})"
    ck_assert(pod(R"({"containers":[)" LIMITED "]}", "{}").memory_limited);
    ck_assert(!pod(R"({"containers":[)" OPEN "]}", "{}").memory_limited);
    ck_assert(!pod(R"({"containers":[)" LIMITED "," OPEN "]}", "{}").memory_limited);
    ck_assert(!pod(R"({"containers":[)" LIMITED R"(],"initContainers":[)" OPEN "]}", "{}").memory_limited);
    ck_assert(pod(R"({"resources":{"limits":{"memory":"1Gi"}},"containers":[)" OPEN "]}", "{}").memory_limited);
    ck_assert(pod(R"({"containers":[)" OPEN ",{}]}", "{}").memory_open);
    ck_assert(!pod(R"({"containers":[)" OPEN "," LIMITED R"(],"initContainers":[{}]})", "{}").memory_open);
    ck_assert(pod(R"({"containers":[)" OPEN R"(],"initContainers":[{"restartPolicy":"Always"}]})", "{}").memory_open);
    ck_assert(!pod(R"({"resources":{"requests":{"memory":"1Gi"}},"containers":[{}]})", "{}").memory_open);
#undef LIMITED
#undef OPEN
}
END_TEST

START_TEST(init_containers_and_sidecars_count_as_the_scheduler_counts_them) {
#define C(name, cpu) "{\"name\":\"" name "\",\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}}"
#define S(name, cpu) \
    "{\"name\":\"" name "\",\"restartPolicy\":\"Always\",\"resources\":{\"requests\":{\"cpu\":\"" cpu "\"}}}"
    const ResourceCase cases[] = {
        {R"({"containers":[)" C("a", "1") "," C("b", "2") R"(],"initContainers":[)" C("i", "2") "]}", 3000, 0},
        {R"({"containers":[)" C("a", "1") R"(],"initContainers":[)" C("i", "4") "," C("j", "2") "]}", 4000, 0},
        {R"({"containers":[)" C("a", "1") R"(],"initContainers":[)" S("s", "1") "," C("i", "4") "]}", 5000, 0},
        {R"({"containers":[)" C("a", "1") R"(],"initContainers":[)" C("i", "4") "," S("s", "1") "]}", 4000, 0},
        {R"({"containers":[)" C("a", "3") R"(],"initContainers":[)" S("s", "1") "," S("t", "1") "," C("i", "2") "]}",
         5000, 0},
        {R"({"resources":{"requests":{"cpu":"7"}},"containers":[)" C("a", "3") "]}", 7000, 0},
        {R"({"containers":[{"resources":{"requests":{"cpu":1,"memory":1000}}}]})", 1000, 1000},
    };
#undef C
#undef S
    for (const ResourceCase &c : cases) {
        const Pod got = pod(c.spec, "{}");
        ck_assert_msg(got.need.cpu_milli == c.cpu && got.need.memory_bytes == c.memory && got.problem.empty(),
                      "%s: %lld %lld %s", c.spec, static_cast<long long>(got.need.cpu_milli),
                      static_cast<long long>(got.need.memory_bytes), got.problem.c_str());
    }
}
END_TEST

START_TEST(a_bad_quantity_is_a_problem_of_the_pod_not_of_the_watch) {
    const Pod bad = pod(R"({"containers":[{"name":"main","resources":{"requests":{"cpu":"lots"}}}]})", "{}");
    ck_assert_msg(bad.problem.find("container main: cpu") == 0, "%s", bad.problem.c_str());
    const Pod large =
        pod(R"({"containers":[{"resources":{"requests":{"memory":"8Ei"}}},{"resources":{"requests":{"memory":"7Ei"}}},
                            {"resources":{"requests":{"memory":"7Ei"}}}]})",
            "{}");
    ck_assert(!large.problem.empty());
    const Pod list = pod(R"({"containers":[{"name":"x","resources":{"limits":{"memory":[]}}}]})", "{}");
    ck_assert(!list.problem.empty());
}
END_TEST

struct ExitCase {
    const char *spec, *status;
    int code, signal;
    const char *reason;
    bool known;
};

START_TEST(the_first_failure_says_how_the_pod_ended) {
#define ENDED(name, code, reason, at)                                                              \
    "{\"name\":\"" name "\",\"state\":{\"terminated\":{\"exitCode\":" code ",\"reason\":\"" reason \
    "\",\"finishedAt\":\"" at "\"}}}"
    const ExitCase cases[] = {
        {"{}",
         R"({"phase":"Succeeded","containerStatuses":[)" ENDED("a", "0", "Completed", "2026-01-01T00:00:01Z") "]}", 0,
         0, "", true},
        {"{}",
         R"({"phase":"Failed","containerStatuses":[)" ENDED("a", "143", "Error", "2026-01-01T00:00:09Z") "," ENDED(
             "b", "3", "Error", "2026-01-01T00:00:01Z") "]}",
         3, 0, "Error", true},
        {"{}", R"({"phase":"Failed","containerStatuses":[)" ENDED("a", "137", "OOMKilled", "2026-01-01T00:00:01Z") "]}",
         137, 9, "OOMKilled", true},
        {"{}",
         R"({"phase":"Failed","containerStatuses":[{"name":"a","state":{"terminated":{"exitCode":0,"signal":15}}}]})",
         0, 15, "", true},
        {"{}", R"({"phase":"Failed","reason":"Evicted","message":"low on memory"})", 1, 0, "Evicted", true},
        {"{}", R"({"phase":"Failed","reason":"OutOfcpu"})", 1, 0, "OutOfcpu", true},
        {"{}", R"({"phase":"Failed"})", 1, 0, "", true},
        {"{}",
         R"({"phase":"Failed","reason":"DeadlineExceeded","containerStatuses":[)" ENDED("a", "137", "Error",
                                                                                        "2026-01-01T00:00:01Z") "]}",
         137, 0, "DeadlineExceeded", true},
        {"{}",
         R"({"phase":"Failed","initContainerStatuses":[)" ENDED(
             "i", "7", "Error",
             "2026-01-01T00:00:01Z") R"(],"containerStatuses":[{"name":"a","state":{"waiting":{}}}]})",
         7, 0, "Error", true},
        {R"({"initContainers":[{"name":"s","restartPolicy":"Always"}]})",
         R"({"phase":"Succeeded","initContainerStatuses":[)" ENDED(
             "s", "137", "Error",
             "2026-01-01T00:00:01Z") R"(],"containerStatuses":[)" ENDED("a", "0", "Completed",
                                                                        "2026-01-01T00:00:02Z") "]}",
         0, 0, "", true},
        {"{}",
         R"({"phase":"Running","containerStatuses":[{"name":"a","state":{"running":{}},)"
         R"("lastState":{"terminated":{"exitCode":1}}}]})",
         0, 0, "", false},
        {"{}",
         R"({"phase":"Running","containerStatuses":[)" ENDED(
             "a", "2", "Error", "2026-01-01T00:00:01Z") R"(,{"name":"b","state":{"running":{}}}]})",
         2, 0, "Error", true},
    };
#undef ENDED
    for (const ExitCase &c : cases) {
        const Pod got = pod(c.spec, c.status);
        ck_assert_msg(got.exit_code == c.code && got.exit_signal == c.signal && got.exit_reason == c.reason &&
                          got.exit_known == c.known,
                      "%s: %d %d '%s' %d", c.status, got.exit_code, got.exit_signal, got.exit_reason.c_str(),
                      got.exit_known);
    }
}
END_TEST

START_TEST(broken_objects_give_an_error_and_never_a_crash) {
    for (const char *json :
         {"", "{", "[]", "null", "5", "\"x\"", "{\"metadata\":5}", "{\"metadata\":{}}", "{}",
          "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\"}}",
          "{\"metadata\":{\"name\":5,\"namespace\":\"n\",\"uid\":\"u\"}}",
          "{\"metadata\":{\"name\":\"\xff\",\"namespace\":\"n\",\"uid\":\"u\"}}", "{\"a\":1}{\"b\":2}", "{\"a\":\x01}"})
        ck_assert_msg(!decode(json).ok(), "accepted: %s", json);
    // Every beginning of a good pod is a broken one.
    const std::string whole = running_pod;
    Decoder decoder;
    for (std::size_t size = 0; size < whole.size(); ++size) {
        std::string cut = whole.substr(0, size);
        ck_assert(!decoder.pod(padded(cut)).ok());
    }
    std::string again = whole;
    ck_assert(decoder.pod(padded(again)).ok());
}
END_TEST

START_TEST(deep_nesting_and_huge_numbers_are_refused) {
    const auto nested = [](std::size_t depth) {
        return R"({"metadata":{"namespace":"n","name":"p","uid":"u"},"x":)" + std::string(depth, '[') +
               std::string(depth, ']') + "}";
    };
    ck_assert(decode(nested(50)).ok());
    ck_assert(!decode(nested(200)).ok());
    ck_assert(!decode(nested(1'000'000)).ok());
    // A number beyond 64 bits, anywhere.
    ck_assert(
        !decode(R"({"metadata":{"namespace":"n","name":"p","uid":"u"},"x":123456789012345678901234567890})").ok());
    const Pod got = pod(R"({"terminationGracePeriodSeconds":9223372036854775807})",
                        R"({"containerStatuses":[{"state":{"terminated":{"exitCode":9223372036854775807}}}]})");
    ck_assert_int_eq(got.exit_code, 2147483647);
}
END_TEST

START_TEST(a_list_gives_its_items_version_and_next_page) {
    std::string json = R"({"kind":"PodList","metadata":{"resourceVersion":"9","continue":"tok"},"items":[
        {"metadata":{"namespace":"n","name":"a","uid":"1"}},{"metadata":{}},7,
        {"metadata":{"namespace":"n","name":"b","uid":"2"}}]})";
    const auto page = Decoder().list<Pod>(padded(json));
    ck_assert(page.ok());
    ck_assert_uint_eq(page->items.size(), 2);
    ck_assert_uint_eq(page->bad, 2);
    ck_assert_text(page->next, "tok");
    ck_assert_text(page->resource_version, "9");
    std::string empty = R"({"metadata":{"resourceVersion":"9"},"items":null})";
    ck_assert(Decoder().list<Pod>(padded(empty)).ok());
    for (std::string bad : {R"({"items":[]})", R"({"metadata":{"resourceVersion":"9"},"items":5})", "[]"})
        ck_assert(!Decoder().list<Pod>(padded(bad)).ok());
}
END_TEST

START_TEST(events_are_told_apart) {
    using Kind = WatchEvent<Node>::Kind;
    Decoder decoder;
    const auto event = [&](std::string json) {
        return decoder.event<Node>(padded(json));
    };
    const auto added = event(
        R"({"type":"ADDED","object":{"metadata":{"name":"n1","uid":"u","resourceVersion":"5"},
        "spec":{"unschedulable":true},
        "status":{"allocatable":{"cpu":"1500m","memory":"2Gi","pods":"110","nvidia.com/gpu":"4"},"conditions":[{"type":"Ready","status":"True"}]}}})");
    ck_assert(added.ok() && added->kind == Kind::added);
    ck_assert(added->object.ready && added->object.unschedulable);
    ck_assert_int_eq(added->object.cpu_milli, 1500);
    ck_assert_int_eq(added->object.memory_bytes, 2LL << 30);
    ck_assert_int_eq(added->object.pods, 110);
    const std::vector<std::pair<std::string, std::int64_t>> extended{{"nvidia.com/gpu", 4}};
    ck_assert(added->object.extended == extended);
    const auto bookmark = event(R"({"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"77"}}})");
    ck_assert(bookmark->kind == Kind::bookmark);
    ck_assert_text(bookmark->resource_version, "77");
    const auto gone =
        event(R"({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}})");
    ck_assert(gone->kind == Kind::error);
    ck_assert_int_eq(gone->code, 410);
    ck_assert_text(gone->message, "too old");
    const auto bad = event(R"({"type":"MODIFIED","object":{"metadata":{"resourceVersion":"6"}}})");
    ck_assert(bad.ok() && !bad->problem.empty());
    ck_assert_text(bad->resource_version, "6");
    ck_assert(event(R"({"type":"NEW-KIND","object":{}})")->kind == Kind::unknown);
    ck_assert(!event(R"({"type":"ADDED"})").ok());
    ck_assert(!event(R"({"object":{}})").ok());
}
END_TEST

START_TEST(versions_and_status_messages_are_read) {
    ck_assert_int_eq(version_minor(R"({"major":"1","minor":"20"})"), 20);
    ck_assert_int_eq(version_minor(R"({"major":"1","minor":"27+"})"), 27);
    ck_assert_int_eq(version_minor(R"({"major":"2","minor":"0"})"), 1000);
    ck_assert_int_eq(version_minor("nonsense"), 0);
    ck_assert_int_eq(version_minor(R"({"major":"1"})"), 0);
    ck_assert_text(status_message(R"({"kind":"Status","message":"pods \"x\" not found"})"), "pods \"x\" not found");
    ck_assert_text(status_message("Bad\ngateway"), "Bad gateway");
}
END_TEST

START_TEST(foreign_text_cannot_spoil_a_body) {
    ck_assert_text(json_quote("a\"b\\c\n\x01"), R"("a\"b\\c\u000a\u0001")");
    ck_assert_text(json_quote("ü€😀"), "\"ü€😀\"");
    ck_assert_text(json_quote("a\xff"
                              "b\xc3"),
                   R"("a\ufffdb\ufffd")");
    ck_assert_text(json_quote("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");
    ck_assert_uint_eq(cut_utf8("aü", 2).size(), 1);
    ck_assert_uint_eq(cut_utf8("aü", 3).size(), 3);
    ck_assert_uint_eq(cut_utf8("😀", 3).size(), 0);
}
END_TEST

START_TEST(a_node_has_labels_and_taints) {
    std::string json = R"({"metadata":{"name":"n1","uid":"u","labels":{"zone":"b","app":"x"}},
        "spec":{"taints":[{"key":"gpu","value":"yes","effect":"NoSchedule"},{"key":"old","effect":"NoExecute"}]}})";
    const auto got = Decoder().node(padded(json));
    ck_assert(got.ok());
    ck_assert_uint_eq(got->labels.size(), 2);
    ck_assert_text(std::string(value_of(got->labels, "zone")), "b");
    ck_assert_uint_eq(got->taints.size(), 2);
    ck_assert_text(got->taints[0].value, "yes");
    ck_assert_text(got->taints[1].effect, "NoExecute");
}
END_TEST

START_TEST(sidecars_cost_time_by_their_number_and_not_its_square) {
    // Each with resources of its own, 8 MB in all: what a hostile server may send. By the square it would take minutes.
    std::string json = R"({"metadata":{"namespace":"n","name":"p","uid":"u"},"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}],"initContainers":[)";
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr int sidecars = 800, resources = 30;  // a sanitised build takes its time over each
#else
    constexpr int sidecars = 8000, resources = 30;
#endif
    for (int i = 0; i < sidecars; ++i) {
        json += fmt::format(R"({}{{"restartPolicy":"Always","resources":{{"requests":{{"cpu":"1m")", i == 0 ? "" : ",");
        for (int k = 0; k < resources; ++k)
            json += fmt::format(R"(,"x.io/{}":"1")", i * resources + k);
        json += "}}}";
    }
    json += "]}}";
    const auto pod = Decoder().pod(padded(json));
    ck_assert(pod.ok() && pod->problem.empty());
    ck_assert_int_eq(pod->need.cpu_milli, 1000 + sidecars);
    ck_assert_uint_eq(pod->need.extended.size(), sidecars * resources);
}
END_TEST

START_TEST(what_cannot_be_sent_back_is_not_kept) {
    const std::string million(1 << 20, '9');
    std::string list = R"({"metadata":{"resourceVersion":")" + million + R"("},"items":[]})";
    ck_assert(!Decoder().list<Pod>(padded(list)).ok());
    std::string page = R"({"metadata":{"resourceVersion":"1","continue":")" + million + R"("},"items":[]})";
    ck_assert(!Decoder().list<Pod>(padded(page)).ok());
    std::string bookmark = R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":")" + million + R"("}}})";
    const auto event = Decoder().event<Pod>(padded(bookmark));
    ck_assert(event.ok() && event->resource_version.empty());
}
END_TEST

START_TEST(a_node_says_what_ails_it) {
    std::string json = R"({"metadata":{"name":"n1","uid":"u","annotations":{"berth.dev/cordoned":"DRAIN: disk","other":"x"}},
        "spec":{"taints":[{"key":"old","effect":"NoExecute","timeAdded":"2026-01-31T12:00:00Z"}]},
        "status":{"conditions":[{"type":"DiskPressure","status":"True","message":"full"},{"type":"MemoryPressure","status":"False"},
        {"type":"NetworkUnavailable","status":"True"},{"type":"Ready","status":"Unknown","message":"Kubelet stopped posting node status."}]}})";
    const auto got = Decoder().node(padded(json));
    ck_assert(got.ok() && !got->ready);
    ck_assert_text(got->ready_message, "Kubelet stopped posting node status.");
    ck_assert(got->pressures == (std::vector<std::pair<std::string, std::string>>{{"DiskPressure", "full"}}));
    ck_assert(got->annotations == (KeyValues{{"berth.dev/cordoned", "DRAIN: disk"}}));
    ck_assert_text(got->taints[0].time_added, "2026-01-31T12:00:00Z");
}
END_TEST

}  // namespace

int main() {
    return test::run_suite("decode",
                  {a_pod_is_read_and_the_rest_dropped, where_a_pod_wants_to_be_is_read,
                   a_pod_that_asks_for_no_place_has_none, names_of_workloads_are_kept_and_their_repetitions_are_not,
                   a_node_has_labels_and_taints, a_node_says_what_ails_it, absent_fields_have_defaults_and_unknown_ones_do_no_harm,
                   requests_are_kept_apart_where_limits_are_higher, what_is_never_undone_tells_which_state_was_first, memory_is_limited_when_every_container_is_or_the_pod,
                   suspension_is_read_from_its_condition,
                   init_containers_and_sidecars_count_as_the_scheduler_counts_them,
                   a_bad_quantity_is_a_problem_of_the_pod_not_of_the_watch, the_first_failure_says_how_the_pod_ended,
                   broken_objects_give_an_error_and_never_a_crash, deep_nesting_and_huge_numbers_are_refused,
                   a_list_gives_its_items_version_and_next_page, what_cannot_be_sent_back_is_not_kept, sidecars_cost_time_by_their_number_and_not_its_square, events_are_told_apart,
                   versions_and_status_messages_are_read, foreign_text_cannot_spoil_a_body});
}
