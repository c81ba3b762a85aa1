#include "agent/kube/transfer.h"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>

#include <algorithm>

#include "agent/kube/decode.h"

namespace berth::kube {

namespace {

constexpr std::size_t most_error_body = 1 << 20;  // of a stream that was refused

// Unacknowledged data means a dead peer much sooner than the kernel's quarter of an hour; so do unanswered keepalives.
int on_connect_socket(void *, curl_socket_t fd, curlsocktype) {
    const unsigned milliseconds = 30'000;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
    return CURL_SOCKOPT_OK;
}

// Curl copies the bytes while a handle is set up for a connection; the identity outlives that.
void set_blob(CURL *easy, CURLoption option, const std::string &pem) {
    curl_blob blob{const_cast<char *>(pem.data()), pem.size(), CURL_BLOB_NOCOPY};
    curl_easy_setopt(easy, option, &blob);
}

struct Address {
    std::string scheme, host, port, rest;  // host with brackets when it is IPv6
};

Address split(const std::string &url) {
    Address out;
    const auto colon = url.find("://");
    out.scheme = url.substr(0, colon);
    std::size_t begin = colon + 3;
    const std::size_t end = std::min(url.find('/', begin), url.size());
    const std::size_t bracket = url.find(']', begin);
    const std::size_t from = bracket != std::string::npos && bracket < end ? bracket : begin;
    const std::size_t port = url.find(':', from);
    out.rest = url.substr(end);
    if (port != std::string::npos && port < end) {
        out.host = url.substr(begin, port - begin);
        out.port = url.substr(port + 1, end - port - 1);
    } else {
        out.host = url.substr(begin, end - begin);
        out.port = out.scheme == "https" ? "443" : "80";
    }
    return out;
}

}  // namespace

Transfer::~Transfer() {
    curl_easy_cleanup(easy_);
    curl_slist_free_all(headers_);
    curl_slist_free_all(connect_to_);
}

std::string Transfer::what() const { return request.method + " " + request.path.substr(0, request.path.find('?')); }

Response Transfer::failure(std::string_view why) const {
    Response out;
    out.error = fmt::format("{}: {}", what(), why);
    return out;
}

bool Transfer::prepare(const Http::Options &options, IdentityPtr identity, std::chrono::milliseconds timeout,
                       bool fresh_connection) {
    if (easy_)
        curl_easy_reset(easy_);  // keeps its connections
    else if (!(easy_ = curl_easy_init()))
        return false;
    curl_slist_free_all(std::exchange(headers_, nullptr));
    curl_slist_free_all(std::exchange(connect_to_, nullptr));
    identity_ = std::move(identity);
    body_.clear();
    arrived.clear();
    answered_ = too_large_ = held_back_ = false;
    options_ = &options;
    most_body_ = streaming ? most_error_body : options.most_body;
    curl_error_[0] = '\0';

    const auto set = [this](CURLoption option, auto value) {
        curl_easy_setopt(easy_, option, value);
    };
    const Address address = split(identity_->server);
    std::string url = identity_->server + request.path;
    const auto header = [this](const std::string &line) {
        headers_ = curl_slist_append(headers_, line.c_str());
    };
    if (!identity_->tls_server_name.empty()) {
        // Certificate and SNI go by the URL's host, so the URL carries the name and the connection goes elsewhere.
        const std::string &name = identity_->tls_server_name;
        url = fmt::format("{}://{}:{}{}{}", address.scheme, name, address.port, address.rest, request.path);
        connect_to_ = curl_slist_append(
            nullptr, fmt::format("{}:{}:{}:{}", name, address.port, address.host, address.port).c_str());
        set(CURLOPT_CONNECT_TO, connect_to_);
        header(fmt::format("Host: {}:{}", address.host, address.port));
    }
    header("Accept: " + request.accept);
    header("Expect:");
    if (!identity_->token.empty())
        header("Authorization: Bearer " + identity_->token);
    if (request.method != "GET" && !request.body.empty())
        header("Content-Type: " + request.content_type);

    set(CURLOPT_PRIVATE, static_cast<void *>(this));
    set(CURLOPT_URL, url.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_USERAGENT, options.user_agent.c_str());
    set(CURLOPT_ERRORBUFFER, curl_error_);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_FOLLOWLOCATION, 0L);
    if (request.method == "GET") {
        set(CURLOPT_HTTPGET, 1L);
    } else {
        set(CURLOPT_POSTFIELDS, request.body.data());  // not copied: the request lives as long as the handle
        set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
        set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    }

    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    set(CURLOPT_PIPEWAIT, 1L);  // share the first connection rather than open many
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_TCP_KEEPIDLE, 15L);
    set(CURLOPT_TCP_KEEPINTVL, 5L);
    set(CURLOPT_SOCKOPTFUNCTION, &on_connect_socket);
    set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(std::chrono::milliseconds(options.connect_timeout).count()));
    set(CURLOPT_TIMEOUT_MS, streaming ? 0L : static_cast<long>(timeout.count()));
    if (fresh_connection)
        set(CURLOPT_FRESH_CONNECT, 1L);
#if LIBCURL_VERSION_NUM >= 0x075000
    set(CURLOPT_MAXLIFETIME_CONN, 300L);  // spreads us over the servers behind one address again, after one was away
#endif

    set(CURLOPT_SSL_VERIFYPEER, 1L);
    set(CURLOPT_SSL_VERIFYHOST, 2L);
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!identity_->ca_pem.empty()) {
        set_blob(easy_, CURLOPT_CAINFO_BLOB, identity_->ca_pem);
        set(CURLOPT_CAPATH, static_cast<char *>(nullptr));  // this authority and no other
    }
    if (!identity_->client_cert_pem.empty()) {
        set(CURLOPT_SSLCERTTYPE, "PEM");
        set(CURLOPT_SSLKEYTYPE, "PEM");
        set_blob(easy_, CURLOPT_SSLCERT_BLOB, identity_->client_cert_pem);
        set_blob(easy_, CURLOPT_SSLKEY_BLOB, identity_->client_key_pem);
    }
    if (!identity_->proxy_url.empty()) {
        set(CURLOPT_PROXY, identity_->proxy_url.c_str());
        set(CURLOPT_NOPROXY, "");
    } else if (is_loopback(host_of(identity_->server))) {
        set(CURLOPT_PROXY, "");  // whatever the environment says
    }

#if LIBCURL_VERSION_NUM >= 0x075000
    set(CURLOPT_PREREQFUNCTION, &Transfer::on_connected);
    set(CURLOPT_PREREQDATA, static_cast<void *>(this));
#endif
    set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
    set(CURLOPT_WRITEDATA, static_cast<void *>(this));
    set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
    set(CURLOPT_HEADERDATA, static_cast<void *>(this));
    return true;
}

// The last moment before the request leaves.
int Transfer::on_connected(void *data, char *, char *, int, int) {
    auto *self = static_cast<Transfer *>(data);
    self->held_back_ = !self->may_be_sent(*self->options_);
    return self->held_back_ ? 1 : 0;  // 1 aborts: CURL_PREREQFUNC_ABORT
}

std::size_t Transfer::on_header(char *line, std::size_t size, std::size_t count, void *data) {
    auto *self = static_cast<Transfer *>(data);
    long status = 0;
    curl_easy_getinfo(self->easy_, CURLINFO_RESPONSE_CODE, &status);  // a proxy's CONNECT answer does not count here
    if (status != 0)
        self->answered_ = true;
    constexpr std::string_view date = "date:";
    if (const std::string text(line, size * count); strncasecmp(text.c_str(), date.data(), date.size()) == 0)
        self->date_ = std::max<std::time_t>(curl_getdate(text.c_str() + date.size(), nullptr), 0);
    if (self->streaming && self->on_arrival)
        self->on_arrival(*self);
    return size * count;
}

std::size_t Transfer::on_body(char *data, std::size_t size, std::size_t count, void *self_data) {
    auto *self = static_cast<Transfer *>(self_data);
    const std::size_t bytes = size * count;
    long status = 0;
    curl_easy_getinfo(self->easy_, CURLINFO_RESPONSE_CODE, &status);
    if (self->streaming && status >= 200 && status < 300) {
        self->arrived.append(data, bytes);
        self->on_arrival(*self);
        return bytes;
    }
    if (self->body_.size() + bytes > self->most_body_) {
        self->too_large_ = true;
        return 0;  // curl ends the transfer
    }
    self->body_.append(data, bytes);
    return bytes;
}

Response Transfer::take_response(CURLcode code) {
    if (too_large_)
        return failure(fmt::format("the answer is larger than {} bytes and was dropped", most_body_));
    if (held_back_)
        return failure(Fence::closed_text);
    if (code != CURLE_OK) {
        const char *why = curl_error_[0] ? curl_error_ : curl_easy_strerror(code);
        return failure(answered_ ? fmt::format("the answer broke off: {}", why) : std::string(why));
    }
    Response out;
    long status = 0;
    curl_off_t wait = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &wait);
    out.status = static_cast<int>(status);
    out.date = date_;
    out.retry_after = std::chrono::seconds(std::clamp<curl_off_t>(wait, 0, 3600));
    out.body = std::move(body_);
    body_.clear();
    if (!out.ok()) {
        const std::string message = status_message(out.body);
        out.error = fmt::format("{}: HTTP {}{}{}", what(), out.status, message.empty() ? "" : ": ", message);
    }
    return out;
}

}  // namespace berth::kube
