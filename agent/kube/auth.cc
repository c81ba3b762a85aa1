#include "agent/kube/auth.h"

#include <utility>

#include "agent/log.h"

namespace berth::kube {

Auth::Auth(Loop &loop, Credentials credentials, Options options)
    : loop_(loop), credentials_(std::move(credentials)), options_(options) {}

bool Auth::exec_stale() const {
    return !exec_ || (exec_->expires && std::chrono::system_clock::now() + options_.early >= *exec_->expires);
}

void Auth::get(Ready ready) {
    if (credentials_.exec && exec_stale()) {
        // Near its expiry the old credential still serves, should the program fail.
        const bool usable = exec_ && exec_->expires && std::chrono::system_clock::now() < *exec_->expires;
        const bool pausing = !plugin_ && loop_.now() - exec_ran_at_ < options_.exec_pause;
        if (!usable && pausing && !exec_error_.empty())
            return ready(Error{exec_error_});
        if (!plugin_ && !(usable && pausing))
            run_exec();
        if (!usable) {
            waiting_.push_back(std::move(ready));
            return;
        }
    }
    if (!credentials_.token_file.empty() && (!current_ || loop_.now() - token_read_ >= options_.token_file_age))
        reread_token();
    if (!current_)
        build();
    ready(current_);
}

void Auth::reread_token() {
    token_read_ = loop_.now();
    auto token = read_token(credentials_.token_file);
    if (!token) {
        log::warning("the token could not be read again, so the last one is used: {}", token.error());
        return;
    }
    if (*token != file_token_) {
        file_token_ = std::move(*token);
        current_.reset();
    }
}

void Auth::refused(const IdentityPtr &identity) {
    if (identity != current_)
        return;
    if (credentials_.reload) {
        auto fresh = credentials_.reload();
        if (fresh)
            credentials_ = std::move(*fresh);
        else
            log::warning("the credentials could not be read again, so the last ones are used: {}", fresh.error());
    }
    exec_.reset();
    token_read_ = {};
    current_.reset();
}

void Auth::build() {
    auto identity = std::make_shared<Identity>();
    identity->server = credentials_.server;
    identity->tls_server_name = credentials_.tls_server_name;
    identity->proxy_url = credentials_.proxy_url;
    identity->ca_pem = credentials_.ca_pem;
    identity->client_cert_pem = credentials_.client_cert_pem;
    identity->client_key_pem = credentials_.client_key_pem;
    identity->token = file_token_.empty() || credentials_.token_file.empty() ? credentials_.token : file_token_;
    if (exec_) {
        if (!exec_->token.empty())
            identity->token = exec_->token;
        if (!exec_->client_cert_pem.empty()) {
            identity->client_cert_pem = exec_->client_cert_pem;
            identity->client_key_pem = exec_->client_key_pem;
        }
    }
    current_ = std::move(identity);
}

void Auth::run_exec() {
    plugin_ = ExecPlugin::start(loop_, credentials_, options_.exec_timeout,
                                [this](Result<ExecCredential> result) { exec_done(std::move(result)); });
}

void Auth::exec_done(Result<ExecCredential> result) {
    const auto finished = std::move(plugin_);  // its callback runs: freed when this returns
    exec_ran_at_ = loop_.now();
    if (result) {
        exec_ = std::move(*result);
        exec_error_.clear();
        if (!credentials_.token_file.empty())
            reread_token();
        build();
    } else {
        exec_error_ = result.error();
    }
    const auto answer = result ? Result<IdentityPtr>(current_) : Result<IdentityPtr>(Error{exec_error_});
    for (Ready &ready : std::exchange(waiting_, {}))
        ready(answer);
}

}  // namespace berth::kube
