#include "agent/controller/notices.h"

#include <set>
#include <vector>

#include "test/unit/suite.h"

using namespace berth;

namespace {

// Keeps what is asked until the test answers.
struct Asked : kube::Http {
    std::vector<std::pair<kube::Request, Done>> open;
    std::size_t asked = 0;

    void send(kube::Request request, Done done) override {
        ++asked;
        open.emplace_back(std::move(request), std::move(done));
    }
    std::unique_ptr<kube::Stream> stream(kube::Request, std::chrono::seconds, std::function<void(std::string_view)>, Done) override {
        return nullptr;
    }
    bool reachable() const override { return true; }

    // The oldest; what it said.
    std::string answer(int status) {
        auto [request, done] = std::move(open.front());
        open.erase(open.begin());
        kube::Response response;
        response.status = status;
        done(response);
        return request.body;
    }
};

struct Scene {
    Loop loop;
    Asked http;
    kube::Api api{http, "berth-controller", "here"};
    Notices notices{loop, api, 4};

    void write(const std::string &uid, const std::string &message) {
        notices.write({"n", "pod-" + uid, uid}, {"PodScheduled", "False", "Unschedulable", message});
    }
};

bool says(const std::string &body, std::string_view word) { return body.find(word) != std::string::npos; }

}  // namespace

START_TEST(a_few_are_written_at_a_time_and_all_in_the_end) {
    Scene s;
    for (int i = 0; i < 100; ++i)
        s.write(std::to_string(i), "waits");
    ck_assert_uint_eq(s.http.open.size(), 4);
    for (int i = 0; i < 100; ++i)
        ck_assert(says(s.http.answer(i % 3 == 0 ? 404 : 200), "pod-" + std::to_string(i) + "\""));
    ck_assert_uint_eq(s.http.asked, 100);
    ck_assert_uint_eq(s.notices.waiting(), 0);
}
END_TEST

START_TEST(of_one_pod_only_the_last_is_written_and_never_two_at_once) {
    Scene s;
    s.write("a", "first");
    s.write("a", "second");
    s.write("a", "third");
    ck_assert_uint_eq(s.http.open.size(), 1);
    ck_assert(says(s.http.answer(200), "first"));
    ck_assert_uint_eq(s.http.open.size(), 1);
    ck_assert(says(s.http.answer(200), "third"));
    ck_assert_uint_eq(s.http.asked, 2);
}
END_TEST

START_TEST(a_pod_that_has_its_place_is_told_nothing_more) {
    Scene s;
    for (const char *uid : {"a", "b", "c", "d", "e"})
        s.write(uid, "waits");
    s.notices.drop("e");
    for (int i = 0; i < 4; ++i)
        s.http.answer(200);
    ck_assert(s.http.open.empty() && s.http.asked == 4);
    // Dropped, and told something else, while the first is on its way.
    s.write("f", "old");
    s.write("f", "older news");
    s.notices.drop("f");
    s.write("f", "new");
    ck_assert_uint_eq(s.http.open.size(), 1);
    s.http.answer(200);
    ck_assert(says(s.http.answer(200), "new"));
    // Nor is a write that failed tried again for it.
    s.write("g", "waits");
    s.notices.drop("g");
    s.http.answer(503);
    ck_assert_uint_eq(s.notices.waiting(), 0);
}
END_TEST

START_TEST(a_server_that_is_busy_is_asked_by_one_until_it_takes_them) {
    Scene s;
    for (int i = 0; i < 50; ++i)
        s.write(std::to_string(i), "waits");
    for (const int status : {429, 0, 500, 503})
        s.http.answer(status);
    ck_assert(s.http.open.empty());
    s.write("0", "later");  // takes the place of what failed
    ck_assert(s.http.open.empty());
    s.loop.run_until([&] { return !s.http.open.empty(); });
    ck_assert_uint_eq(s.http.open.size(), 1);
    std::set<std::string> told;
    bool later = false;
    while (!s.http.open.empty()) {
        const std::string body = s.http.answer(200);
        told.insert(body);
        later = later || says(body, "later");
    }
    ck_assert_uint_eq(told.size(), 50);
    ck_assert(later);
}
END_TEST

START_TEST(what_the_server_refuses_for_good_is_dropped_and_holds_up_nobody) {
    Scene s;
    for (int i = 0; i < 12; ++i)
        s.write(std::to_string(i), "waits");
    for (const int status : {400, 403, 413, 422})
        s.http.answer(status);
    ck_assert_uint_eq(s.http.open.size(), 4);
    for (int i = 4; i < 12; ++i)
        ck_assert(says(s.http.answer(200), "pod-" + std::to_string(i) + "\""));
    ck_assert(s.http.open.empty() && s.notices.waiting() == 0);
    // What is new may be taken.
    s.write("0", "first");
    s.write("0", "second");
    s.http.answer(422);
    ck_assert(says(s.http.answer(200), "second"));
    // Credentials that are being renewed are nobody's fault.
    s.write("0", "third");
    s.http.answer(401);
    ck_assert(s.http.open.empty() && s.notices.waiting() == 1);
}
END_TEST

int main() {
    return berth::test::run_suite("notices", {a_few_are_written_at_a_time_and_all_in_the_end, of_one_pod_only_the_last_is_written_and_never_two_at_once,
                                              a_pod_that_has_its_place_is_told_nothing_more, a_server_that_is_busy_is_asked_by_one_until_it_takes_them,
                                              what_the_server_refuses_for_good_is_dropped_and_holds_up_nobody});
}
