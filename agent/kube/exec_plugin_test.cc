#include "agent/kube/exec_plugin.h"

#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>

#include "agent/kube/http_scene.h"

using namespace berth;
using namespace berth::kube;
using test::ask, test::FaultyServer, test::get;
using namespace std::chrono_literals;
using Exchange = FaultyServer::Exchange;

namespace {

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
                       {"sh", "no-such-program-for-tokens", "get it there"},
                       {"/nonexistent/program", "", "get it there"}};
    for (const auto &c : cases) {
        Loop loop;
        FaultyServer server(loop, [](Exchange) { ck_abort_msg("sent without a credential"); });
        const auto http = Http::create(loop, with_exec(server.credentials(), c.command, {"-c", c.script}), {});
        const Response response = ask(loop, *http, get("/x"));
        ck_assert_int_eq(response.status, 0);
        ck_assert_part(response.error, c.part);
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
    ck_assert_part(error, "took too long");
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
    ck_assert(*parse_rfc3339("9999-12-31T23:59:59Z") > std::chrono::system_clock::now());  // how some say "never"
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

}  // namespace

int main() {
    return test::run_suite("exec_plugin", {an_exec_program_gives_the_token, an_exec_program_that_fails_is_named, an_exec_program_that_hangs_is_killed, exec_credentials_are_checked, an_expired_exec_credential_is_renewed});
}
