#include "agent/kube/http.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <vector>

#include "agent/kube/http_scene.h"

using namespace berth;
using namespace berth::kube;
using test::ask, test::FaultyServer, test::get;
using namespace std::chrono_literals;
using Exchange = FaultyServer::Exchange;

namespace {

START_TEST(requests_carry_method_body_and_token) {
    Loop loop;
    std::optional<Exchange> seen;
    FaultyServer server(loop, [&](Exchange e) {
        seen = e;
        e.respond(201, "{\"ok\":true}");
    });
    auto credentials = server.credentials();
    credentials.token = "tok";
    const auto http = Http::create(loop, credentials, {});
    Request request = get("/api/v1/x?y=1");
    request.method = "PATCH";
    request.body = "{}";
    request.content_type = "application/merge-patch+json";
    const Response response = ask(loop, *http, request);
    ck_assert_int_eq(response.status, 201);
    ck_assert_text(response.body, "{\"ok\":true}");
    ck_assert(response.ok() && response.error.empty() && !response.unsure());
    ck_assert_text(seen->method, "PATCH");
    ck_assert_text(seen->path, "/api/v1/x?y=1");
    ck_assert_text(seen->body, "{}");
    ck_assert(seen->has_header("Authorization: Bearer tok\r\n"));
    ck_assert(seen->has_header("Content-Type: application/merge-patch+json\r\n"));
    ck_assert(http->reachable());
}
END_TEST

START_TEST(errors_name_method_path_status_and_message_but_no_query) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.respond(403, R"({"kind":"Status","message":"pods is forbidden"})"); });
    const auto http = Http::create(loop, server.credentials(), {});
    const Response response = ask(loop, *http, get("/api/v1/pods?continue=SECRET"));
    ck_assert_text(response.error, "GET /api/v1/pods: HTTP 403: pods is forbidden");
    ck_assert(http->reachable());
}
END_TEST

START_TEST(the_servers_clock_is_in_its_answer) {
    const auto date_of = [](const char *headers) {
        Loop loop;
        FaultyServer server(loop, [headers](Exchange e) { e.respond(200, "{}", headers); });
        const auto http = Http::create(loop, server.credentials(), {});
        return ask(loop, *http, get("/version")).date;
    };
    ck_assert_int_eq(date_of("DATE: Mon, 16 Nov 2026 12:00:00 GMT\r\n"), 1794830400);
    ck_assert_int_eq(date_of("Date: some day\r\n"), 0);
    ck_assert_int_eq(date_of(""), 0);
}
END_TEST

START_TEST(too_many_requests_is_tried_again_after_the_wait) {
    Loop loop;
    int asked = 0;
    FaultyServer server(loop, [&](Exchange e) {
        if (++asked == 1)
            e.respond(429, "{}", "Retry-After: 1\r\n");
        else if (asked == 2)
            e.respond(503, "{}");
        else
            e.respond(200, "{}");
    });
    const auto http = Http::create(loop, server.credentials(), {});
    const auto began = loop.now();
    const Response response = ask(loop, *http, get("/x"));
    ck_assert_int_eq(response.status, 200);
    ck_assert_int_eq(asked, 3);
    ck_assert(loop.now() - began >= 2s);
}
END_TEST

START_TEST(a_wait_beyond_the_timeout_is_handed_to_the_caller) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.respond(429, "{\"message\":\"slow down\"}", "Retry-After: 60\r\n"); });
    const auto http = Http::create(loop, server.credentials(), {});
    const Response response = ask(loop, *http, get("/x"));
    ck_assert_int_eq(response.status, 429);
    ck_assert_int_eq(response.retry_after.count(), 60);
}
END_TEST

START_TEST(after_a_401_the_credentials_are_read_again_once) {
    Loop loop;
    int asked = 0, reloads = 0;
    FaultyServer server(loop, [&](Exchange e) {
        ++asked;
        e.respond(e.has_header("Bearer new\r\n") ? 200 : 401, "{}");
    });
    auto credentials = server.credentials();
    credentials.token = "old";
    credentials.reload = [&, fresh = server.credentials()]() mutable -> Result<Credentials> {
        ++reloads;
        fresh.token = "new";
        return fresh;
    };
    const auto http = Http::create(loop, credentials, {});
    ck_assert_int_eq(ask(loop, *http, get("/x")).status, 200);
    ck_assert_int_eq(asked, 2);
    ck_assert_int_eq(reloads, 1);
}
END_TEST

START_TEST(a_second_401_is_the_answer) {
    Loop loop;
    int asked = 0;
    FaultyServer server(loop, [&](Exchange e) {
        ++asked;
        e.respond(401, "{\"message\":\"Unauthorized\"}");
    });
    auto credentials = server.credentials();
    credentials.token = "SECRET";
    credentials.reload = [] {
        return Result<Credentials>(Error{"file is gone"});
    };
    const auto http = Http::create(loop, credentials, {});
    const Response response = ask(loop, *http, get("/x"));
    ck_assert_int_eq(response.status, 401);
    ck_assert_int_eq(asked, 2);
    ck_assert(response.error.find("SECRET") == std::string::npos);
}
END_TEST

START_TEST(a_rotated_token_file_is_read_after_a_401) {
    char name[] = "/tmp/berth-token-XXXXXX";
    const int fd = mkstemp(name);
    ck_assert_int_ge(fd, 0);
    close(fd);
    std::ofstream(name) << "old\n";
    Loop loop;
    FaultyServer server(loop, [&](Exchange e) {
        const bool good = e.has_header("Bearer new\r\n");
        std::ofstream(name) << "new\n";
        e.respond(good ? 200 : 401, "{}");
    });
    auto credentials = server.credentials();
    credentials.token_file = name;
    const auto http = Http::create(loop, credentials, {});
    const Response response = ask(loop, *http, get("/x"));
    std::filesystem::remove(name);
    ck_assert_int_eq(response.status, 200);
}
END_TEST

START_TEST(only_so_many_run_at_once_and_the_rest_keep_their_order) {
    Loop loop;
    std::deque<Exchange> held;
    std::size_t most = 0;
    std::string order;
    SourcePtr tick;
    FaultyServer server(loop, [&](Exchange e) {
        held.push_back(e);
        most = std::max(most, held.size());
        order += e.path;
        tick = loop.after(20ms, [&] {
            for (const auto &exchange : std::exchange(held, {}))
                exchange.respond(200, "{}");
        });
    });
    Http::Options options;
    options.max_in_flight = 2;
    const auto http = Http::create(loop, server.credentials(), options);
    int left = 7;
    for (int i = 0; i < 7; ++i)
        http->send(get(fmt::format("/{}", i)), [&](Response response) {
            ck_assert_int_eq(response.status, 200);
            if (--left == 0)
                loop.quit();
        });
    ck_assert(test::run(loop));
    ck_assert_uint_eq(most, 2);
    ck_assert_uint_le(server.connections(), 2);
    for (std::size_t i = 0; i < 7; ++i)  // two at once may overtake each other, but nobody else
        ck_assert_int_le(std::abs(order.at(i * 2 + 1) - '0' - static_cast<int>(i)), 1);
}
END_TEST

START_TEST(what_can_wait_is_sent_one_by_one_after_the_rest) {
    Loop loop;
    std::vector<std::string> order;
    std::deque<Exchange> open;
    std::size_t most_patient = 0;
    FaultyServer server(loop, [&](Exchange e) {
        order.push_back(e.path);
        open.push_back(e);
        most_patient = std::max<std::size_t>(most_patient, std::count_if(open.begin(), open.end(), [](const Exchange &each) {
            return each.path.starts_with("/patient");
        }));
        loop.post([&] {
            open.front().respond(200, "{}");
            open.pop_front();
        });
    });
    Http::Options options;
    options.quiet = 20ms;
    options.longest_wait = 60s;
    const auto http = Http::create(loop, server.credentials(), options);
    int left = 6;
    const auto done = [&](const Response &response) {
        ck_assert_int_eq(response.status, 200);
        if (--left == 0)
            loop.quit(0);
    };
    for (int i = 0; i < 3; ++i) {
        http->send(get("/now" + std::to_string(i)), done);
        Request patient = get("/patient" + std::to_string(i));
        patient.can_wait = true;
        http->send(patient, done);
    }
    ck_assert(test::run(loop));
    ck_assert_uint_eq(order.size(), 6);
    for (int i = 0; i < 3; ++i)
        ck_assert_text(order[static_cast<std::size_t>(3 + i)], "/patient" + std::to_string(i));
    ck_assert_uint_eq(most_patient, 1);
}
END_TEST

START_TEST(what_can_wait_waits_no_longer_than_it_may_and_only_so_many_do) {
    Loop loop;
    std::vector<std::string> order;
    std::optional<Exchange> busy;  // never answered: there is no quiet
    FaultyServer server(loop, [&](Exchange e) {
        order.push_back(e.path);
        if (e.path == "/busy")
            busy = e;
        else
            e.respond(200, "{}");
    });
    Http::Options options;
    options.longest_wait = 50ms;
    options.most_waiting = 2;
    const auto http = Http::create(loop, server.credentials(), options);
    int left = 3;
    std::vector<int> dropped;
    // Once it has an answer, curl knows that a connection carries one request at a time.
    http->send(get("/first"), [&](const Response &) {
        http->send(get("/busy"), [](const Response &) { ck_abort_msg("answered"); });
        for (int i = 0; i < 3; ++i) {
            Request patient = get("/patient" + std::to_string(i));
            patient.can_wait = true;
            http->send(patient, [&, i](const Response &response) {
                if (!response.ok())
                    dropped.push_back(i);
                if (--left == 0)
                    loop.quit(0);
            });
        }
    });
    ck_assert(test::run(loop));
    ck_assert(dropped == std::vector<int>{0});
    ck_assert(order == (std::vector<std::string>{"/first", "/busy", "/patient1", "/patient2"}));
}
END_TEST

START_TEST(one_after_the_other_share_a_connection) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.respond(200, "{}"); });
    const auto http = Http::create(loop, server.credentials(), {});
    int left = 10;
    std::function<void()> next = [&] {
        http->send(get("/x"), [&](Response response) {
            ck_assert(response.ok());
            --left > 0 ? next() : loop.quit();
        });
    };
    next();
    ck_assert(test::run(loop));
    ck_assert_uint_eq(server.connections(), 1);
}
END_TEST

START_TEST(no_answer_is_told_apart_from_a_bad_one) {
    Loop loop;
    auto server = std::make_unique<FaultyServer>(loop, [](Exchange) {});
    const auto credentials = server->credentials();
    server.reset();
    const auto http = Http::create(loop, credentials, {});
    const Response response = ask(loop, *http, get("/x"));
    ck_assert_int_eq(response.status, 0);
    ck_assert(response.unsure());
    ck_assert(!http->reachable());
    ck_assert_part(response.error, "GET /x: ");
}
END_TEST

START_TEST(a_stalled_answer_ends_with_the_timeout) {
    Loop loop;
    FaultyServer server(loop, [](Exchange) {});
    const auto http = Http::create(loop, server.credentials(), {});
    const Response response = ask(loop, *http, get("/x", 200ms));
    ck_assert_int_eq(response.status, 0);
    ck_assert(response.unsure());
}
END_TEST

START_TEST(an_answer_that_breaks_off_is_no_answer) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) {
        e.send_raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"half\":");
        e.cut();
    });
    const auto http = Http::create(loop, server.credentials(), {});
    const Response response = ask(loop, *http, get("/x"));
    ck_assert_int_eq(response.status, 0);
    ck_assert(response.unsure());
    ck_assert_part(response.error, "broke off");
}
END_TEST

START_TEST(a_body_beyond_the_bound_is_dropped) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.respond(200, std::string(100'000, 'x')); });
    Http::Options options;
    options.most_body = 50'000;
    const auto http = Http::create(loop, server.credentials(), options);
    const Response response = ask(loop, *http, get("/x"));
    ck_assert_int_eq(response.status, 0);
    ck_assert_part(response.error, "larger than 50000 bytes");
}
END_TEST

START_TEST(http_may_be_destroyed_by_its_own_callback) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.respond(200, "{}"); });
    auto http = Http::create(loop, server.credentials(), {});
    int called = 0;
    for (int i = 0; i < 5; ++i)
        http->send(get("/x"), [&](Response) {
            ++called;
            http.reset();
            loop.quit();
        });
    ck_assert(test::run(loop));
    ck_assert_int_eq(called, 1);
}
END_TEST

START_TEST(stream_and_http_may_be_dropped_from_a_chunk) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) {
        e.begin_stream();
        e.send("one");
        e.send("two");
    });
    auto http = Http::create(loop, server.credentials(), {});
    std::unique_ptr<Stream> first, second;
    SourcePtr wait;
    int chunks = 0;
    const auto never = [](Response) {
        ck_abort_msg("a dropped stream called back");
    };
    first = http->stream(
        get("/a"), 30s,
        [&](std::string_view) {
            first.reset();
            ++chunks;
            second = http->stream(
                get("/b"), 30s,
                [&](std::string_view) {
                    ++chunks;
                    http.reset();
                    second.reset();
                    wait = loop.after(100ms, [&] { loop.quit(); });
                },
                never);
        },
        never);
    ck_assert(test::run(loop));
    ck_assert_int_eq(chunks, 2);
}
END_TEST

START_TEST(a_stream_hands_over_bytes_as_they_come) {
    Loop loop;
    std::optional<Exchange> open;
    FaultyServer server(loop, [&](Exchange e) {
        open = e;
        e.begin_stream();
        e.send("one\n");
    });
    const auto http = Http::create(loop, server.credentials(), {});
    std::string got;
    std::optional<Response> end;
    const auto stream = http->stream(
        get("/w"), 30s,
        [&](std::string_view chunk) {
            got += chunk;
            if (got == "one\n")
                open->send("two\n"), open->end_stream();
        },
        [&](Response response) {
            end = response;
            loop.quit();
        });
    ck_assert(test::run(loop));
    ck_assert_text(got, "one\ntwo\n");
    ck_assert_int_eq(end->status, 200);
    ck_assert(end->error.empty());
}
END_TEST

START_TEST(a_silent_stream_ends_with_an_error) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.begin_stream(); });
    const auto http = Http::create(loop, server.credentials(), {});
    std::optional<Response> end;
    const auto stream = http->stream(
        get("/w"), 1s, [](std::string_view) {},
        [&](Response response) {
            end = response;
            loop.quit();
        });
    ck_assert(test::run(loop));
    ck_assert_int_eq(end->status, 0);
    ck_assert_text(end->error, "GET /w: nothing arrived for 1 s");
    ck_assert(http->reachable());  // it did answer; whether it still does, the next attempt shows
}
END_TEST

START_TEST(a_refused_stream_gives_status_and_body) {
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.respond(410, R"({"message":"too old"})"); });
    const auto http = Http::create(loop, server.credentials(), {});
    std::optional<Response> end;
    const auto stream = http->stream(
        get("/w"), 30s, [](std::string_view) { ck_abort_msg("an error came as a chunk"); },
        [&](Response response) {
            end = response;
            loop.quit();
        });
    ck_assert(test::run(loop));
    ck_assert_int_eq(end->status, 410);
    ck_assert_text(end->body, R"({"message":"too old"})");
}
END_TEST

START_TEST(behind_a_closed_fence_reads_go_on_and_writes_do_not_leave) {
    Loop loop;
    std::vector<std::string> seen;
    FaultyServer server(loop, [&](Exchange e) {
        seen.push_back(e.method);
        e.respond(200, "{}");
    });
    Fence fence;
    const auto http = Http::create(loop, server.credentials(), {.fence = &fence});
    const auto send = [&](const char *method) {
        Request request = get("/x");
        request.method = method;
        std::optional<Response> answer;
        http->send(request, [&](Response response) { answer = std::move(response); });
        loop.run_until([&] { return answer.has_value(); });
        return *answer;
    };
    const Response held = send("DELETE");
    ck_assert_int_eq(held.status, 0);
    ck_assert_text(held.error, std::string("DELETE /x: ") + Fence::closed_text);
    ck_assert_int_eq(send("GET").status, 200);
    fence.open_until(BootClock::now() + std::chrono::hours(1));
    ck_assert_int_eq(send("DELETE").status, 200);
    ck_assert((seen == std::vector<std::string>{"GET", "DELETE"}));
}
END_TEST

// What was under way when the process was stopped: curl has the request and no connection yet.
START_TEST(a_fence_that_closes_before_the_connection_stands_holds_the_request_back) {
    Loop loop;
    int seen = 0;
    FaultyServer server(loop, [&](Exchange e) {
        ++seen;
        e.respond(200, "{}");
    });
    Fence fence;
    fence.open_until(BootClock::now() + std::chrono::hours(1));
    const auto http = Http::create(loop, server.credentials(), {.fence = &fence});
    Request request = get("/x");
    request.method = "DELETE";
    std::optional<Response> answer;
    http->send(request, [&](Response response) {
        answer = std::move(response);
        loop.quit();
    });
    fence.close();
    ck_assert(test::run(loop));
    ck_assert_int_eq(answer->status, 0);
    ck_assert_text(answer->error, std::string("DELETE /x: ") + Fence::closed_text);
    ck_assert_int_eq(seen, 0);
}
END_TEST

START_TEST(odd_characters_are_escaped_in_paths) {
    ck_assert_text(url_escape("a-b._~/ü =&%"), "a-b._~%2F%C3%BC%20%3D%26%25");
}
END_TEST

}  // namespace

int main() {
    return test::run_suite("http", {requests_carry_method_body_and_token,
                                    errors_name_method_path_status_and_message_but_no_query, the_servers_clock_is_in_its_answer,
                                    too_many_requests_is_tried_again_after_the_wait,
                                    a_wait_beyond_the_timeout_is_handed_to_the_caller,
                                    after_a_401_the_credentials_are_read_again_once,
                                    a_second_401_is_the_answer,
                                    a_rotated_token_file_is_read_after_a_401,
                                    only_so_many_run_at_once_and_the_rest_keep_their_order,
                                    what_can_wait_is_sent_one_by_one_after_the_rest,
                                    what_can_wait_waits_no_longer_than_it_may_and_only_so_many_do,
                                    one_after_the_other_share_a_connection,
                                    no_answer_is_told_apart_from_a_bad_one,
                                    a_stalled_answer_ends_with_the_timeout,
                                    an_answer_that_breaks_off_is_no_answer,
                                    a_body_beyond_the_bound_is_dropped,
                                    http_may_be_destroyed_by_its_own_callback,
                                    stream_and_http_may_be_dropped_from_a_chunk,
                                    a_stream_hands_over_bytes_as_they_come,
                                    a_silent_stream_ends_with_an_error,
                                    a_refused_stream_gives_status_and_body,
                                    behind_a_closed_fence_reads_go_on_and_writes_do_not_leave,
                                    a_fence_that_closes_before_the_connection_stands_holds_the_request_back,
                                    odd_characters_are_escaped_in_paths});
}
