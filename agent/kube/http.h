// Http: requests to one API server over libcurl's multi interface, driven by the event loop. Connections are reused,
// HTTP/2 is taken where offered, at most `max_in_flight` plain requests run at once (streams count apart) and the rest
// wait their turn. Nothing here blocks; every call and callback happens on the loop's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "agent/fence.h"
#include "agent/kube/credentials.h"
#include "agent/loop.h"

namespace berth::kube {

struct Request {
    std::string method = "GET";
    std::string path;  // begins with '/', query included
    std::string body;
    std::string content_type = "application/json";
    std::string accept = "application/json";
    std::chrono::milliseconds timeout{30'000};
    bool can_wait = false;  // sent one by one when nothing else has been asked for a moment, or after `longest_wait`
};

struct Response {
    int status = 0;  // 0: no answer (connection refused, time-out, TLS error): see error
    std::string body;
    std::string error;  // a sentence for the log, empty when status is 2xx; else with the server's message
    std::chrono::seconds retry_after{0};
    std::time_t date = 0;  // the server's clock by its Date header; 0: it did not say

    bool ok() const { return status >= 200 && status < 300; }
    // The request may have been carried out although no answer says so.
    bool unsure() const { return status == 0 || status >= 500; }
};

// Keeps a stream (watch) open; dropping it closes the stream, and neither callback comes afterwards.
class Stream {
  public:
    virtual ~Stream() = default;
};

class Http {
  public:
    struct Options {
        unsigned max_in_flight = 64;
        std::chrono::seconds connect_timeout{10};
        std::string user_agent = "berthd";
        // Bodies beyond this are dropped with an error: a list page of 500 pods is about 3 MB, nothing else comes near.
        std::size_t most_body = 64 << 20;
        // While it is closed nothing but GET is sent, and the callers get no answer (status 0). It is asked when a request's turn comes, and
        // by curl again once it has a connection: also what was under way before this process was stopped is held back. Outlives the Http.
        const Fence *fence = nullptr;
        // What can wait (Request::can_wait) does so until nothing else was under way for `quiet`. Beyond `most_waiting` the oldest is dropped,
        // and its caller gets no answer (status 0).
        std::chrono::milliseconds quiet{100}, longest_wait{2'000};
        std::size_t most_waiting = 5'000;
    };
    using Done = std::function<void(Response)>;

    virtual ~Http() = default;
    // One request, one answer. 429 with Retry-After (and 503) are retried inside, up to the request's timeout; a 401
    // reloads the credentials and tries once more. done is never called from inside send(). The timeout starts when the
    // request's turn comes, not while it waits behind others. Destroying the Http drops all calls; done may do that.
    virtual void send(Request request, Done done) = 0;
    // A response whose body is handed over as it arrives. `idle` without a byte ends the stream with an error. done
    // gets the status and, for a status that is not 2xx, the body.
    virtual std::unique_ptr<Stream> stream(Request request, std::chrono::seconds idle,
                                           std::function<void(std::string_view)> chunk, Done done) = 0;
    // Whether the last attempt (request, stream, or bytes on one) got an answer of any status; false before the first.
    virtual bool reachable() const = 0;

    static std::unique_ptr<Http> create(Loop &loop, Credentials credentials, Options options);
};

std::string url_escape(std::string_view text);  // for path segments and query values

}  // namespace berth::kube
