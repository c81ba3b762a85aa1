#include "agent/kube/http.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>

#include "agent/kube/exec_plugin.h"
#include "agent/kube/faulty_server.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::kube;
using test::FaultyServer;
using namespace std::chrono_literals;
using Exchange = FaultyServer::Exchange;

namespace {

Request get(std::string path, std::chrono::milliseconds timeout = 10s) {
    Request request;
    request.path = std::move(path);
    request.timeout = timeout;
    return request;
}

// Sends one request and waits for its answer.
Response ask(Loop &loop, Http &http, Request request) {
    std::optional<Response> got;
    bool inside = true;
    http.send(std::move(request), [&](Response response) {
        ck_assert(!inside);
        got = std::move(response);
        loop.quit();
    });
    inside = false;
    ck_assert(test::run(loop));
    return *got;
}

void ck_assert_says(const std::string &text, std::string_view part) {
    ck_assert_msg(text.find(part) != std::string::npos, "\"%s\" lacks \"%.*s\"", text.c_str(),
                  static_cast<int>(part.size()), part.data());
}

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
    ck_assert_says(response.error, "GET /x: ");
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
    ck_assert_says(response.error, "broke off");
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
    ck_assert_says(response.error, "larger than 50000 bytes");
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

Credentials with_exec(Credentials credentials, std::string command, std::vector<std::string> args) {
    credentials.exec = Credentials::Exec{
        std::move(command), std::move(args), {{"WHO", "me"}}, "client.authentication.k8s.io/v1", false, "get it there"};
    return credentials;
}

START_TEST(an_exec_program_gives_the_token) {
    Loop loop;
    int asked = 0;
    FaultyServer server(loop, [&](Exchange e) {
        ++asked;
        e.respond(e.has_header("Bearer tok-me\r\n") ? 200 : 403, "{}");
    });
    const std::string script = R"(case "$KUBERNETES_EXEC_INFO" in *'"kind":"ExecCredential"'*) ;; *) exit 9;; esac
        printf '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        printf '"status":{"token":"tok-%s"}}' "$WHO")";
    const auto http = Http::create(loop, with_exec(server.credentials(), "sh", {"-c", script}), {});
    int left = 3;
    for (int i = 0; i < 3; ++i)
        http->send(get("/x"), [&](Response response) {
            ck_assert_msg(response.status == 200, "%s", response.error.c_str());
            if (--left == 0)
                loop.quit();
        });
    ck_assert(test::run(loop));
    ck_assert_int_eq(asked, 3);
}
END_TEST

START_TEST(an_exec_program_that_fails_is_named) {
    struct {
        const char *command, *script, *part;
    } const cases[] = {{"sh", "echo no luck >&2; exit 3", "exit code 3: no luck"},
                       {"sh", "echo SECRET", "not JSON"},
                       {"sh", "kill -TERM $$", "signal 15"},
                       {"sh", "exec head -c 3000000 /dev/zero", "printed more than"},
                       {"/nonexistent/program", "", "get it there"}};
    for (const auto &c : cases) {
        Loop loop;
        FaultyServer server(loop, [](Exchange) { ck_abort_msg("sent without a credential"); });
        const auto http = Http::create(loop, with_exec(server.credentials(), c.command, {"-c", c.script}), {});
        const Response response = ask(loop, *http, get("/x"));
        ck_assert_int_eq(response.status, 0);
        ck_assert_says(response.error, c.part);
        ck_assert(response.error.find("SECRET") == std::string::npos);
    }
}
END_TEST

START_TEST(an_exec_program_that_hangs_is_killed) {
    Loop loop;
    Credentials credentials = with_exec({}, "sh", {"-c", "sleep 1000"});
    std::string error;
    const auto plugin = ExecPlugin::start(loop, credentials, 100ms, [&](Result<ExecCredential> result) {
        error = result ? "" : result.error();
        loop.quit();
    });
    ck_assert(test::run(loop));
    ck_assert_says(error, "took too long");
}
END_TEST

START_TEST(exec_credentials_are_checked) {
    const std::string version = "client.authentication.k8s.io/v1";
    const auto parse = [&](std::string_view status) {
        return parse_exec_credential(
            fmt::format(R"({{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{}}})",
                        status),
            version);
    };
    const auto good = parse(R"({"token":"t","expirationTimestamp":"2026-01-31T12:00:00Z"})");
    ck_assert(good.ok() && good->expires);
    ck_assert_int_eq(std::chrono::system_clock::to_time_t(*good->expires), 1769860800);
    ck_assert(parse(R"({"clientCertificateData":"C","clientKeyData":"K"})").ok());
    for (const char *bad : {"{}", R"({"token":""})", R"({"token":"a b"})", R"({"token":"a\nb"})",
                            R"({"clientCertificateData":"C"})", R"({"token":"t","expirationTimestamp":"soon"})", "5"})
        ck_assert_msg(!parse(bad).ok(), "accepted %s", bad);
    ck_assert(
        !parse_exec_credential(
             R"({"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"t"}})",
             version)
             .ok());
    ck_assert(*parse_rfc3339("2026-01-31T13:30:00.25+01:30") == *parse_rfc3339("2026-01-31T12:00:00Z"));
    ck_assert(!parse_rfc3339("2026-01-31") && !parse_rfc3339("2026-01-31T12:00:00") && !parse_rfc3339(""));
}
END_TEST

START_TEST(an_expired_exec_credential_is_renewed) {
    char name[] = "/tmp/berth-exec-XXXXXX";
    close(mkstemp(name));
    Loop loop;
    FaultyServer server(loop, [](Exchange e) { e.respond(200, "{}"); });
    const std::string script = fmt::format(
        R"(echo run >> {}; echo '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
           echo '"status":{{"token":"t","expirationTimestamp":"2020-01-01T00:00:00Z"}}}}')",
        name);
    const auto http = Http::create(loop, with_exec(server.credentials(), "sh", {"-c", script}), {});
    http->send(get("/x"), [&](Response first) {
        ck_assert_msg(first.ok(), "%s", first.error.c_str());
        http->send(get("/y"), [&](Response second) {
            ck_assert(second.ok());
            loop.quit();
        });
    });
    ck_assert(test::run(loop));
    ck_assert_uint_eq(std::filesystem::file_size(name), 8);
    std::filesystem::remove(name);
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
                                    an_exec_program_gives_the_token,
                                    an_exec_program_that_fails_is_named,
                                    an_exec_program_that_hangs_is_killed,
                                    exec_credentials_are_checked,
                                    an_expired_exec_credential_is_renewed,
                                    odd_characters_are_escaped_in_paths});
}
