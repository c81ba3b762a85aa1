// Transfer: one request on its way: its curl handle, what has arrived, and how to tell what went wrong in a sentence.
// It knows nothing of queues, retries or the loop; Http does. Used on the loop's thread only.
#pragma once

#include <curl/curl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/kube/auth.h"
#include "agent/kube/http.h"

namespace berth::kube {

class Transfer {
  public:
    Transfer(Request what_to_send, bool as_stream, Http::Done when_done)
        : request(std::move(what_to_send)), streaming(as_stream), done(std::move(when_done)) {}
    ~Transfer();
    Transfer(const Transfer &) = delete;
    Transfer &operator=(const Transfer &) = delete;

    // Makes the handle ready for another attempt with this identity. False: out of memory.
    bool prepare(const Http::Options &options, IdentityPtr identity, std::chrono::milliseconds timeout,
                 bool fresh_connection);
    // Reads always; writes while the fence is open.
    bool may_be_sent(const Http::Options &options) const { return request.method == "GET" || !options.fence || options.fence->open(); }
    CURL *easy() const { return easy_; }
    const IdentityPtr &identity() const { return identity_; }

    // The answer after curl finished with `code`. The transfer can be prepared again afterwards.
    Response take_response(CURLcode code);
    Response failure(std::string_view why) const;  // status 0
    bool answered() const { return answered_; }    // the server has sent a status in this attempt

    const Request request;
    const bool streaming;
    Http::Done done;
    std::function<void(std::string_view)> chunk;  // streams

    std::string arrived;  // of a 2xx stream: not handed over yet
    std::chrono::steady_clock::time_point deadline{}, last_byte{};
    std::function<void(Transfer &)> on_arrival;  // stream bytes came; runs inside curl, so it must only take note
    bool retried_auth = false;
    bool added = false;    // to the multi handle
    bool running = false;  // counts as in flight
    bool cancelled = false;
    SourcePtr timer;  // wait before a retry; the idle clock of a stream

  private:
    static std::size_t on_body(char *data, std::size_t size, std::size_t count, void *self);
    static int on_connected(void *self, char *, char *, int, int);
    static std::size_t on_header(char *data, std::size_t size, std::size_t count, void *self);
    std::string what() const;  // "GET /api/v1/pods", without the query

    CURL *easy_ = nullptr;
    curl_slist *headers_ = nullptr, *connect_to_ = nullptr;
    IdentityPtr identity_;
    std::string body_;
    std::size_t most_body_ = 0;
    const Http::Options *options_ = nullptr;
    bool answered_ = false, too_large_ = false, held_back_ = false;
    std::time_t date_ = 0;
    char curl_error_[CURL_ERROR_SIZE] = {};
};

}  // namespace berth::kube
