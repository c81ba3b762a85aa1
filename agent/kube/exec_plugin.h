// ExecPlugin: one run of a kubeconfig's exec program, which prints an ExecCredential. No shell, its own process group,
// standard input empty, a time-out, and a bound on what it may print. The loop never waits for it.
// Everything happens on the loop's thread. Dropping the object kills the program, and done is not called.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/kube/credentials.h"
#include "agent/loop.h"
#include "agent/result.h"

namespace berth::kube {

struct ExecCredential {
    std::string token;
    std::string client_cert_pem, client_key_pem;
    std::optional<std::chrono::system_clock::time_point> expires;  // none: good until the server refuses it
};

// What a program printed; `api_version` is the one it was asked for.
Result<ExecCredential> parse_exec_credential(std::string_view json, const std::string &api_version);
// "2026-01-31T12:00:00Z", fractions and offsets allowed.
std::optional<std::chrono::system_clock::time_point> parse_rfc3339(std::string_view text);

class ExecPlugin {
  public:
    using Done = std::function<void(Result<ExecCredential>)>;

    // done is called later, never from inside start(). `credentials` is read only during the call.
    static std::unique_ptr<ExecPlugin> start(Loop &loop, const Credentials &credentials,
                                             std::chrono::milliseconds timeout, Done done);
    ~ExecPlugin();
    ExecPlugin(const ExecPlugin &) = delete;
    ExecPlugin &operator=(const ExecPlugin &) = delete;

  private:
    ExecPlugin(Loop &loop, const Credentials::Exec &exec, Done done);

    std::optional<Error> spawn(const Credentials &credentials);
    SourcePtr collect(int fd, std::string &into, std::size_t most);
    void check_ended();
    void finish(Result<ExecCredential> result);
    void kill_group();

    Loop &loop_;
    std::string command_, api_version_, install_hint_;
    Done done_;
    pid_t pid_ = -1;
    int out_fd_ = -1, err_fd_ = -1;
    bool overflow_ = false, timed_out_ = false;
    std::string out_, err_;
    SourcePtr out_source_, err_source_, poll_, deadline_;
};

}  // namespace berth::kube
