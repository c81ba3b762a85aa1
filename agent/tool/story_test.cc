// The stories of `berth explain`: what each state of a pod is called, and what its reader is told to do.
#include "agent/tool/story.h"

#include "agent/keys.h"
#include "agent/tool/moments.h"
#include "agent/tool/placeholder_search.h"
#include "agent/tool/reasons.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::tool;

namespace {

constexpr std::time_t now = 1794830400;

kube::Pod a_pod() {
    kube::Pod pod;
    pod.ns = "team-a";
    pod.name = "train";
    pod.uid = "u1";
    pod.scheduler_name = "slurm-bridge-scheduler";
    pod.created = now - 60;
    return pod;
}

Case a_case(const kube::Pod &pod = a_pod()) {
    Case facts;
    facts.ns = "team-a";
    facts.name = "train";
    facts.now = now;
    facts.pod = pod;
    facts.scheduler = "slurm-bridge-scheduler";
    facts.tenants_known = true;
    facts.tenant = "alice";
    facts.user = "alice";
    return facts;
}

slurm::QueuedJob a_job(std::uint32_t id, slurm::JobState state, const char *state_name, const char *reason = "None") {
    slurm::QueuedJob job;
    job.id = id;
    job.state = state;
    job.state_name = state_name;
    job.reason = reason;
    job.partition = "main";
    job.submit_time = now - 30;
    job.end_time = state == slurm::JobState::ended ? now - 5 : 0;
    if (state == slurm::JobState::ended)
        job.nodes = "n1";
    job.ticket = Ticket{.cluster = "lab", .ns = "team-a", .kind = "Pod", .name = "train", .uid = "u1", .nonce = "0123456789abcdef"};
    return job;
}

slurm::QueuedJob pending(const char *reason) { return a_job(12, slurm::JobState::pending, "PENDING", reason); }

bool says(const Story &story, std::string_view words) { return to_text(story).find(words) != std::string::npos; }

#define CHECK_STORY(facts, wanted, ...)                                                                  \
    do {                                                                                                 \
        const Story story_ = tell(facts);                                                                \
        ck_assert_text(story_.verdict, wanted);                                                          \
        ck_assert(!story_.summary.empty() && !story_.advice.empty());                                    \
        for (const char *words : {__VA_ARGS__})                                                          \
            ck_assert_msg(says(story_, words), "\"%s\" is not in:\n%s", words, to_text(story_).c_str()); \
    } while (0)

}  // namespace

START_TEST(a_waiting_pod_is_told_reason_start_and_what_is_ahead) {
    Case facts = a_case();
    facts.jobs = {pending("Priority")};
    facts.jobs[0].start_time = now + 480;
    facts.ahead = 3;
    const Story story = tell(facts);
    ck_assert_text(story.verdict, "pending");
    ck_assert_text(story.summary,
                   "Pod team-a/train waits in Slurm's queue: job 12 is pending, jobs of higher priority wait in its partition.");
    ck_assert(says(story, "  tenant     alice in Slurm, by berth.yaml\n"));
    ck_assert(says(story, "  job        12 PENDING, user alice, partition main; waiting for 30 s\n"));
    ck_assert(says(story, "(in 8 min)\n"));
    ck_assert(says(story, "  ahead      3 pending jobs of higher priority in its partition\n"));
    ck_assert(says(story, "\nWhat to do: Wait: jobs of a higher priority go first: sprio -j 12. A shorter"));
}
END_TEST

START_TEST(a_job_that_fits_nowhere_is_no_matter_of_waiting) {
    Case facts = a_case();
    facts.jobs = {pending("PartitionNodeLimit")};
    CHECK_STORY(facts, "never", "cannot start as it is", "Ask for fewer nodes, or for another partition.");
}
END_TEST

START_TEST(a_held_job_names_the_command_that_lets_it_go) {
    Case facts = a_case();
    facts.jobs = {pending("JobHeldUser")};
    CHECK_STORY(facts, "pending", "scontrol release 12.");
}
END_TEST

START_TEST(another_schedulers_pod_is_left_alone) {
    kube::Pod pod = a_pod();
    pod.scheduler_name = "default-scheduler";
    CHECK_STORY(a_case(pod), "other_scheduler", "default-scheduler", "spec.schedulerName: slurm-bridge-scheduler");
}
END_TEST

START_TEST(a_gated_pod_waits_for_its_gates) {
    kube::Pod pod = a_pod();
    pod.gated = true;
    CHECK_STORY(a_case(pod), "gated", "scheduling gates");
}
END_TEST

START_TEST(a_gathering_gang_says_how_many_are_there) {
    kube::Pod pod = a_pod();
    pod.scheduled_status = "False";
    pod.scheduled_reason = "WaitingForGang";
    pod.scheduled_message = "PodGroup team-a/ring waits for its pods: 2 of 8 are there";
    CHECK_STORY(a_case(pod), "gathering", "2 of 8 are there");
}
END_TEST

START_TEST(a_refused_pod_is_told_what_its_condition_says) {
    kube::Pod pod = a_pod();
    pod.scheduled_status = "False";
    pod.scheduled_reason = "Unschedulable";
    pod.scheduled_message = "annotation slurmjob.slinky.slurm.net/partition: \"secret\" is not allowed";
    CHECK_STORY(a_case(pod), "refused", "\"secret\" is not allowed", "Correct what the message names");
}
END_TEST

START_TEST(a_namespace_without_a_tenant_is_told_so) {
    Case facts = a_case();
    facts.tenant.clear();
    CHECK_STORY(facts, "refused", "no tenant in berth.yaml matches namespace team-a");
}
END_TEST

START_TEST(a_pod_that_nobody_touched_asks_for_the_controller) {
    CHECK_STORY(a_case(), "unseen", "Is berthd's controller running");
    kube::Pod young = a_pod();
    young.created = now - 2;
    CHECK_STORY(a_case(young), "unseen", "Wait some seconds");
}
END_TEST

START_TEST(a_job_that_runs_without_its_pod_points_to_the_node) {
    Case facts = a_case();
    facts.jobs = {a_job(12, slurm::JobState::running, "RUNNING")};
    facts.jobs[0].nodes = "n3";
    facts.jobs[0].start_time = now - 2;
    CHECK_STORY(facts, "unbound", "is not bound yet", "Wait some seconds");
    facts.jobs[0].start_time = now - 300;
    CHECK_STORY(facts, "unbound", "the agent on n3");
}
END_TEST

START_TEST(a_bound_pod_runs_or_starts) {
    kube::Pod pod = a_pod();
    pod.node_name = "n1";
    pod.annotations = {{keys::nonce, "0123456789abcdef"}, {keys::job_id, "12"}};
    std::sort(pod.annotations.begin(), pod.annotations.end());
    pod.phase = kube::Phase::running;
    Case facts = a_case(pod);
    facts.jobs = {a_job(12, slurm::JobState::running, "RUNNING")};
    CHECK_STORY(facts, "running", "runs on node n1 in the place of Slurm job 12", "Nothing.");
    facts.jobs[0].state = slurm::JobState::suspended;
    CHECK_STORY(facts, "suspended", "scontrol resume 12");
    facts.jobs[0].state = slurm::JobState::running;
    facts.pod->phase = kube::Phase::pending;
    facts.container_waits = "ImagePullBackOff (main): no such image";
    CHECK_STORY(facts, "starting", "no such image", "Slurm's part is done");
}
END_TEST

START_TEST(a_pod_that_slurm_ended_is_told_how) {
    kube::Pod pod = a_pod();
    pod.node_name = "n1";
    pod.deleting = true;
    Case facts = a_case(pod);
    facts.disruption = "Slurm job 12 ended before its pod: TIMEOUT";
    facts.jobs = {a_job(12, slurm::JobState::ended, "TIMEOUT")};
    CHECK_STORY(facts, "ended", "its time limit was over", "Ask for more time");
}
END_TEST

START_TEST(a_finished_pod_needs_nothing_and_a_failed_one_its_log) {
    kube::Pod pod = a_pod();
    pod.node_name = "n1";
    pod.phase = kube::Phase::succeeded;
    CHECK_STORY(a_case(pod), "finished", "has succeeded", "Nothing.");
    pod.phase = kube::Phase::failed;
    pod.exit_code = 3;
    pod.exit_reason = "Error";
    CHECK_STORY(a_case(pod), "finished", "Error, exit code 3", "kubectl logs -n team-a train");
}
END_TEST

START_TEST(an_absent_pod_may_have_left_a_job) {
    Case facts = a_case();
    facts.pod.reset();
    CHECK_STORY(facts, "absent", "There is no pod team-a/train.", "kubectl get pods -n team-a");
    facts.jobs = {a_job(12, slurm::JobState::ended, "PREEMPTED")};
    CHECK_STORY(facts, "absent", "PREEMPTED", "Create the pod again");
    facts.jobs = {pending("Priority")};
    CHECK_STORY(facts, "absent", "Slurm job 12 holds a place for it");
}
END_TEST

START_TEST(without_slurmctld_the_story_says_so) {
    Case facts = a_case();
    facts.slurm_problem = "asking slurmctld for its jobs: Unable to contact slurm controller";
    CHECK_STORY(facts, "unknown", "Unable to contact", "scontrol ping");
}
END_TEST

START_TEST(the_last_warning_is_told_once) {
    Case facts = a_case();
    facts.jobs = {a_job(12, slurm::JobState::running, "RUNNING")};
    facts.events = {{now - 90, "Warning", "Old", "an old one"},
                    {now - 40, "Warning", "NodeMismatch", "n3 has a taint"},
                    {now, "Normal", "Scheduled", "fine"}};
    CHECK_STORY(facts, "unbound", "NodeMismatch: n3 has a taint (40 s ago)");
    ck_assert(!says(tell(facts), "an old one"));
}
END_TEST

START_TEST(the_placeholder_in_force_is_the_live_one) {
    const kube::Pod pod = a_pod();
    auto earlier = a_job(7, slurm::JobState::ended, "CANCELLED"), other = pending("Priority"), ours = pending("Priority");
    earlier.ticket->nonce = "00000000000000aa";
    other.id = 13;
    other.ticket->uid = "u2";
    other.ticket->nonce = "00000000000000bb";
    ck_assert_int_eq(placeholder_of(pod, "lab", {earlier, other, ours}).size(), 1);
    ck_assert_int_eq(placeholder_of(pod, "lab", {earlier, other, ours})[0].id, 12);
    ck_assert_int_eq(placeholder_of(pod, "lab", {earlier, other})[0].id, 7);
    ck_assert(placeholder_of(pod, "elsewhere", {earlier, ours}).empty());
    auto refused = a_job(14, slurm::JobState::ended, "FAILED");
    refused.nodes.clear();
    ck_assert_int_eq(placeholder_of(pod, "lab", {earlier, refused})[0].id, 7);
    earlier.end_time = pod.created - 1;
    ck_assert(placeholder_of(pod, "lab", {earlier}).empty());
}
END_TEST

START_TEST(a_gangs_placeholder_is_found_by_its_selector) {
    kube::Pod pod = a_pod();
    pod.labels = {{"job-name", "ring"}};
    auto job = pending("Priority");
    job.ticket->kind = "Job";
    job.ticket->name = "ring";
    job.ticket->uid = "owner";
    job.ticket->gang = 8;
    job.ticket->selector = "job-name=ring";
    auto second = job;
    second.id = 13;
    ck_assert_int_eq(placeholder_of(pod, "", {second, job}).size(), 2);
    Case facts = a_case(pod);
    facts.jobs = {job};
    CHECK_STORY(facts, "pending", "Job team-a/ring, 8 pods that start together");
    pod.labels = {{"job-name", "other"}};
    ck_assert(placeholder_of(pod, "", {job}).empty());
}
END_TEST

START_TEST(json_has_the_documented_keys) {
    Case facts = a_case();
    facts.jobs = {pending("Priority")};
    const std::string json = to_json(tell(facts), facts).text();
    for (const char *key : {"\"pod\":\"team-a/train\"", "\"verdict\":\"pending\"", "\"summary\":", "\"node\":\"\"", "\"jobs\":[{\"id\":12,",
                            "\"ahead\":0", "\"details\":[{\"name\":\"scheduler\"", "\"start\":null", "\"advice\":\""})
        ck_assert_msg(json.find(key) != std::string::npos, "%s is not in %s", key, json.c_str());
}
END_TEST

START_TEST(ahead_counts_higher_priorities_of_the_same_partition) {
    auto job = pending("Priority"), high = job, equal = job, elsewhere = job, running = job;
    job.priority = equal.priority = 10;
    high.priority = elsewhere.priority = running.priority = 20;
    high.id = 1;
    equal.id = 2;
    elsewhere.id = 3;
    running.id = 4;
    high.partition = "other,main";
    elsewhere.partition = "mainly";
    running.state = slurm::JobState::running;
    ck_assert_int_eq(slurm::ahead_of(job, {job, high, equal, elsewhere, running}), 1);
}
END_TEST

START_TEST(reasons_that_are_not_listed_are_told_by_their_kind) {
    ck_assert(reason_words("QOSMaxCpuPerUserLimit") == "a limit of its QOS is reached");
    ck_assert(reason_words("AssocGrpCpuLimit") == "a limit of its account or user is reached");
    Case facts = a_case();
    facts.jobs = {pending("SomethingNew")};
    CHECK_STORY(facts, "pending", "JOB REASON CODES");
}
END_TEST

START_TEST(durations_read_like_speech) {
    ck_assert_text(duration_words(-3), "0 s");
    ck_assert_text(duration_words(119), "119 s");
    ck_assert_text(duration_words(120), "2 min");
    ck_assert_text(duration_words(3 * 3600 + 5 * 60), "3 h 5 min");
    ck_assert_text(duration_words(86400), "1 day");
    ck_assert_text(limit_words(0), "no limit");
    ck_assert_text(limit_words(90), "90 min");
    ck_assert_text(mebibyte_words(2048), "2 GiB");
    ck_assert_text(mebibyte_words(1500), "1500 MiB");
}
END_TEST

int main() {
    return test::run_suite("story", {a_waiting_pod_is_told_reason_start_and_what_is_ahead,
                                     a_job_that_fits_nowhere_is_no_matter_of_waiting,
                                     a_held_job_names_the_command_that_lets_it_go,
                                     another_schedulers_pod_is_left_alone,
                                     a_gated_pod_waits_for_its_gates,
                                     a_gathering_gang_says_how_many_are_there,
                                     a_refused_pod_is_told_what_its_condition_says,
                                     a_namespace_without_a_tenant_is_told_so,
                                     a_pod_that_nobody_touched_asks_for_the_controller,
                                     a_job_that_runs_without_its_pod_points_to_the_node,
                                     a_bound_pod_runs_or_starts,
                                     a_pod_that_slurm_ended_is_told_how,
                                     a_finished_pod_needs_nothing_and_a_failed_one_its_log,
                                     an_absent_pod_may_have_left_a_job,
                                     without_slurmctld_the_story_says_so,
                                     the_last_warning_is_told_once,
                                     the_placeholder_in_force_is_the_live_one,
                                     a_gangs_placeholder_is_found_by_its_selector,
                                     json_has_the_documented_keys,
                                     ahead_counts_higher_priorities_of_the_same_partition,
                                     reasons_that_are_not_listed_are_told_by_their_kind,
                                     durations_read_like_speech});
}
