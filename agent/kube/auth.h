// Auth: what to present to the API server right now. It re-reads token files, runs exec programs before their
// credential expires, and reads everything again when the server refuses what it was given.
// Everything happens on the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "agent/kube/credentials.h"
#include "agent/kube/exec_plugin.h"
#include "agent/loop.h"

namespace berth::kube {

// An immutable snapshot; requests under way keep the one they began with.
struct Identity {
    std::string server, tls_server_name, proxy_url, ca_pem, client_cert_pem, client_key_pem, token;
};
using IdentityPtr = std::shared_ptr<const Identity>;

class Auth {
  public:
    struct Options {
        std::chrono::seconds token_file_age{60};  // a token file is read again when its content is older
        std::chrono::milliseconds exec_timeout{60'000};
        std::chrono::seconds early{30};  // an exec credential is renewed this long before it expires
        // After a failed run, and between runs while the old credential still serves.
        std::chrono::milliseconds exec_pause{1'000};
    };
    using Ready = std::function<void(Result<IdentityPtr>)>;

    Auth(Loop &loop, Credentials credentials, Options options);
    Auth(const Auth &) = delete;
    Auth &operator=(const Auth &) = delete;

    // Calls ready at once, from inside, unless an exec program must run first. Dropping the Auth drops the calls.
    void get(Ready ready);
    // The server refused this identity: read everything again for the next get(). Called for one that has been replaced
    // already, it does nothing, so that a burst of refusals costs one reload.
    void refused(const IdentityPtr &identity);

  private:
    void build();
    void reread_token();
    void run_exec();
    void exec_done(Result<ExecCredential> result);
    bool exec_stale() const;

    Loop &loop_;
    Credentials credentials_;
    Options options_;
    IdentityPtr current_;
    std::string file_token_;
    std::chrono::steady_clock::time_point token_read_{};
    std::optional<ExecCredential> exec_;
    std::chrono::steady_clock::time_point exec_ran_at_{};
    std::string exec_error_;
    std::unique_ptr<ExecPlugin> plugin_;
    std::vector<Ready> waiting_;
};

}  // namespace berth::kube
