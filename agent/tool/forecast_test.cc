// The dry run: what is read from a manifest, and how the answer is told.
#include "agent/tool/forecast.h"

#include "agent/tool/manifest.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::tool;

namespace {

constexpr std::time_t now = 1794830400;

const std::string pod_text = R"(apiVersion: v1
kind: Pod
metadata:
  name: train
  annotations: {slurmjob.slinky.slurm.net/timelimit: "90"}
spec:
  schedulerName: slurm-bridge-scheduler
  containers:
    - name: main
      image: x
      resources: {requests: {cpu: 1.5, memory: 64Mi}, limits: {nvidia.com/gpu: 2}}
)";

DryRun a_run() {
    DryRun run;
    run.workload = "Pod team-a/train";
    run.file = "pod.yaml";
    run.now = now;
    run.scheduler = run.berth_scheduler = "slurm-bridge-scheduler";
    ForecastPart part;
    part.user = part.group = "alice";
    part.asked.partition = "main";
    part.asked.cpus_per_task = 2;
    part.asked.memory_mib = 2048;
    part.asked.gres = {{"gpu", 2}};
    part.answer = slurm::Forecast{now, "n1", "main", 2, {}};
    run.parts.push_back(part);
    return run;
}

bool has(const std::string &text, std::string_view words) { return text.find(words) != std::string::npos; }

}  // namespace

START_TEST(a_pod_is_read_as_the_api_would_give_it) {
    const auto read = read_manifest(pod_text, "pod.yaml", "team-a");
    ck_assert_msg(read.ok(), "%s", read ? "" : read.error().c_str());
    ck_assert_text(read->kind + " " + read->ns + "/" + read->name, "Pod team-a/train");
    ck_assert_int_eq(read->pod.need.cpu_milli, 1500);
    ck_assert_int_eq(read->pod.need.memory_bytes, 64 << 20);
    ck_assert_int_eq(read->pod.need.extended.at(0).second, 2);
    ck_assert_text(std::string(read->pod.annotation("slurmjob.slinky.slurm.net/timelimit")), "90");
    ck_assert_text(read->pod.scheduler_name, "slurm-bridge-scheduler");
    ck_assert_text(read->pod.service_account, "default");
}
END_TEST

START_TEST(a_job_gives_its_template_and_itself) {
    const auto read = read_manifest(R"(# a comment
---
apiVersion: batch/v1
kind: Job
metadata: {name: ring, namespace: lab, annotations: {berth.dev/gang: "true"}}
spec:
  parallelism: 4
  template:
    spec:
      containers: [{name: main, image: x}]
)",
                                    "job.yaml", "team-a");
    ck_assert_msg(read.ok(), "%s", read ? "" : read.error().c_str());
    ck_assert_text(read->kind + " " + read->ns + "/" + read->name, "Job lab/ring");
    ck_assert_text(read->pod.ns, "lab");
    ck_assert_text(read->pod.scheduler_name, "default-scheduler");
    const auto who = group_of(read->pod, read->chain, Config());
    ck_assert_msg(who.ok(), "%s", who ? "" : who.error().c_str());
    ck_assert(who->gang);
    ck_assert_int_eq(who->size, 4);
}
END_TEST

START_TEST(a_pod_group_in_the_file_makes_a_gang) {
    const std::string group =
        "apiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: ring}\nspec: {minMember: 3}\n---\n";
    std::string pod = pod_text;
    pod.replace(pod.find("  annotations"), 2, "  labels: {scheduling.x-k8s.io/pod-group: ring}\n  ");
    const auto read = read_manifest(group + pod, "gang.yaml", "team-a");
    ck_assert_msg(read.ok(), "%s", read ? "" : read.error().c_str());
    ck_assert(read->chain.pod_group != nullptr && read->notes.empty());
    ck_assert_int_eq(group_of(read->pod, read->chain, Config())->size, 3);
    const auto alone = read_manifest(pod, "pod.yaml", "team-a");
    ck_assert(alone.ok() && alone->notes.size() == 1);
}
END_TEST

START_TEST(mistakes_are_told_with_file_and_line) {
    std::string number = pod_text;
    number.replace(number.find("\"90\""), 4, "90");
    const auto unquoted = read_manifest(number, "pod.yaml", "x");
    ck_assert(!unquoted && has(unquoted.error(), "pod.yaml:5") && has(unquoted.error(), "in quotes"));
    const auto second = read_manifest("kind: Service\n---\n" + number, "pod.yaml", "x");
    ck_assert_msg(!second && has(second.error(), "pod.yaml:7"), "%s", second.error().c_str());
    const auto other = read_manifest("kind: Service\n", "svc.yaml", "x");
    ck_assert(!other && has(other.error(), "no Pod") && has(other.error(), "Service"));
    ck_assert(!read_manifest("a: [", "x.yaml", "x"));
    ck_assert(!read_manifest("kind: Pod\nspec: 3\n", "x.yaml", "x"));
    ck_assert(!read_manifest("kind: Job\nmetadata: {name: x}\n", "x.yaml", "x"));
    ck_assert(!read_manifest("", "x.yaml", "x"));
}
END_TEST

START_TEST(what_starts_at_once_says_where) {
    const DryRun run = a_run();
    ck_assert_text(outlook(run).verdict, "now");
    ck_assert_text(outlook(run).summary, "Pod team-a/train would start at once on n1.");
    const std::string text = to_text(run);
    ck_assert(has(text, "  per pod     2 CPUs, 2 GiB, gpu:2\n"));
    ck_assert(has(text, "sbatch --partition=main --nodes=1 --ntasks=1 --cpus-per-task=2 --mem=2048M --gres=gpu:2\n"));
    ck_assert(has(text, "What to do: Create it: kubectl apply -f pod.yaml."));
}
END_TEST

START_TEST(what_starts_later_says_when_and_what_must_go) {
    DryRun run = a_run();
    run.parts[0].answer->start = now + 600;
    run.parts[0].answer->preempts = {7};
    ck_assert_text(outlook(run).verdict, "later");
    ck_assert(has(outlook(run).summary, "(in 10 min)") && has(outlook(run).summary, "in the place of 1 running job"));
    ck_assert(outlook(run).good());
}
END_TEST

START_TEST(what_slurm_refuses_is_told_with_what_to_change) {
    DryRun run = a_run();
    run.parts[0].answer.reset();
    run.parts[0].problem = "Requested node configuration is not available";
    ck_assert_text(outlook(run).verdict, "never");
    ck_assert(has(outlook(run).advice, "ask for fewer CPUs") && !outlook(run).good());
}
END_TEST

START_TEST(what_berth_refuses_and_what_it_never_sees) {
    DryRun run = a_run();
    run.refused = "no tenant";
    ck_assert_text(outlook(run).verdict, "refused");
    run = a_run();
    run.scheduler = "default-scheduler";
    ck_assert_text(outlook(run).verdict, "other_scheduler");
    ck_assert(has(outlook(run).advice, "spec.schedulerName: slurm-bridge-scheduler"));
}
END_TEST

START_TEST(json_has_the_documented_keys) {
    const std::string json = to_json(a_run()).text();
    for (const char *key : {"\"workload\":\"Pod team-a/train\"", "\"verdict\":\"now\"", "\"parts\":[{\"user\":\"alice\"",
                            "\"cpus_per_pod\":2", "\"memory_mib_per_pod\":2048", "\"gres_per_pod\":\"gpu:2\"",
                            "\"start\":\"2026-11-16T12:00:00Z\"", "\"nodes\":\"n1\"", "\"problem\":\"\"", "\"notes\":[]", "\"advice\":"})
        ck_assert_msg(has(json, key), "%s is not in %s", key, json.c_str());
}
END_TEST

int main() {
    return test::run_suite(
        "forecast",
        {a_pod_is_read_as_the_api_would_give_it, a_job_gives_its_template_and_itself, a_pod_group_in_the_file_makes_a_gang,
         mistakes_are_told_with_file_and_line, what_starts_at_once_says_where, what_starts_later_says_when_and_what_must_go,
         what_slurm_refuses_is_told_with_what_to_change, what_berth_refuses_and_what_it_never_sees, json_has_the_documented_keys});
}
