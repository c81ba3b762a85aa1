// Gangs: memberships and their pods -> one Placeholder for each shape.
#include "agent/translate/placeholder.h"
#include "agent/translate/table_test.h"

using namespace berth;
using namespace berth::test;

namespace {

// So many pods of one template.
struct Some {
    std::size_t count = 1;
    std::int64_t cpu_milli = 0, memory_bytes = 0;
    std::vector<std::pair<std::string, std::int64_t>> extended;
    Words annotations;
    std::string service_account = "default";
    std::string priority_class;
    std::int64_t priority = 0;
    std::int64_t deadline = 0;
};

struct Ask {
    std::vector<Some> pods;
    std::vector<Words> owners;  // outermost first
    std::uint32_t size = 0;     // 0: as many as there are pods
    std::string kind = "Job", name = "ring";
    std::optional<kube::Resources> least;
    std::int64_t deadline = 0;
    std::string ns = "science";
};

Result<std::vector<std::uint32_t>> jobs_of(const std::string &, const std::string &kind, const std::string &name) {
    if (kind == "Job" && name == "prepare")
        return std::vector<std::uint32_t>{12};
    return Error{"it is not known"};
}

Result<std::vector<Shape>> translate(const Ask &ask, const Config &config = make_config()) {
    std::vector<kube::Pod> pods;
    for (const Some &some : ask.pods)
        for (std::size_t i = 0; i < some.count; i++) {
            kube::Pod pod;
            pod.ns = ask.ns;
            pod.name = fmt::format("ring-{}", pods.size());
            pod.uid = fmt::format("u{}", pods.size());
            pod.service_account = some.service_account;
            pod.priority_class = some.priority_class;
            pod.priority = some.priority;
            pod.active_deadline_seconds = some.deadline;
            pod.need = {some.cpu_milli, some.memory_bytes, some.extended};
            pod.annotations = annotations(some.annotations);
            pods.push_back(std::move(pod));
        }
    Membership m;
    m.kind = ask.kind;
    m.ns = ask.ns;
    m.name = ask.name;
    m.gang = true;
    m.size = ask.size > 0 ? ask.size : static_cast<std::uint32_t>(pods.size());
    m.min_resources = ask.least;
    m.active_deadline_seconds = ask.deadline;
    m.created = kNow - 60;
    for (const Words &owner : ask.owners)
        m.layers.push_back(annotations(owner));
    m.layers.push_back(pods.front().annotations);
    std::vector<const kube::Pod *> members;
    for (const kube::Pod &pod : pods)
        members.push_back(&pod);
    return berth::translate(m, members, Site{config, identities, {}, jobs_of, kNow});
}

// The shapes, one after the other; those of namespace science without what is the same for all.
std::string shown(const std::vector<Shape> &shapes) {
    std::string out;
    for (const Shape &shape : shapes) {
        std::string line = berth::test::shown(shape.placeholder, "ring");
        for (const std::string &usual : {std::string("1001.2001 "), kPlaces})
            if (const std::size_t at = line.find(usual); at != std::string::npos)
                line.erase(at, usual.size());
        out += (out.empty() ? "" : " : ") + line;
    }
    return out;
}

struct Accepted {
    Ask ask;
    std::string expected;
};
struct Refused {
    Ask ask;
    std::vector<std::string> words;
};

void check_accepted(const std::vector<Accepted> &rows) {
    for (std::size_t i = 0; i < rows.size(); i++) {
        const auto got = translate(rows[i].ask);
        ck_assert_msg(got.ok(), "row %zu (%s) is refused: %s", i, rows[i].expected.c_str(), got ? "" : got.error().c_str());
        ck_assert_msg(shown(*got) == rows[i].expected, "row %zu:\n got      %s\n expected %s", i, shown(*got).c_str(),
                      rows[i].expected.c_str());
    }
}

void check_refused(const std::vector<Refused> &rows) {
    for (std::size_t i = 0; i < rows.size(); i++) {
        const auto got = translate(rows[i].ask);
        ck_assert_msg(!got.ok(), "row %zu (%s) is accepted: %s", i, rows[i].words[0].c_str(), got ? shown(*got).c_str() : "");
        check_refusal(i, got.error(), rows[i].words);
    }
}

START_TEST(a_gang_of_one_template_is_one_shape) {
    check_accepted({
        {{{{8}}}, "c1 m512 8x on 1-0"},
        {{{{1}}}, "c1 m512 1x on 1-0"},
        {{{{2, 1000, 100 * kMi}}}, "c1 m100 2x on 1-0"},
        {{{{200, 1500}}}, "c2 m512 200x on 1-0"},
        {{{{4, 0, 0, {{"nvidia.com/gpu", 2}}}}}, "c1 m512 gpu=2 4x on 1-0"},
        {{{{4, 0, 0, {{"example.com/a100", 1}, {"example.com/h100", 1}}}}}, "c1 m512 gpu:a100=1 gpu:h100=1 4x on 1-0"},
        {{{{3, 0, 0, {{"example.com/matlab", 2}}}}}, "c1 m512 lic=matlab:6 3x on 1-0"},
        {{{{3, 0, 0, {{"example.com/scratch", 5 * kMi}}}}}, "c1 m512 disk5 3x on 1-0"},
        {{{{8}}, {}, 5}, "c1 m512 5x on 1-0"},
        {{{{3}}, {}, 5}, "c1 m512 3x on 1-0"},
        {{{{2}}, {}, 0, "LeaderWorkerSet", "foo-1"}, "c1 m512 name=foo-1 2x on 1-0"},
        {{{{2}}, {{{"job-name", "big run"}}}}, "c1 m512 name=big run 2x on 1-0"},
    });
}
END_TEST

START_TEST(nodes_of_a_gang_may_be_bounded) {
    check_accepted({
        {{{{4}}, {{{"min-nodes", "2"}, {"max-nodes", "4"}}}}, "c1 m512 4x on 2-4"},
        {{{{4}}, {{{"min-nodes", "4"}}}}, "c1 m512 4x on 4-0"},
        {{{{4}}, {{{"max-nodes", "1"}}}}, "c1 m512 4x on 1-1"},
        {{{{2}}, {{{"max-nodes", "9"}}}}, "c1 m512 2x on 1-9"},
        {{{{4}}, {{{"+spread", "true"}}}}, "c1 m512 spread 4x on 1-0"},
        {{{{4}}, {{{"+spread", "1"}}}}, "c1 m512 per-node1 4x on 1-0"},
        {{{{4}}, {{{"+pack", "true"}}}}, "c1 m512 pack 4x on 1-0"},
        {{{{4}}, {{{"exclusive", "true"}, {"+switches", "1@1h"}}}}, "c1 m512 exclusive switches1@3600 4x on 1-0"},
    });
    check_refused({
        {{{{4}}, {{{"min-nodes", "5"}}}}, {"slurmjob.slinky.slurm.net/min-nodes: \"5\"", "4 pods", "1 to 4"}},
        {{{{4}}, {{{"min-nodes", "3"}, {"max-nodes", "2"}}}}, {"max-nodes: \"2\"", "below min-nodes", "3 or more"}},
        {{{{4}}, {{{"min-nodes", "0"}}}}, {"min-nodes: \"0\"", "from 1"}},
        {{{{4}}, {{{"max-nodes", "foo"}}}}, {"max-nodes: \"foo\"", "whole number"}},
        {{{{1, 4000}, {3}}, {{{"min-nodes", "2"}}}}, {"min-nodes: \"2\"", "2 different sizes"}},
        {{{{1, 4000}, {3}}, {{{"max-nodes", "2"}}}}, {"max-nodes: \"2\"", "2 different sizes"}},
    });
}
END_TEST

START_TEST(outer_annotations_win) {
    check_accepted({
        {{{{2, 0, 0, {}, {{"qos", "high"}}}}}, "c1 m512 acct=physics part=batch qos=high 2x on 1-0"},
        {{{{2, 0, 0, {}, {{"timelimit", "30"}}}}, {{{"timelimit", "60"}}}}, "c1 m512 t60 2x on 1-0"},
        {{{{2, 0, 0, {}, {{"timelimit", "30"}}}}, {{{"timelimit", ""}}}}, "c1 m512 t30 2x on 1-0"},
        {{{{2, 0, 0, {}, {{"timelimit", "30"}}}}, {{}, {{"timelimit", "45"}}}}, "c1 m512 t45 2x on 1-0"},
        {{{{2}}, {{{"timelimit", "10"}}, {{"timelimit", "20"}}}}, "c1 m512 t10 2x on 1-0"},
        {{{{2}}, {{{"timelimit", "10"}}, {{"+nice", "3"}}}}, "c1 m512 t10 nice3 2x on 1-0"},
        {{{{2, 1000}}, {{{"cpu-per-task", "4"}}}}, "c4 m512 2x on 1-0"},
        {{{{2, 0, 0, {}, {{"cpu-per-task", "2"}}}}, {{{"cpu-per-task", "4"}}}}, "c4 m512 2x on 1-0"},
        {{{{2, 0, 0, {{"nvidia.com/gpu", 1}}}}, {{{"gres", "gpu:a100:1"}}}}, "c1 m512 gpu:a100=1 2x on 1-0"},
        {{{{2}}, {{{"+dependency", "afterok:prepare"}}}}, "c1 m512 dep=afterok:12 2x on 1-0"},
        {{{{2, 0, 0, {}, {{"+nonce", "a"}}}, {1, 0, 0, {}, {{"+nonce", "b"}, {"+slot", "0.2"}}}}}, "c1 m512 3x on 1-0"},
        {{{{1, 0, 0, {}, {{"partition", "gpu"}}}, {1}}, {{{"partition", "batch"}}}}, "c1 m512 2x on 1-0"},
    });
    check_refused({
        {{{{2, 2000}}, {{{"cpu-per-task", "1"}}}}, {"cpu-per-task: \"1\"", "2 or more"}},
        {{{{2}}, {{{"account", "biology"}}}}, {"account: \"biology\"", "physics, chemistry"}},
        {{{{2, 0, 0, {}, {{"timelimit", "30"}}}}, {{{"timelimit", "foo"}}}}, {"timelimit: \"foo\""}},
        {{{{2}}, {{{"+nise", "3"}}}}, {"berth.dev/nise is unknown"}},
        {{{{2}, {1, 0, 0, {}, {{"timelimit", "foo"}}}}}, {"timelimit: \"foo\""}},
        {{{{1, 0, 0, {}, {{"partition", "gpu"}}}, {1}}}, {"partition is \"gpu\" on pod ring-0 and \"\" on pod ring-1", "one value"}},
        {{{{1}, {1, 0, 0, {}, {{"+comment", "x"}}}}}, {"berth.dev/comment is \"\" on pod ring-0 and \"x\" on pod ring-1"}},
        {{{{2}}, {{{"+dependency", "afterok:Pod/x"}}}}, {"waits for Pod science/x"}},
    });
}
END_TEST

START_TEST(pods_of_different_sizes_are_different_shapes) {
    check_accepted({
        {{{{1, 4000}, {3, 1000}}}, "c4 m512 1x on 1-0 : c1 m512 3x on 1-0"},
        {{{{1, 1000}, {3, 4000}}}, "c1 m512 1x on 1-0 : c4 m512 3x on 1-0"},
        {{{{1, 1000}, {2, 4000}, {1, 1000}}}, "c1 m512 2x on 1-0 : c4 m512 2x on 1-0"},
        {{{{1}, {2, 0, 0, {{"nvidia.com/gpu", 8}}}}}, "c1 m512 1x on 1-0 : c1 m512 gpu=8 2x on 1-0"},
        {{{{1, 0, kMi}, {1, 0, 2 * kMi}, {1, 0, 3 * kMi}}}, "c1 m1 1x on 1-0 : c1 m2 1x on 1-0 : c1 m3 1x on 1-0"},
        // Natural sizes that round to the same are the same.
        {{{{1, 1100}, {1, 1900}}}, "c2 m512 2x on 1-0"},
        // What an owner says lifts both, and they stay apart as nodes see them.
        {{{{1, 1000}, {1, 2000}}, {{{"cpu-per-task", "4"}}}}, "c4 m512 1x on 1-0 : c4 m512 1x on 1-0"},
        {{{{1, 0, 0, {}, {{"cpu-per-task", "2"}}}, {1, 0, 0, {}, {{"cpu-per-task", "3"}}}}}, "c2 m512 1x on 1-0 : c3 m512 1x on 1-0"},
        {{{{1, 2000, 0, {}, {{"partition", "gpu"}}}, {1}}}, "c2 m512 acct=physics part=gpu qos=normal 1x on 1-0 : c1 m512 1x on 1-0"},
        {{{{1, 2000}, {1}}, {{{"licenses", "matlab:1"}}}}, "c2 m512 lic=matlab:1 1x on 1-0 : c1 m512 1x on 1-0"},
        {{{{1, 2000}, {5}}, {}, 3}, "c2 m512 1x on 1-0 : c1 m512 2x on 1-0"},
        {{{{1, 0, 0, {{"example.com/scratch", kMi}}}, {1, 0, 0, {{"example.com/scratch", 3 * kMi}}}}}, "c1 m512 disk3 2x on 1-0"},
    });
    check_refused({
        {{{{1, 2000, 0, {}, {{"cpu-per-task", "1"}}}, {1}}, {{{"cpu-per-task", "4"}}}}, {"cpu-per-task: \"1\"", "2 or more"}},
        {{{{1}, {1, 0, 0, {{"example.com/fpga", 1}}}}}, {"1 of example.com/fpga"}},
    });
    const auto shapes = translate({{{1, 4000}, {2, 1000}, {1, 4000}}});
    ck_assert(shapes.ok());
    ck_assert_uint_eq(shapes->size(), 2);
    ck_assert_text((*shapes)[0].name, "4c 512m");
    ck_assert((*shapes)[0].pod_uids == (std::vector<std::string>{"u0", "u3"}));
    ck_assert_text((*shapes)[1].name, "1c 512m");
    ck_assert((*shapes)[1].pod_uids == (std::vector<std::string>{"u1", "u2"}));
    ck_assert_text((*shapes)[0].placeholder.comment, "Job science/ring: 4 pods");
}
END_TEST

START_TEST(comments_tell_people_what_the_job_is) {
    ck_assert_text(translate({{{8}}})->front().placeholder.comment, "Job science/ring: 8 pods");
    ck_assert_text(translate({{{1}}})->front().placeholder.comment, "Job science/ring: 1 pod");
    ck_assert_text(translate({{{2}}, {{{"+comment", "night run"}}}, 0, "PodGroup"})->front().placeholder.comment,
                   "PodGroup science/ring: 2 pods: night run");
}
END_TEST

START_TEST(min_resources_are_reached_and_the_leader_is_left_alone) {
    const auto least = [](std::int64_t cpu_milli, std::int64_t bytes, std::vector<Some> pods) {
        Ask ask{std::move(pods)};
        ask.kind = "PodGroup";
        ask.least = kube::Resources{cpu_milli, bytes, {}};
        return ask;
    };
    check_accepted({
        {least(4000, 0, {{4, 1000}}), "c1 m512 4x on 1-0"},
        {least(8000, 0, {{4, 1000}}), "c2 m512 4x on 1-0"},
        {least(4001, 0, {{4, 1000}}), "c2 m512 4x on 1-0"},
        {least(9000, 0, {{4, 1000}}), "c3 m512 4x on 1-0"},
        {least(1000, 0, {{4, 2000}}), "c2 m512 4x on 1-0"},
        {least(0, 4096 * kMi, {{4, 1000}}), "c1 m1024 4x on 1-0"},
        {least(0, 4096 * kMi + 1, {{4, 1000}}), "c1 m1025 4x on 1-0"},
        {least(0, 1, {{4, 1000}}), "c1 m512 4x on 1-0"},
        {least(0, 0, {{4, 1000}}), "c1 m512 4x on 1-0"},
        {least(10000, 0, {{1, 2000}, {2, 1000}}), "c2 m512 1x on 1-0 : c4 m512 2x on 1-0"},
        {least(20000, 0, {{5, 1000}, {1, 2000}, {2, 3000}}), "c1 m512 5x on 1-0 : c2 m512 1x on 1-0 : c7 m512 2x on 1-0"},
        {least(0, 3000 * kMi, {{1, 2000}, {2, 1000}}), "c2 m512 1x on 1-0 : c1 m1244 2x on 1-0"},
    });
    check_refused({{least(65534000, 0, {{1, 1000}}), {"minResources", "65534 CPUs", "65533"}}});
}
END_TEST

START_TEST(deadlines_of_job_and_pods_bound_the_time) {
    const auto within = [](std::int64_t job, std::vector<Some> pods, std::vector<Words> owners = {}) {
        Ask ask{std::move(pods), std::move(owners)};
        ask.deadline = job;
        return ask;
    };
    Some hurried{2}, calm{2}, free{1};
    hurried.deadline = 61;
    calm.deadline = 600;
    check_accepted({
        {within(90, {{2}}), "c1 m512 t2 2x on 1-0"},
        {within(0, {{2}}), "c1 m512 2x on 1-0"},
        {within(3600, {hurried}), "c1 m512 t60 2x on 1-0"},
        {within(0, {hurried}), "c1 m512 t2 2x on 1-0"},
        {within(0, {hurried, calm}), "c1 m512 t10 4x on 1-0"},
        {within(0, {hurried, free}), "c1 m512 3x on 1-0"},
        {within(3600, {{2}}, {{{"timelimit", "30"}}}), "c1 m512 t30 2x on 1-0"},
        {within(600, {{2}}, {{{"timelimit", "30"}}}), "c1 m512 t10 2x on 1-0"},
        {within(0, {{2}}, {{{"timelimit", "1w"}}}), "c1 m512 t10080 2x on 1-0"},
    });
}
END_TEST

START_TEST(a_gang_is_one_tenant_and_one_class) {
    Some meek{1}, urgent{1}, patient{1};
    urgent.priority_class = "urgent";
    urgent.priority = 1000;
    patient.priority_class = "patient";
    patient.priority = 10;
    check_accepted({
        {{{meek, urgent, patient}}, "c1 m512 acct=physics part=batch qos=high 3x on 1-0"},
        {{{meek, patient}}, "c1 m512 nice500 2x on 1-0"},
        {{{urgent, patient}, {{{"qos", "normal"}}}}, "c1 m512 2x on 1-0"},
    });
    Config config = make_config();
    TenantConfig robot = config.tenants[0];
    robot.service_account = "robot";
    robot.user = "bob";
    config.tenants.insert(config.tenants.begin(), robot);
    Some machine{1};
    machine.service_account = "robot";
    ck_assert(translate({{machine}}, config)->front().placeholder.uid == 1002);
    const auto mixed = translate({{meek, machine}}, config);
    ck_assert(!mixed.ok());
    check_refusal(0, mixed.error(), {"science/ring-0", "science/ring-1", "different tenants", "one tenant"});
    Ask elsewhere{{{2}}};
    elsewhere.ns = "elsewhere";
    check_refused({{elsewhere, {"no tenant entry", "elsewhere"}}});
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite(
        "gang", {a_gang_of_one_template_is_one_shape, nodes_of_a_gang_may_be_bounded, outer_annotations_win,
                 pods_of_different_sizes_are_different_shapes, comments_tell_people_what_the_job_is,
                 min_resources_are_reached_and_the_leader_is_left_alone, deadlines_of_job_and_pods_bound_the_time,
                 a_gang_is_one_tenant_and_one_class});
}
