#include "agent/web/request.h"

#include "agent/web/address.h"
#include "test/unit/suite.h"

using namespace berth::web;

namespace {

int status_of(const std::string &text) { return parse_request(text).status; }

}  // namespace

START_TEST(a_browsers_request_is_read) {
    const Parsed got = parse_request("GET /status.json?x=1&y HTTP/1.1\r\nAccept: */*\r\nHOST:  localhost:9484 \r\nX:\r\n\r\nrest");
    ck_assert_int_eq(got.status, 200);
    ck_assert_text(got.request.path, "/status.json");
    ck_assert_text(got.request.host, "localhost:9484");
    ck_assert(!got.request.head);
    ck_assert(parse_request("HEAD / HTTP/1.0\n\n").request.head);
}
END_TEST

START_TEST(an_unfinished_request_is_waited_for) {
    for (const char *part : {"", "G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r"})
        ck_assert_msg(status_of(part) == 0, "\"%s\"", part);
}
END_TEST

START_TEST(what_is_no_get_is_refused) {
    ck_assert_int_eq(status_of("POST / HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
    ck_assert_int_eq(status_of("DELETE /x HTTP/1.1\r\n\r\n"), 405);
    ck_assert_int_eq(status_of("GET / HTTP/2.0\r\n\r\n"), 505);
    for (const char *bad : {"GET / \r\n\r\n", "GET /\r\n\r\n", "\r\n\r\n", "GET http://x/ HTTP/1.1\r\n\r\n", "GET /a b HTTP/1.1\r\n\r\n", "GET /\x01 HTTP/1.1\r\n\r\n",
                            "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
                            "GET / HTTP/1.1\r\nA: b\r\n folded: c\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\nHost: \r\n\r\n"})
        ck_assert_msg(status_of(bad) == 400, "%d for \"%s\"", status_of(bad), bad);
}
END_TEST

START_TEST(a_head_has_an_end) {
    ck_assert_int_eq(status_of("GET / HTTP/1.1\r\nX: " + std::string(most_request, 'a')), 431);
    ck_assert_int_eq(status_of("GET / HTTP/1.1\r\nX: " + std::string(most_request, 'a') + "\r\n\r\n"), 431);
}
END_TEST

START_TEST(addresses_are_literal) {
    for (const char *good : {"127.0.0.1:9484", "127.8.9.1:1", "[::1]:65535"}) {
        const auto got = parse_address(good);
        ck_assert_msg(got.ok() && *got && (*got)->loopback(), "%s", good);
    }
    for (const char *open : {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "[2001:db8::1]:80"}) {
        const auto got = parse_address(open);
        ck_assert_msg(got.ok() && *got && !(*got)->loopback(), "%s", open);
    }
    ck_assert(parse_address("off").ok() && !*parse_address("off"));
    for (const char *bad : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "localhost:1", "::1:80", "[::1]80", "[::1", "[127.0.0.1]:1", ":80"})
        ck_assert_msg(!parse_address(bad).ok(), "\"%s\"", bad);
}
END_TEST

START_TEST(only_plain_hosts_are_believed) {
    for (const char *good : {"localhost", "localhost:9484", "127.0.0.1:1", "[::1]:9484", "[::1]"})
        ck_assert_msg(plain_host(good), "%s", good);
    for (const char *bad : {"evil.example", "localhost.evil.example:9484", "127.0.0.1.evil.example", "localhost:80x", "[evil]", ""})
        ck_assert_msg(!plain_host(bad), "%s", bad);
}
END_TEST

int main() {
    return berth::test::run_suite("request", {a_browsers_request_is_read, an_unfinished_request_is_waited_for, what_is_no_get_is_refused,
                                              a_head_has_an_end, addresses_are_literal, only_plain_hosts_are_believed});
}
