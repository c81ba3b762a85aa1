#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "agent/kube/base64.h"
#include "agent/kube/kubeconfig.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::kube;

namespace {

// A folder of its own for each test.
class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "berth-kubeconfig-XXXXXX").string();
        path_ = mkdtemp(name.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    std::string put(const std::string &name, std::string_view text) const {
        std::ofstream(path_ + "/" + name) << text;
        return path_ + "/" + name;
    }
    const std::string &path() const { return path_; }

  private:
    std::string path_;
};

std::string config(std::string_view cluster, std::string_view user) {
    return fmt::format(
        "apiVersion: v1\nkind: Config\ncurrent-context: main\ncontexts:\n"
        "- name: main\n  context: {{cluster: c, user: u}}\n"
        "clusters:\n- name: c\n  cluster:\n{}users:\n- name: u\n  user:\n{}",
        cluster, user);
}

const char *const plain_cluster = "    server: https://10.1.2.3:6443/\n";

std::string problem(const Result<Credentials> &result) { return result ? "(no error)" : result.error(); }

START_TEST(every_field_is_read) {
    Folder folder;
    folder.put("token", " abc.def\n");
    const auto file = folder.put(
        "config", config(fmt::format("    server: https://10.1.2.3:6443/\n    tls-server-name: api.example\n"
                                     "    proxy-url: socks5://proxy:1080\n"
                                     "    certificate-authority-data: {}\n",
                                     base64_encode("CA PEM")),
                         fmt::format("    client-certificate-data: {}\n    client-key-data: {}\n    tokenFile: token\n",
                                     base64_encode("CERT"), base64_encode("KEY"))));
    const auto got = load_kubeconfig(file);
    ck_assert_msg(got.ok(), "%s", got.ok() ? "" : got.error().c_str());
    ck_assert_text(got->server, "https://10.1.2.3:6443");
    ck_assert_text(got->tls_server_name, "api.example");
    ck_assert_text(got->proxy_url, "socks5://proxy:1080");
    ck_assert_text(got->ca_pem, "CA PEM");
    ck_assert_text(got->client_cert_pem, "CERT");
    ck_assert_text(got->client_key_pem, "KEY");
    ck_assert_text(got->token_file, (folder.path() + "/token"));
    ck_assert(got->reload && got->reload().ok());
}
END_TEST

START_TEST(data_wins_over_files_and_paths_count_from_the_file) {
    Folder folder;
    std::filesystem::create_directory(folder.path() + "/pki");
    folder.put("pki/ca.crt", "FROM FILE");
    folder.put("pki/client.crt", "CERT FILE");
    folder.put("pki/client.key", "KEY FILE");
    const auto file = folder.put(
        "config",
        config(
            "    server: https://h\n    certificate-authority: pki/ca.crt\n    certificate-authority-data: REFUQQ==\n",
            "    client-certificate: pki/client.crt\n    client-key: " + folder.path() + "/pki/client.key\n"));
    const auto got = load_kubeconfig(file);
    ck_assert(got.ok());
    ck_assert_text(got->ca_pem, "DATA");
    ck_assert_text(got->client_cert_pem, "CERT FILE");
    ck_assert_text(got->client_key_pem, "KEY FILE");
}
END_TEST

START_TEST(exec_is_read_with_arguments_and_environment) {
    Folder folder;
    const auto file = folder.put(
        "config",
        config(plain_cluster,
               "    exec:\n      apiVersion: client.authentication.k8s.io/v1beta1\n      command: bin/get-token\n"
               "      args: [--cluster, 'a b']\n      env: [{name: PROFILE, value: x}]\n"
               "      provideClusterInfo: true\n      interactiveMode: Never\n      installHint: get it\n"));
    const auto got = load_kubeconfig(file);
    ck_assert_msg(got.ok(), "%s", got.ok() ? "" : got.error().c_str());
    ck_assert(got->exec.has_value());
    ck_assert_text(got->exec->command, (folder.path() + "/bin/get-token"));
    ck_assert_uint_eq(got->exec->args.size(), 2);
    ck_assert_text(got->exec->args[1], "a b");
    ck_assert_text(got->exec->env[0].second, "x");
    ck_assert(got->exec->cluster_info);
    ck_assert_text(got->exec->install_hint, "get it");
}
END_TEST

START_TEST(in_a_list_of_files_the_first_definition_wins) {
    Folder folder;
    const auto first = folder.put("first", "users:\n- name: u\n  user: {token: one}\ncurrent-context: main\n");
    const auto second = folder.put("second", config(plain_cluster, "    token: two\n"));
    const auto got = load_kubeconfig(first + ":" + folder.path() + "/absent::" + second);
    ck_assert_msg(got.ok(), "%s", got.ok() ? "" : got.error().c_str());
    ck_assert_text(got->token, "one");
    ck_assert_text(got->server, "https://10.1.2.3:6443");
    ck_assert_part(problem(load_kubeconfig(folder.path() + "/absent")), "absent: No such file");
    ck_assert_part(problem(load_kubeconfig(folder.path() + "/absent:" + folder.path() + "/missing")), "no kubeconfig");
    ck_assert_part(problem(load_kubeconfig("")), "no kubeconfig");
}
END_TEST

START_TEST(a_context_can_be_chosen) {
    Folder folder;
    const auto file = folder.put(
        "config",
        "current-context: a\ncontexts: [{name: a, context: {cluster: ca}}, {name: b, context: {cluster: cb}}]\n"
        "clusters: [{name: ca, cluster: {server: 'https://a'}}, {name: cb, cluster: {server: 'https://b'}}]\n");
    ck_assert_text(load_kubeconfig(file)->server, "https://a");
    ck_assert_text(load_kubeconfig(file, "b")->server, "https://b");
    ck_assert_part(problem(load_kubeconfig(file, "z")), "'z' is not among its contexts");
}
END_TEST

START_TEST(mistakes_are_named_with_file_line_and_key) {
    Folder folder;
    const auto load = [&](const std::string &text) {
        return load_kubeconfig(folder.put("config", text));
    };
    const std::string user = "    token: t\n";
    ck_assert_part(problem(load("- a\n")), "config:1: not a kubeconfig");
    ck_assert_part(problem(load("kind: Config\n")), "no current-context");
    ck_assert_part(problem(load("current-context: x\ncontexts: nonsense\n")), "config:2: contexts: a list is expected");
    ck_assert_part(problem(load(config("    tls-server-name: x\n", user))), "'server'");
    ck_assert_part(problem(load(config("    server: 10.0.0.1\n", user))), "config:10: server: a URL");
    ck_assert_part(problem(load(config("    server: http://10.0.0.1\n", user))),
                   "config:10: server: plain http is refused");
    ck_assert_part(problem(load(config("    server: https://h\n    insecure-skip-tls-verify: true\n", user))),
                   "config:11: insecure-skip-tls-verify: refused");
    ck_assert_part(problem(load(config("    server: https://h\n    certificate-authority-data: '!!'\n", user))),
                   "config:11: certificate-authority-data: not base64");
    ck_assert_part(problem(load(config("    server: https://h\n    certificate-authority: none.crt\n", user))),
                   "config:11: certificate-authority: ");
    ck_assert_part(problem(load(config(plain_cluster, "    username: me\n    password: x\n"))),
                   "config:14: username: ");
    ck_assert_part(problem(load(config(plain_cluster, "    auth-provider: {name: x}\n"))),
                   "config:14: auth-provider: ");
    ck_assert_part(problem(load(config(plain_cluster, "    as: admin\n"))), "config:14: as: impersonation");
    ck_assert_part(problem(load(config(plain_cluster, "    client-key-data: S0VZ\n"))),
                   "client-key without its client-certificate");
    ck_assert_part(problem(load(config(plain_cluster, "    tokenFile: none\n"))), "config:14: tokenFile: ");
    ck_assert_part(problem(load(config(plain_cluster,
                                       "    exec: {command: x, apiVersion: client.authentication.k8s.io/v1alpha1}\n"))),
                   "config:14: apiVersion: apiVersion must be");
    ck_assert_part(problem(load(config(plain_cluster, "    exec: {apiVersion: client.authentication.k8s.io/v1}\n"))),
                   "'command'");
    ck_assert_part(
        problem(load(
            config(plain_cluster,
                   "    exec: {command: x, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always}\n"))),
        "interactiveMode");
    ck_assert_part(problem(load("a: 1\na: 2\n")), "config:2: a: given twice");
}
END_TEST

START_TEST(errors_never_show_a_secret) {
    Folder folder;
    const auto load = [&](const std::string &text) {
        return load_kubeconfig(folder.put("config", text));
    };
    for (const char *user :
         {"    token: \"SECRET with space\"\n", "    client-key-data: 'SECRET!'\n    client-certificate-data: eA==\n",
          "    token: [SECRET]\n"}) {
        const auto got = load(config(plain_cluster, user));
        ck_assert(!got.ok());
        ck_assert_msg(got.error().find("SECRET") == std::string::npos, "%s", got.error().c_str());
    }
}
END_TEST

START_TEST(every_file_is_checked_before_it_is_believed) {
    Folder folder;
    for (const char *name : {"ca", "cert", "key", "token", "program"})
        folder.put(name, "text");
    const auto file = folder.put("config", config("    server: https://10.1.2.3:6443/\n    certificate-authority: ca\n",
                                                  "    client-certificate: cert\n    client-key: key\n    tokenFile: token\n"
                                                  "    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./program}\n"));
    std::map<std::string, bool> asked;  // file -> whether it holds a secret
    std::string bad;
    const FileCheck check = [&](const std::string &path, bool secret) -> Result<void> {
        const std::string name = std::filesystem::path(path).filename().string();
        asked[name] = asked[name] || secret;
        return name == bad ? Result<void>(Error{path + ": not believed"}) : Result<void>{};
    };
    const auto got = load_kubeconfig(file, "", check);
    ck_assert_msg(got.ok(), "%s", problem(got).c_str());
    ck_assert((asked == std::map<std::string, bool>{
                            {"config", false}, {"ca", false}, {"cert", false}, {"key", true}, {"token", true}, {"program", false}}));
    for (const char *name : {"config", "ca", "cert", "key", "token", "program"}) {
        bad = name;
        ck_assert_part(problem(load_kubeconfig(file, "", check)), ": not believed");
        ck_assert_part(problem(got->reload()), ": not believed");
    }
    bad.clear();
    asked.clear();
    ck_assert(load_kubeconfig(folder.put("token-inside", config(plain_cluster, "    token: abc\n")), "", check).ok());
    ck_assert(load_kubeconfig(folder.put("key-inside", config(plain_cluster, "    client-certificate-data: eA==\n    client-key-data: eA==\n")),
                              "", check)
                  .ok());
    ck_assert(asked["token-inside"] && asked["key-inside"]);
}
END_TEST

START_TEST(plain_http_is_taken_on_loopback_only) {
    Folder folder;
    for (const char *host : {"127.0.0.1:8001", "localhost:8001", "[::1]:8001"})
        ck_assert(load_kubeconfig(
                      folder.put("config", config(fmt::format("    server: 'http://{}'\n", host), "    token: t\n")))
                      .ok());
    for (const char *host : {"127.0.0.1.example.com", "128.0.0.1", "127.0.0.1@evil.example", "localhost.evil.example"})
        ck_assert_part(problem(load_kubeconfig(folder.put(
                           "config", config(fmt::format("    server: 'http://{}'\n", host), "    token: t\n")))),
                       "plain http is refused");
}
END_TEST

START_TEST(in_a_pod_the_service_account_is_used) {
    Folder folder;
    ck_assert_part(problem(load_in_cluster(folder.path(), "", "443")), "KUBERNETES_SERVICE_HOST");
    ck_assert_part(problem(load_in_cluster(folder.path(), "10.0.0.1", "443")), "ca.crt");
    folder.put("ca.crt", "CA");
    ck_assert_part(problem(load_in_cluster(folder.path(), "10.0.0.1", "443")), "token");
    folder.put("token", "tok");
    const auto got = load_in_cluster(folder.path(), "fd00::1", "443");
    ck_assert(got.ok());
    ck_assert_text(got->server, "https://[fd00::1]:443");
    ck_assert_text(got->ca_pem, "CA");
    ck_assert_text(got->token_file, (folder.path() + "/token"));
    ck_assert(got->token.empty());
}
END_TEST

START_TEST(base64_goes_there_and_back) {
    for (const char *text : {"", "a", "ab", "abc", "abcd", "\xff\xfe"})
        ck_assert_text(*base64_decode(base64_encode(text)), text);
    ck_assert_text(*base64_decode("YW\nJj\n"), "abc");
    for (const char *text : {"a", "ab", "ab=", "abc", "a===", "====", "ab=c", "a-_b", "abcd="})
        ck_assert_msg(!base64_decode(text), "accepted %s", text);
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "kubeconfig",
        {every_field_is_read, data_wins_over_files_and_paths_count_from_the_file,
         exec_is_read_with_arguments_and_environment, in_a_list_of_files_the_first_definition_wins,
         a_context_can_be_chosen, mistakes_are_named_with_file_line_and_key, errors_never_show_a_secret,
         every_file_is_checked_before_it_is_believed,
         plain_http_is_taken_on_loopback_only, in_a_pod_the_service_account_is_used, base64_goes_there_and_back});
}
