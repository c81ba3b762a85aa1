#include "agent/kube/watch.h"

#include <fmt/core.h>

#include <cstdlib>
#include <optional>
#include <vector>

#include "agent/kube/faulty_server.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::kube;
using test::FaultyServer;
using namespace std::chrono_literals;
using Exchange = FaultyServer::Exchange;

namespace {

std::string pod(std::string_view name, int version) {
    return fmt::format(R"({{"metadata":{{"namespace":"n","name":"{0}","uid":"uid-{0}","resourceVersion":"{1}"}}}})",
                       name, version);
}

std::string event(std::string_view type, std::string_view name, int version) {
    return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, pod(name, version));
}

std::string list(std::initializer_list<std::string> pods, int version, std::string_view next = "") {
    std::string items;
    for (const std::string &p : pods)
        items += (items.empty() ? "" : ",") + p;
    return fmt::format(R"({{"metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})", version, next,
                       items);
}

const char *const gone_event =
    "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"message\":\"too old resource version\"}}\n";

// A server that answers the n-th request with the n-th step, and a watcher whose handlers write down what they hear.
class Scene {
  public:
    using Step = std::function<void(Exchange)>;

    explicit Scene(std::vector<Step> steps)
        : steps_(std::move(steps)), server_(loop, [this](Exchange e) {
              paths.push_back(e.path);
              if (paths.size() <= steps_.size())
                  steps_[paths.size() - 1](e);
          }) {
        http = Http::create(loop, server_.credentials(), {});
    }

    void start(std::string until, std::chrono::seconds idle = 30s, std::chrono::milliseconds backoff = 10ms) {
        until_ = std::move(until);
        WatchOptions options;
        options.path = "/api/v1/pods";
        options.query = "fieldSelector=x%3Dy";
        options.page = 2;
        options.cached = cached;
        options.backoff_first = backoff;
        options.backoff_most = 5 * backoff;
        options.idle = idle;
        options.random = [] {
            return 0.5;
        };
        watcher =
            watch_pods(loop, *http, options,
                       {[this](Pod &&p) { hear("+" + p.name); },
                        [this](Pod &&p, bool last) { hear((last ? "-" : "~") + p.ns + "/" + p.name + "/" + p.uid); },
                        [this] {
                            hear("synced");
                        }});
    }

    bool run_until(std::string until, std::chrono::seconds idle = 30s) {
        start(std::move(until), idle);
        return test::run(loop);
    }

    void hear(const std::string &what) {
        heard += what + " ";
        if (on_hear)
            on_hear(what);
        if (heard == until_)
            loop.quit();
    }

    Loop loop;
    bool cached = false;
    std::string heard;
    std::vector<std::string> paths;
    std::function<void(const std::string &)> on_hear;
    std::unique_ptr<Http> http;
    std::unique_ptr<Watcher> watcher;

  private:
    std::string until_;
    std::vector<Step> steps_;
    FaultyServer server_;
};

Scene::Step answer(std::string body, int status = 200) {
    return [body = std::move(body), status](Exchange e) {
        e.respond(status, body);
    };
}

Scene::Step stream(std::string text, bool end = false) {
    return [text = std::move(text), end](Exchange e) {
        e.begin_stream();
        if (!text.empty())
            e.send(text);
        if (end)
            e.end_stream();
    };
}

#define ck_assert_heard(scene, text) ck_assert_msg((scene).run_until(text), "heard: %s", (scene).heard.c_str())
#define ck_assert_path(scene, n, text) \
    ck_assert_msg((scene).paths.at(n).starts_with(text), "request %d was %s", n, (scene).paths.at(n).c_str())

START_TEST(a_list_in_pages_then_a_watch_from_there) {
    Scene scene({answer(list({pod("a", 1), pod("b", 2)}, 7, "to/k=")), answer(list({pod("c", 3)}, 7)),
                 stream(event("ADDED", "d", 8) + event("MODIFIED", "a", 9) + event("DELETED", "b", 10))});
    ck_assert_heard(scene, "+a +b +c synced +d +a -n/b/uid-b ");
    ck_assert(scene.watcher->synced());
    ck_assert_text(scene.paths[0], "/api/v1/pods?fieldSelector=x%3Dy&limit=2");
    ck_assert_text(scene.paths[1], "/api/v1/pods?fieldSelector=x%3Dy&limit=2&continue=to%2Fk%3D");
    ck_assert_path(
        scene, 2,
        "/api/v1/pods?fieldSelector=x%3Dy&watch=1&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=");
}
END_TEST

const char *const watch_from = "/api/v1/pods?fieldSelector=x%3Dy&watch=1&allowWatchBookmarks=true&resourceVersion=";

START_TEST(a_closed_watch_resumes_from_the_last_version_heard) {
    Scene scene({answer(list({}, 5)),
                 stream(event("ADDED", "a", 6) +
                            "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"40\"}}}\n",
                        true),
                 stream(event("ADDED", "b", 41))});
    ck_assert_heard(scene, "synced +a +b ");
    ck_assert_path(scene, 2, std::string(watch_from) + "40&");
}
END_TEST

START_TEST(gone_as_a_status_lists_again_and_tells_what_vanished) {
    Scene scene({answer(list({pod("a", 1), pod("b", 2)}, 5)), answer("{\"message\":\"too old\"}", 410),
                 answer(list({pod("b", 2), pod("c", 9)}, 10)), stream(event("ADDED", "d", 11))});
    ck_assert_heard(scene, "+a +b synced +b +c ~n/a/uid-a synced +d ");
    ck_assert_path(scene, 3, std::string(watch_from) + "10&");
}
END_TEST

START_TEST(gone_in_the_stream_lists_again_and_tells_what_vanished) {
    Scene scene({answer(list({pod("a", 1)}, 5)), stream(event("ADDED", "b", 6) + gone_event),
                 answer(list({pod("a", 1)}, 10)), stream(event("ADDED", "d", 11))});
    ck_assert_heard(scene, "+a synced +b +a ~n/b/uid-b synced +d ");
}
END_TEST

START_TEST(a_recreated_pod_of_the_same_name_is_another_one) {
    const std::string again = R"({"metadata":{"namespace":"n","name":"a","uid":"second","resourceVersion":"9"}})";
    Scene scene({answer(list({pod("a", 1)}, 5)), stream(gone_event), answer(list({again}, 10)), stream("")});
    ck_assert_heard(scene, "+a synced +a ~n/a/uid-a synced ");
}
END_TEST

START_TEST(a_list_that_expires_between_pages_begins_again) {
    Scene scene({answer(list({pod("a", 1), pod("b", 2)}, 5, "t")), answer("{}", 410), answer(list({pod("b", 2)}, 8)),
                 stream("")});
    ck_assert_heard(scene, "+a +b +b ~n/a/uid-a synced ");
    ck_assert_text(scene.paths[2], "/api/v1/pods?fieldSelector=x%3Dy&limit=2");
}
END_TEST

START_TEST(a_cached_list_is_asked_for_once) {
    Scene scene({answer(list({pod("a", 1), pod("b", 2)}, 5)), stream(gone_event), answer(list({pod("b", 2)}, 8)), stream("")});
    scene.cached = true;
    ck_assert_heard(scene, "+a +b synced +b ~n/a/uid-a synced ");
    ck_assert_text(scene.paths[0], "/api/v1/pods?fieldSelector=x%3Dy&limit=2&resourceVersion=0");
    ck_assert_text(scene.paths[2], "/api/v1/pods?fieldSelector=x%3Dy&limit=2");
}
END_TEST

START_TEST(a_list_that_goes_in_circles_begins_again_after_a_pause) {
    Scene scene({answer(list({pod("a", 1)}, 5, "circle")), answer(list({pod("a", 1)}, 5, "circle")), answer(list({pod("b", 2)}, 6)), stream("")});
    ck_assert_heard(scene, "+a +a +b ~n/a/uid-a synced ");
    ck_assert(scene.paths[1].find("continue=circle") != std::string::npos);
    ck_assert(scene.paths[2].find("continue=") == std::string::npos);
}
END_TEST

START_TEST(a_frame_cut_short_is_heard_again_whole) {
    Scene scene({answer(list({}, 5)),
                 [](Exchange e) {
                     e.begin_stream();
                     e.send(event("ADDED", "a", 6) + "{\"type\":\"ADDED\",\"obj");
                     e.cut();
                 },
                 stream(event("ADDED", "b", 7))});
    ck_assert_heard(scene, "synced +a +b ");
    ck_assert_path(scene, 2, std::string(watch_from) + "6&");
}
END_TEST

START_TEST(a_line_that_is_no_event_resumes_and_at_last_lists_again) {
    Scene scene({answer(list({}, 5)), stream("garbage\n"), stream("garbage\n"), stream("{\"type\":5}\n"),
                 answer(list({pod("a", 9)}, 9)), stream(event("ADDED", "b", 10))});
    ck_assert_heard(scene, "synced +a synced +b ");
    ck_assert_path(scene, 2, std::string(watch_from) + "5&");
    ck_assert_path(scene, 3, std::string(watch_from) + "5&");
}
END_TEST

START_TEST(an_object_that_cannot_be_read_is_skipped) {
    Scene scene({answer(list({pod("a", 1), "{\"metadata\":{}}"}, 5)),
                 stream("{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"resourceVersion\":\"6\"}}}\n" +
                        event("ADDED", "b", 7))});
    ck_assert_heard(scene, "+a synced +b ");
    ck_assert_uint_eq(scene.paths.size(), 2);
}
END_TEST

START_TEST(a_silent_watch_is_left_and_resumed) {
    Scene scene({answer(list({}, 5)), stream(""), stream(event("ADDED", "a", 6))});
    ck_assert(scene.run_until("synced +a ", 1s));
    ck_assert_path(scene, 2, std::string(watch_from) + "5&");
}
END_TEST

int lifetime_asked(const std::string &path) {
    const auto at = path.find("timeoutSeconds=");
    return at == std::string::npos ? -1 : std::atoi(path.c_str() + at + 15);
}

START_TEST(until_bookmarks_come_the_server_is_asked_to_end_watches_before_our_patience) {
    const char *const bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
    Scene scene({answer(list({}, 5)), stream(event("ADDED", "a", 6), true), stream(bookmark, true),
                 stream(event("ADDED", "b", 10))});
    ck_assert_heard(scene, "synced +a +b ");
    ck_assert_int_lt(lifetime_asked(scene.paths[1]), 30);
    ck_assert_int_gt(lifetime_asked(scene.paths[1]), 10);
    ck_assert_int_lt(lifetime_asked(scene.paths[2]), 30);
    ck_assert_int_ge(lifetime_asked(scene.paths[3]), 300);
}
END_TEST

START_TEST(bookmarks_that_dry_up_cost_a_resume_and_no_failure) {
    const char *const bookmark = "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"9\"}}}\n";
    Scene scene({answer(list({}, 5)), stream(bookmark), stream(event("ADDED", "a", 10))});
    ck_assert(scene.run_until("synced +a ", 1s));
    ck_assert_path(scene, 2, std::string(watch_from) + "9&");
    ck_assert_int_le(lifetime_asked(scene.paths[2]), 1);
}
END_TEST

START_TEST(a_server_that_is_away_does_not_cause_a_list) {
    const auto hang_up = [](Exchange e) {
        e.cut();
    };
    Scene scene({answer(list({}, 5)), hang_up, hang_up, hang_up, hang_up, hang_up, stream(event("ADDED", "a", 6))});
    ck_assert_heard(scene, "synced +a ");
    for (int i = 1; i <= 6; ++i)
        ck_assert_path(scene, i, std::string(watch_from) + "5&");
}
END_TEST

START_TEST(a_server_that_answers_others_again_is_watched_again_at_once) {
    const auto cut = [](Exchange e) { e.cut(); };
    Scene scene({cut, answer("{}"), answer(list({pod("a", 1)}, 5)), stream("")});
    scene.start("+a synced ", 30s, 1h);
    // What is sent meanwhile is answered, long before the watch's turn would come.
    const auto other = scene.loop.after(100ms, [&] { scene.http->send({.path = "/other"}, [](Response r) { ck_assert(r.ok()); }); });
    ck_assert(test::run(scene.loop));
}
END_TEST

START_TEST(a_list_that_fails_is_tried_until_it_works) {
    Scene scene({answer("{}", 500), answer("not json"), answer("{\"message\":\"no\"}", 403),
                 answer(list({pod("a", 1)}, 5)), stream("")});
    ck_assert_heard(scene, "+a synced ");
}
END_TEST

START_TEST(a_busy_server_is_given_the_time_it_asks_for) {
    Scene scene({answer(list({}, 5)), [](Exchange e) { e.respond(429, "{}", "Retry-After: 1\r\n"); },
                 stream(event("ADDED", "a", 6))});
    const auto began = scene.loop.now();
    ck_assert_heard(scene, "synced +a ");
    ck_assert(scene.loop.now() - began >= 1s);
}
END_TEST

START_TEST(the_watcher_may_be_dropped_by_each_of_its_handlers) {
    for (const char *when : {"+a", "synced", "+b", "-n/a/uid-a", "~n/b/uid-b"}) {
        Scene scene({answer(list({pod("a", 1), pod("x", 1)}, 5)),
                     stream(event("ADDED", "b", 6) + event("DELETED", "a", 7) + event("ADDED", "c", 8) + gone_event),
                     answer(list({pod("x", 1)}, 10)), stream("")});
        SourcePtr later;
        scene.on_hear = [&](const std::string &what) {
            if (what != when)
                return;
            ck_assert(scene.watcher || what == "+a");
            scene.watcher.reset();
            scene.heard.clear();
            later = scene.loop.after(50ms, [&] { scene.loop.quit(); });
        };
        ck_assert(scene.run_until("never"));
        ck_assert_msg(scene.heard.empty(), "after %s: %s", when, scene.heard.c_str());
    }
}
END_TEST

START_TEST(nodes_are_watched_too) {
    Scene scene({answer(R"({"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"n1","uid":"u1"}}]})"),
                 stream(gone_event), answer(R"({"metadata":{"resourceVersion":"2"},"items":[]})"), stream("")});
    WatchOptions options;
    options.path = "/api/v1/nodes";
    options.backoff_first = 10ms;
    std::string heard;
    const auto watcher = watch_nodes(scene.loop, *scene.http, options,
                                     {[&](Node &&n) { heard += "+" + n.name; },
                                      [&](Node &&n, bool) {
                                          heard += "~" + n.name + n.uid;
                                          scene.loop.quit();
                                      },
                                      nullptr});
    ck_assert(test::run(scene.loop));
    ck_assert_text(heard, "+n1~n1u1");
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "watch",
        {a_list_in_pages_then_a_watch_from_there, a_cached_list_is_asked_for_once, a_closed_watch_resumes_from_the_last_version_heard,
         gone_as_a_status_lists_again_and_tells_what_vanished, gone_in_the_stream_lists_again_and_tells_what_vanished,
         a_recreated_pod_of_the_same_name_is_another_one, a_list_that_expires_between_pages_begins_again,
         a_list_that_goes_in_circles_begins_again_after_a_pause,
         a_frame_cut_short_is_heard_again_whole, a_line_that_is_no_event_resumes_and_at_last_lists_again,
         an_object_that_cannot_be_read_is_skipped, a_silent_watch_is_left_and_resumed,
         until_bookmarks_come_the_server_is_asked_to_end_watches_before_our_patience,
         bookmarks_that_dry_up_cost_a_resume_and_no_failure, a_server_that_is_away_does_not_cause_a_list, a_server_that_answers_others_again_is_watched_again_at_once,
         a_list_that_fails_is_tried_until_it_works, a_busy_server_is_given_the_time_it_asks_for,
         the_watcher_may_be_dropped_by_each_of_its_handlers, nodes_are_watched_too});
}
