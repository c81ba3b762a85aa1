#include "agent/controller/pod_groups.h"

#include <vector>

#include "test/unit/suite.h"

using namespace berth;

namespace {

// Keeps what is asked until the test answers.
struct Asked : kube::Http {
    std::vector<std::pair<kube::Request, Done>> calls;

    void send(kube::Request request, Done done) override { calls.emplace_back(std::move(request), std::move(done)); }
    std::unique_ptr<kube::Stream> stream(kube::Request, std::chrono::seconds, std::function<void(std::string_view)>, Done) override {
        return nullptr;
    }
    bool reachable() const override { return true; }

    void answer(int status) {
        kube::Response response;
        response.status = status;
        const auto done = calls.back().second;
        done(response);
    }
    bool last_says(std::string_view word) const { return !calls.empty() && calls.back().first.body.find(word) != std::string::npos; }
};

struct Scene {
    Loop loop;
    Asked http;
    kube::Api api{http, "berth-controller", "here"};
    PodGroups groups{loop, api};

    explicit Scene(const std::string &version, const std::string &condition = "") {
        auto object = std::make_shared<kube::Object>();
        object->api_version = "scheduling.k8s.io/" + version;
        object->kind = "PodGroup";
        object->ns = "n";
        object->name = object->uid = "g";
        object->min_member = 2;
        object->condition_status = condition;
        groups.on_group(object, false);
    }
    void waits(const std::string &message) { groups.tell_condition("g", false, "Unschedulable", message); }
};

}  // namespace

START_TEST(phase_follows_the_pods_through_the_groups_life) {
    struct Row {
        GroupView view;
        const char *before, *now;
    };
    const Row rows[] = {
        // pods, bound, running, succeeded, failed, min, submitted
        {{0, 0, 0, 0, 0, 3, false}, "", "Pending"},
        {{2, 0, 0, 0, 0, 3, false}, "Pending", "PreScheduling"},
        {{3, 0, 0, 0, 0, 3, false}, "PreScheduling", "PreScheduling"},
        {{3, 0, 0, 0, 0, 3, true}, "PreScheduling", "Scheduling"},
        {{2, 0, 0, 0, 0, 3, true}, "Scheduling", "Scheduling"},  // a member is being replaced while the gang waits
        {{3, 2, 1, 0, 0, 3, true}, "Scheduling", "Scheduling"},
        {{3, 3, 0, 0, 0, 3, true}, "Scheduling", "Scheduled"},
        {{3, 3, 2, 0, 0, 3, true}, "Scheduled", "Scheduled"},
        {{3, 3, 3, 0, 0, 3, true}, "Scheduled", "Running"},
        {{5, 3, 3, 0, 0, 3, true}, "Running", "Running"},  // late members
        {{3, 3, 1, 2, 0, 3, true}, "Running", "Running"},
        {{2, 2, 2, 0, 0, 3, true}, "Running", "Unknown"},
        {{3, 3, 3, 0, 0, 3, true}, "Unknown", "Running"},
        {{3, 3, 0, 3, 0, 3, true}, "Running", "Finished"},
        {{3, 3, 0, 3, 0, 3, false}, "Finished", "Finished"},
        {{0, 0, 0, 0, 0, 3, false}, "Finished", "Finished"},
        {{4, 4, 0, 3, 1, 3, true}, "Running", "Finished"},
        {{3, 3, 2, 0, 1, 3, true}, "Running", "Failed"},
        {{4, 4, 3, 0, 1, 3, true}, "Failed", "Running"},  // the failed one was replaced
        {{0, 0, 0, 0, 0, 3, false}, "Failed", "Failed"},
        {{0, 0, 0, 0, 0, 3, false}, "Running", "Pending"},
        {{3, 0, 0, 0, 0, 3, true}, "Finished", "Scheduling"},  // pods come to a group that was over
        {{3, 0, 0, 0, 0, 3, false}, "Scheduling", "PreScheduling"},  // rejected: its time to start was over
    };
    for (const Row &row : rows) {
        const std::string phase = phase_of(row.view, row.before);
        ck_assert_str_eq(phase.c_str(), row.now);
    }
}
END_TEST

START_TEST(one_condition_is_written_at_a_time_and_the_last_word_stays) {
    Scene scene("v1alpha2");
    scene.waits("first");
    scene.waits("second");
    scene.groups.on_state("g", State::docked);
    ck_assert_uint_eq(scene.http.calls.size(), 1);
    scene.http.answer(200);
    ck_assert_uint_eq(scene.http.calls.size(), 2);
    ck_assert(scene.http.last_says(R"("PodGroupScheduled","status":"True")") && scene.http.last_says("lastTransitionTime"));
    scene.http.answer(500);
    scene.groups.on_state("g", State::docked);
    ck_assert_uint_eq(scene.http.calls.size(), 3);
    scene.http.answer(200);
    scene.groups.on_state("g", State::docked);
    ck_assert_uint_eq(scene.http.calls.size(), 3);
}
END_TEST

START_TEST(group_that_was_removed_while_its_condition_was_written_is_forgotten) {
    Scene scene("v1beta1");
    scene.waits("long");
    auto object = std::make_shared<kube::Object>();
    object->kind = "PodGroup";
    object->uid = "g";
    scene.groups.on_group(object, true);
    scene.groups.on_pod("g", {});
    scene.http.answer(500);
    ck_assert_uint_eq(scene.http.calls.size(), 1);
}
END_TEST

START_TEST(others_of_the_group_do_not_change_what_is_said_of_a_gang_that_runs) {
    Scene scene("v1alpha2");
    scene.groups.on_state("g", State::docked);
    scene.http.answer(200);
    scene.waits("a late one");
    ck_assert_uint_eq(scene.http.calls.size(), 1);
    scene.groups.on_state("g", State::over);
    scene.waits("again");
    ck_assert_uint_eq(scene.http.calls.size(), 2);
    ck_assert(scene.http.last_says(R"("False")"));
}
END_TEST

START_TEST(initially_scheduled_is_never_taken_back) {
    for (const char *version : {"v1alpha3", "v1beta1"}) {
        Scene before(version, "True");
        before.waits("again");
        ck_assert_uint_eq(before.http.calls.size(), 0);
        Scene now(version, "False");
        now.groups.on_state("g", State::docked);
        ck_assert(now.http.last_says(R"("PodGroupInitiallyScheduled","status":"True")"));
        now.http.answer(200);
        now.groups.on_state("g", State::over);
        now.waits("again");
        ck_assert_uint_eq(now.http.calls.size(), 1);
    }
    Scene old("v1alpha2", "True");
    old.waits("again");
    ck_assert_uint_eq(old.http.calls.size(), 1);
}
END_TEST

int main() {
    return berth::test::run_suite("pod_groups", {phase_follows_the_pods_through_the_groups_life,
                                                 one_condition_is_written_at_a_time_and_the_last_word_stays,
                                                 group_that_was_removed_while_its_condition_was_written_is_forgotten,
                                                 others_of_the_group_do_not_change_what_is_said_of_a_gang_that_runs,
                                                 initially_scheduled_is_never_taken_back});
}
