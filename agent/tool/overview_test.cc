// The picture of `berth status`, from fixed input.
#include "agent/tool/overview.h"

#include "agent/keys.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::tool;

namespace {

constexpr std::time_t now = 1794830400;

struct Scene {
    std::vector<slurm::QueueNode> slurm_nodes;
    std::vector<kube::Node> kube_nodes;
    std::vector<slurm::QueuedJob> queue;
    std::vector<kube::Pod> pods;

    Scene() {
        slurm_nodes.push_back({"n1", "mixed", "", true, 8, 3, 16000, 1064, ""});
        slurm_nodes.push_back({"n2", "idle+drain", "berth: bad disk", false, 8, 0, 16000, 0, ""});
        kube_nodes.resize(1);
        kube_nodes[0].name = "n1";
        kube_nodes[0].ready = true;
        job(3, slurm::JobState::running, "n1").name = "native";
        place(job(4, slurm::JobState::running, "n1"), "Pod", "train", "aa", 1);
        auto &waiting = job(5, slurm::JobState::pending, "");
        waiting.reason = "Priority";
        place(waiting, "PodGroup", "ring", "bb", 8);
        bound("train", "aa");
        kube::Pod refused = pod("odd");
        refused.scheduled_status = "False";
        refused.scheduled_message = "no such partition";
        pods.push_back(refused);
        kube::Pod done = pod("done");
        done.phase = kube::Phase::succeeded;
        pods.push_back(done);
    }

    slurm::QueuedJob &job(std::uint32_t id, slurm::JobState state, const char *nodes) {
        slurm::QueuedJob one;
        one.id = id;
        one.state = state;
        one.state_name = state == slurm::JobState::pending ? "PENDING" : "RUNNING";
        one.nodes = nodes;
        one.submit_time = one.start_time = now - 300;
        return queue.emplace_back(one);
    }
    static void place(slurm::QueuedJob &job, const char *kind, const char *name, const char *nonce, std::uint32_t pods) {
        job.ticket = Ticket{.cluster = "lab", .ns = "team-a", .kind = kind, .name = name, .uid = name, .nonce = nonce};
        job.ticket->gang = pods;
    }
    static kube::Pod pod(const char *name) {
        kube::Pod one;
        one.ns = "team-a";
        one.name = one.uid = name;
        one.created = now - 60;
        return one;
    }
    void bound(const char *name, const char *nonce) {
        kube::Pod one = pod(name);
        one.node_name = "n1";
        one.phase = kube::Phase::running;
        one.annotations = {{keys::nonce, nonce}};
        pods.push_back(one);
    }
    Overview overview(const std::string &ns = "") const {
        return make_overview(pair_nodes(slurm_nodes, kube_nodes), queue, pods, "lab", ns);
    }
};

}  // namespace

START_TEST(both_systems_are_in_one_picture) {
    ck_assert_text(to_text(Scene().overview(), now),
                   "NODE  SLURM       CPUS  MEMORY MiB  KUBERNETES  PODS  JOBS  REASON\n"
                   "n1    mixed       3/8   1064/16000  ready       1     1\n"
                   "n2    idle+drain  0/8   0/16000     -           0     0     berth: bad disk\n"
                   "\n"
                   "WORKLOAD      KIND      BOUND  JOB  STATE    SINCE  NODES OR REASON\n"
                   "team-a/odd    Pod       0/1    -    Refused  60 s   no such partition\n"
                   "team-a/ring   PodGroup  0/8    5    PENDING  5 min  Priority\n"
                   "team-a/train  Pod       1/1    4    RUNNING  5 min  n1\n");
}
END_TEST

START_TEST(one_namespace_alone) {
    const Overview overview = Scene().overview("team-b");
    ck_assert(overview.workloads.empty());
    ck_assert(to_text(overview, now).find("No workloads.") != std::string::npos);
}
END_TEST

START_TEST(parts_of_one_placeholder_are_one_row) {
    Scene scene;
    auto &second = scene.job(6, slurm::JobState::running, "n2");
    Scene::place(second, "Pod", "train", "aa", 1);
    const Overview overview = scene.overview();
    ck_assert_int_eq(overview.workloads.size(), 3);
    ck_assert_text(overview.workloads[2].nodes, "n1,n2");
}
END_TEST

START_TEST(a_kubernetes_node_alone_is_shown) {
    Scene scene;
    scene.kube_nodes.emplace_back();
    scene.kube_nodes[1].name = "control";
    scene.kube_nodes[1].unschedulable = true;
    const Overview overview = scene.overview();
    ck_assert_text(overview.nodes[2].name + " " + overview.nodes[2].slurm + " " + overview.nodes[2].kubernetes,
                   "control - not ready, cordoned");
}
END_TEST

START_TEST(what_could_not_be_asked_is_not_guessed) {
    Overview overview = Scene().overview();
    overview.kube_nodes_known = overview.pods_known = false;
    overview.notes = {"Kubernetes was not asked"};
    const std::string text = to_text(overview, now);
    ck_assert(text.find("n1    mixed       3/8   1064/16000  ?           ?     1\n") != std::string::npos);
    ck_assert(text.find("PodGroup  ?/8 ") != std::string::npos && text.find("note: Kubernetes was not asked\n") != std::string::npos);
    ck_assert(to_json(overview).find("\"bound\":null") != std::string::npos);
}
END_TEST

START_TEST(json_has_the_documented_keys) {
    const std::string json = to_json(Scene().overview());
    for (const char *key :
         {"\"nodes\":[{\"name\":\"n1\",\"slurm\":\"mixed\"", "\"cpus\":8,\"cpus_allocated\":3",
          "\"kubernetes\":\"ready\",\"pods\":1,\"native_jobs\":1", "\"workloads\":[{\"namespace\":\"team-a\",\"name\":\"odd\"",
          "\"job\":4,\"state\":\"RUNNING\",\"nodes\":\"n1\"", "\"since\":\"2026-11-16T11:55:00Z\""})
        ck_assert_msg(json.find(key) != std::string::npos, "%s is not in %s", key, json.c_str());
}
END_TEST

int main() {
    return test::run_suite("overview",
                           {both_systems_are_in_one_picture, one_namespace_alone, parts_of_one_placeholder_are_one_row,
                            a_kubernetes_node_alone_is_shown, what_could_not_be_asked_is_not_guessed, json_has_the_documented_keys});
}
