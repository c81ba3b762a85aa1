#include "agent/web/server.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "agent/web/site.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::web;

namespace {

constexpr std::size_t large = 8 << 20;

// A client whose two ends live in one thread: the loop turns until something has arrived.
class Client {
  public:
    Client(Loop &loop, std::uint16_t port) : loop_(loop), fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        ck_assert_int_eq(connect(fd_, reinterpret_cast<sockaddr *>(&to), sizeof to), 0);
        fcntl(fd_, F_SETFL, O_NONBLOCK);
    }
    ~Client() { close(fd_); }
    Client(const Client &) = delete;
    Client &operator=(const Client &) = delete;

    void say(std::string_view text) { ck_assert_int_eq(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size())); }
    void half_close() { shutdown(fd_, SHUT_WR); }
    // All that comes until the other end closes.
    std::string hear() {
        std::string all;
        // Something must turn the loop while it has nothing to do.
        SourcePtr tick;
        std::function<void()> again = [&] { tick = loop_.after(std::chrono::milliseconds(1), [&] { again(); }); };
        again();
        loop_.run_until([&] {
            char buffer[65536];
            for (;;) {
                const ssize_t n = recv(fd_, buffer, sizeof buffer, 0);
                if (n > 0)
                    all.append(buffer, static_cast<std::size_t>(n));
                else
                    return n == 0 || errno != EAGAIN;
            }
        });
        return all;
    }

  private:
    Loop &loop_;
    int fd_;
};

struct Scene {
    explicit Scene(Server::Limits limits = {}) : server(loop, [](const Request &request) { return reply(request); }, limits) {
        ck_assert(server.listen(**parse_address("127.0.0.1:0")).ok());
    }
    static Response reply(const Request &request) {
        if (request.path == "/large")
            return plain(200, std::string(large, 'x'));
        return request.path == "/a" ? plain(200, "hello") : plain(404, "no\n");
    }
    std::string ask(std::string_view request) {
        Client client(loop, server.port());
        client.say(request);
        return client.hear();
    }

    Loop loop;
    Server server;
};

struct FakeRole : Role {
    Result<void> start() override { return {}; }
    void stop(std::function<void()> done) override { done(); }
    std::string waits_for() const override { return waits; }
    void measure(metrics::Gauges &now) override { now.controller = now.leader = true; }
    std::string status_json() override { return ++asked, json; }

    std::string waits, json;
    int asked = 0;
};

}  // namespace

START_TEST(a_page_is_handed_out_and_the_connection_closed) {
    Scene scene;
    const std::string got = scene.ask("GET /a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    ck_assert_part(got, "HTTP/1.1 200 OK\r\n");
    ck_assert_part(got, "Content-Length: 5\r\n");
    ck_assert_part(got, "Content-Security-Policy: default-src 'none'");
    ck_assert(got.ends_with("\r\n\r\nhello"));
    ck_assert_part(scene.ask("GET /b HTTP/1.1\r\n\r\n"), "404 Not Found");
}
END_TEST

START_TEST(head_has_the_length_and_no_body) {
    Scene scene;
    const std::string got = scene.ask("HEAD /a HTTP/1.1\r\n\r\n");
    ck_assert_part(got, "Content-Length: 5\r\n");
    ck_assert(got.ends_with("\r\n\r\n"));
}
END_TEST

START_TEST(a_request_may_come_in_pieces_and_with_a_body) {
    Scene scene;
    Client client(scene.loop, scene.server.port());
    client.say("GET /a HT");
    client.say("TP/1.1\r\n");
    client.say("\r\n");
    ck_assert(client.hear().ends_with("hello"));
    ck_assert_part(scene.ask("POST /a HTTP/1.1\r\nContent-Length: 40000\r\n\r\n" + std::string(40'000, 'b')), "405 Method Not Allowed");
    ck_assert_part(scene.ask("POST /a HTTP/1.1\r\n\r\n"), "Allow: GET, HEAD\r\n");
}
END_TEST

START_TEST(more_than_a_socket_holds_arrives_whole) {
    Scene scene;
    ck_assert_uint_gt(scene.ask("GET /large HTTP/1.1\r\n\r\n").size(), large);
    Client client(scene.loop, scene.server.port());
    client.say("GET /large HTTP/1.1\r\n\r\n");
    client.half_close();
    ck_assert_uint_gt(client.hear().size(), large);
}
END_TEST

START_TEST(who_sends_nothing_is_sent_away) {
    Scene scene({.most_connections = 4, .patience = std::chrono::milliseconds(50)});
    Client silent(scene.loop, scene.server.port()), slow(scene.loop, scene.server.port());
    slow.say("GET /a HTTP/1.1\r\nX: ");
    ck_assert_text(silent.hear(), "");
    ck_assert_text(slow.hear(), "");
}
END_TEST

START_TEST(who_holds_connections_open_keeps_nobody_out) {
    Scene scene({.most_connections = 4, .patience = std::chrono::hours(1)});
    std::vector<std::unique_ptr<Client>> idle;
    for (int i = 0; i < 20; ++i)
        idle.push_back(std::make_unique<Client>(scene.loop, scene.server.port()));
    ck_assert(scene.ask("GET /a HTTP/1.1\r\n\r\n").ends_with("hello"));
    ck_assert_text(idle.front()->hear(), "");
}
END_TEST

START_TEST(a_name_that_leads_here_is_not_believed) {
    Scene scene;
    ck_assert_part(scene.ask("GET /a HTTP/1.1\r\nHost: evil.example:80\r\n\r\n"), "403 Forbidden");
}
END_TEST

START_TEST(a_port_in_use_is_an_error) {
    Scene scene;
    Server second(scene.loop, [](const Request &) { return Response{}; });
    ck_assert(!second.listen(**parse_address("127.0.0.1:" + std::to_string(scene.server.port()))).ok());
}
END_TEST

START_TEST(the_site_says_whether_it_is_ready) {
    Loop loop;
    std::vector<std::unique_ptr<Role>> roles;
    roles.push_back(std::make_unique<FakeRole>());
    auto &role = static_cast<FakeRole &>(*roles.front());
    Site site(loop, roles);
    ck_assert_int_eq(site.answer({"/healthz", "", false}).status, 200);
    ck_assert_int_eq(site.answer({"/readyz", "", false}).status, 200);
    role.waits = "the pods are not listed yet";
    ck_assert_int_eq(site.answer({"/healthz", "", false}).status, 200);
    const Response not_ready = site.answer({"/readyz", "", false});
    ck_assert_int_eq(not_ready.status, 503);
    ck_assert_text(*not_ready.body, "not ready: the pods are not listed yet\n");
    ck_assert_part(*site.answer({"/metrics", "", false}).body, "berth_leader 1\n");
    ck_assert_part(*site.answer({"/", "", false}).body, "<!doctype html>");
    ck_assert_int_eq(site.answer({"/etc/passwd", "", false}).status, 404);
}
END_TEST

START_TEST(many_readers_cost_one_picture) {
    Loop loop;
    std::vector<std::unique_ptr<Role>> roles;
    roles.push_back(std::make_unique<FakeRole>());
    auto &role = static_cast<FakeRole &>(*roles.front());
    role.json = "{}";
    Site site(loop, roles);
    for (int i = 0; i < 50; ++i)
        ck_assert_text(*site.answer({"/status.json", "", false}).body, "{}");
    ck_assert_int_le(role.asked, 2);  // a second may pass meanwhile
}
END_TEST

START_TEST(a_node_has_no_status_page) {
    Loop loop;
    std::vector<std::unique_ptr<Role>> roles;
    roles.push_back(std::make_unique<FakeRole>());
    Site site(loop, roles);
    ck_assert_int_eq(site.answer({"/status.json", "", false}).status, 404);
}
END_TEST

int main() {
    return berth::test::run_suite(
        "server", {a_page_is_handed_out_and_the_connection_closed, head_has_the_length_and_no_body, a_request_may_come_in_pieces_and_with_a_body,
                   more_than_a_socket_holds_arrives_whole, who_sends_nothing_is_sent_away, who_holds_connections_open_keeps_nobody_out,
                   a_name_that_leads_here_is_not_believed, a_port_in_use_is_an_error, the_site_says_whether_it_is_ready, many_readers_cost_one_picture,
                   a_node_has_no_status_page});
}
