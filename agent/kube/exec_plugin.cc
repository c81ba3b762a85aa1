#include "agent/kube/exec_plugin.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <simdjson.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <ctime>

#include "agent/kube/base64.h"
#include "agent/kube/json_text.h"

extern char **environ;

namespace berth::kube {

namespace {

constexpr std::size_t most_output = 1 << 20;
constexpr std::size_t most_complaint = 4 << 10;
constexpr std::chrono::milliseconds poll_interval{20};

// KUBERNETES_EXEC_INFO: what the program may know of the cluster it is for.
std::string exec_info(const Credentials &credentials) {
    std::string cluster;
    if (credentials.exec->cluster_info) {
        cluster = ",\"cluster\":{\"server\":" + json_quote(credentials.server);
        if (!credentials.tls_server_name.empty())
            cluster += ",\"tls-server-name\":" + json_quote(credentials.tls_server_name);
        if (!credentials.proxy_url.empty())
            cluster += ",\"proxy-url\":" + json_quote(credentials.proxy_url);
        if (!credentials.ca_pem.empty())
            cluster += ",\"certificate-authority-data\":" + json_quote(base64_encode(credentials.ca_pem));
        cluster += "}";
    }
    return fmt::format(R"({{"apiVersion":{},"kind":"ExecCredential","spec":{{"interactive":false{}}}}})",
                       json_quote(credentials.exec->api_version), cluster);
}

std::vector<std::string> environment(const Credentials &credentials) {
    std::vector<std::pair<std::string, std::string>> extra = credentials.exec->env;
    extra.emplace_back("KUBERNETES_EXEC_INFO", exec_info(credentials));
    std::vector<std::string> out;
    for (char **entry = environ; entry && *entry; ++entry) {
        const std::string_view text(*entry);
        bool replaced = false;
        for (const auto &[name, value] : extra)
            replaced = replaced || (text.starts_with(name) && text.size() > name.size() && text[name.size()] == '=');
        if (!replaced)
            out.emplace_back(text);
    }
    for (const auto &[name, value] : extra)
        out.push_back(name + "=" + value);
    return out;
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
    std::vector<char *> out;
    for (std::string &text : texts)
        out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

void close_fd(int &fd) {
    if (fd >= 0)
        close(fd);
    fd = -1;
}

}  // namespace

std::optional<std::chrono::system_clock::time_point> parse_rfc3339(std::string_view text) {
    const std::string copy(text);
    std::tm tm{};
    const char *rest = strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &tm);
    if (!rest)
        return std::nullopt;
    if (*rest == '.')
        do
            ++rest;
        while (*rest >= '0' && *rest <= '9');
    long offset = 0;
    if (*rest == '+' || *rest == '-') {
        int hours = 0, minutes = 0, used = 0;
        if (std::sscanf(rest + 1, "%2d:%2d%n", &hours, &minutes, &used) != 2 || used != 5 || rest[6] != '\0')
            return std::nullopt;
        offset = (hours * 3600L + minutes * 60L) * (*rest == '-' ? -1 : 1);
    } else if (std::strcmp(rest, "Z") != 0 && std::strcmp(rest, "z") != 0) {
        return std::nullopt;
    }
    // "9999-12-31" is how some say "never", and later than the clock can count.
    using Clock = std::chrono::system_clock;
    constexpr std::time_t latest = std::chrono::duration_cast<std::chrono::seconds>(Clock::duration::max()).count() - 86400;
    return Clock::from_time_t(std::clamp<std::time_t>(timegm(&tm) - offset, -latest, latest));
}

// Errors never quote the output: it holds the secret.
Result<ExecCredential> parse_exec_credential(std::string_view json, const std::string &api_version) {
    simdjson::dom::parser parser;
    simdjson::dom::element root;
    if (parser.parse(simdjson::padded_string(json)).get(root) != simdjson::SUCCESS)
        return Error{"what it printed is not JSON"};
    std::string_view kind, version, text;
    if (root["kind"].get(kind) != simdjson::SUCCESS || kind != "ExecCredential")
        return Error{"what it printed is no ExecCredential"};
    if (root["apiVersion"].get(version) != simdjson::SUCCESS || version != api_version)
        return Error{fmt::format("it answered with another apiVersion than {}", api_version)};
    simdjson::dom::object status;
    if (root["status"].get(status) != simdjson::SUCCESS)
        return Error{"the ExecCredential has no status"};
    ExecCredential out;
    if (status["token"].get(text) == simdjson::SUCCESS)
        out.token = text;
    if (status["clientCertificateData"].get(text) == simdjson::SUCCESS)
        out.client_cert_pem = text;
    if (status["clientKeyData"].get(text) == simdjson::SUCCESS)
        out.client_key_pem = text;
    if (status["expirationTimestamp"].get(text) == simdjson::SUCCESS) {
        out.expires = parse_rfc3339(text);
        if (!out.expires)
            return Error{"the ExecCredential's expirationTimestamp is no RFC 3339 time"};
    }
    for (const char c : out.token)
        if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f)
            return Error{"the ExecCredential's token holds bytes that cannot be part of a token"};
    if (out.client_cert_pem.empty() != out.client_key_pem.empty())
        return Error{"the ExecCredential has a certificate without its key, or a key without its certificate"};
    if (out.token.empty() && out.client_cert_pem.empty())
        return Error{"the ExecCredential has neither a token nor a certificate"};
    return out;
}

ExecPlugin::ExecPlugin(Loop &loop, const Credentials::Exec &exec, Done done)
    : loop_(loop),
      command_(exec.command),
      api_version_(exec.api_version),
      install_hint_(exec.install_hint),
      done_(std::move(done)) {}

ExecPlugin::~ExecPlugin() {
    out_source_.reset();
    err_source_.reset();
    close_fd(out_fd_);
    close_fd(err_fd_);
    if (pid_ > 0) {
        kill_group();
        while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {  // killed: this is short
        }
    }
}

void ExecPlugin::kill_group() {
    kill(-pid_, SIGKILL);
    kill(pid_, SIGKILL);
}

std::unique_ptr<ExecPlugin> ExecPlugin::start(Loop &loop, const Credentials &credentials,
                                              std::chrono::milliseconds timeout, Done done) {
    std::unique_ptr<ExecPlugin> self(new ExecPlugin(loop, *credentials.exec, std::move(done)));
    ExecPlugin *plugin = self.get();
    if (auto error = plugin->spawn(credentials)) {
        plugin->poll_ =
            loop.after(std::chrono::milliseconds(0), [plugin, text = std::move(*error)] { plugin->finish(text); });
        return self;
    }
    plugin->out_source_ = plugin->collect(plugin->out_fd_, plugin->out_, most_output);
    plugin->err_source_ = plugin->collect(plugin->err_fd_, plugin->err_, most_complaint);
    plugin->deadline_ = loop.after(timeout, [plugin] {
        plugin->timed_out_ = true;
        plugin->kill_group();
        plugin->check_ended();
    });
    return self;
}

std::optional<Error> ExecPlugin::spawn(const Credentials &credentials) {
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        const int code = errno;
        close_fd(out[0]), close_fd(out[1]);
        return Error{fmt::format("cannot start {}: {}", command_, std::strerror(code))};
    }
    std::vector<std::string> argv_texts{command_}, env_texts = environment(credentials);
    argv_texts.insert(argv_texts.end(), credentials.exec->args.begin(), credentials.exec->args.end());
    auto argv = pointers(argv_texts), env = pointers(env_texts);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    posix_spawn_file_actions_adddup2(&actions, err[1], 2);
#if __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#endif
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);  // the loop blocks signals that it reads from a descriptor
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    pid_t pid = -1;
    const int code = posix_spawnp(&pid, command_.c_str(), &actions, &attributes, argv.data(), env.data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close_fd(out[1]);
    close_fd(err[1]);
    if (code != 0) {
        close_fd(out[0]);
        close_fd(err[0]);
        return Error{fmt::format("cannot start the credential program {}: {}{}{}", command_, std::strerror(code),
                                 install_hint_.empty() ? "" : "; ", for_log(install_hint_))};
    }
    pid_ = pid;
    out_fd_ = out[0];
    err_fd_ = err[0];
    fcntl(out_fd_, F_SETFL, O_NONBLOCK);
    fcntl(err_fd_, F_SETFL, O_NONBLOCK);
    return std::nullopt;
}

// Reads fd to its end. A full buffer of standard output is an error; of standard error the rest is dropped.
SourcePtr ExecPlugin::collect(int fd, std::string &into, std::size_t most) {
    return loop_.watch_fd(fd, EPOLLIN, [this, fd, &into, most](std::uint32_t) {
        char chunk[4096];
        const ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0) {
            into.append(chunk, std::min(static_cast<std::size_t>(n), most - into.size()));
            if (fd != out_fd_ || into.size() < most)
                return;
            overflow_ = true;
            kill_group();
        }
        (fd == out_fd_ ? out_source_ : err_source_).reset();
        check_ended();
    });
}

// There is no descriptor to wait on for the end of a child everywhere we run, so once its output has ended (or it was
// killed) it is asked for, a few times at most.
void ExecPlugin::check_ended() {
    const bool killed = timed_out_ || overflow_;
    if (!killed && (out_source_ || err_source_))
        return;
    int status = 0;
    const pid_t r = waitpid(pid_, &status, WNOHANG);
    if (r == 0 || (r < 0 && errno == EINTR)) {
        poll_ = loop_.after(poll_interval, [this] { check_ended(); });
        return;
    }
    pid_ = -1;
    if (timed_out_)
        return finish(Error{fmt::format("the credential program {} took too long and was killed", command_)});
    if (overflow_)
        return finish(
            Error{fmt::format("the credential program {} printed more than {} bytes", command_, most_output)});
    if (r > 0 && status != 0) {
        const std::string how = WIFEXITED(status) ? fmt::format("ended with exit code {}", WEXITSTATUS(status))
                                                  : fmt::format("was ended by signal {}", WTERMSIG(status));
        // 127 is a wrapper's, and the shell's, word for a program that is not there.
        const bool absent = WIFEXITED(status) && WEXITSTATUS(status) == 127 && !install_hint_.empty();
        return finish(Error{fmt::format("the credential program {} {}{}{}{}{}", command_, how, err_.empty() ? "" : ": ", for_log(err_),
                                        absent ? "; " : "", absent ? for_log(install_hint_) : "")});
    }
    auto credential = parse_exec_credential(out_, api_version_);
    if (!credential)
        return finish(Error{fmt::format("the credential program {}: {}", command_, credential.error())});
    finish(std::move(credential));
}

void ExecPlugin::finish(Result<ExecCredential> result) {
    out_source_.reset();
    err_source_.reset();
    poll_.reset();
    deadline_.reset();
    const Done done = std::move(done_);
    done(std::move(result));  // may destroy this
}

}  // namespace berth::kube
