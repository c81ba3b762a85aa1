// Server: a small HTTP server on the event loop, for a few readers on the same host: GET and HEAD, one request a connection.
//
// It must never cost the loop more than a moment, whoever speaks to it: sockets never block, at most `most_connections` are open (one more
// closes the oldest), a head is at most most_request bytes, and a connection lives no longer than `patience`, however slowly its other end
// sends or reads. Requests that name a host other than an address or localhost are refused while it listens on loopback (address.h).
// Loop's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/loop.h"
#include "agent/result.h"
#include "agent/web/address.h"
#include "agent/web/request.h"

namespace berth::web {

struct Response {
    int status = 200;
    std::string type = "text/plain; charset=utf-8";
    std::shared_ptr<const std::string> body;
};
Response plain(int status, std::string text);

class Server {
  public:
    using Handler = std::function<Response(const Request &)>;
    struct Limits {
        std::size_t most_connections = 32;
        std::chrono::milliseconds patience{10'000};
    };

    Server(Loop &loop, Handler handler) : Server(loop, std::move(handler), Limits{}) {}
    Server(Loop &loop, Handler handler, Limits limits);
    ~Server();
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    Result<void> listen(const Address &address);
    std::uint16_t port() const { return port_; }

  private:
    struct Connection {
        int fd = -1;
        SourcePtr source, timer;
        std::string in;
        std::string head;                         // of the answer
        std::shared_ptr<const std::string> body;  // null: none
        std::size_t sent = 0;                     // of both
        std::size_t unwanted = 0;                 // bytes that came after the request
        std::uint32_t events = 0;                 // that `source` watches
        bool answered = false, sent_all = false, hears_no_more = false;
    };

    void accept_all();
    void ready(std::uint64_t id);
    void watch(std::uint64_t id, Connection &connection);
    bool receive(Connection &connection);  // false: it is over
    void answer(Connection &connection, const Parsed &parsed);
    bool send_rest(Connection &connection);  // likewise
    void drop(std::uint64_t id);

    Loop &loop_;
    const Handler handler_;
    const Limits limits_;
    int fd_ = -1;
    std::uint16_t port_ = 0;
    bool loopback_ = true;
    SourcePtr source_;
    std::uint64_t next_ = 1;
    std::map<std::uint64_t, Connection> connections_;  // the oldest first
};

}  // namespace berth::web
