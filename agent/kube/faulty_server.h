// FaultyServer: a fault-injecting fake of an API server's HTTP side, for what a real one cannot be made to show on
// demand: 429, 410 in a stream, stalls, cut connections, a 401 and then not. Plain HTTP/1.1 on 127.0.0.1, on the test's
// own loop. Tests only.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "agent/kube/credentials.h"
#include "agent/loop.h"

namespace berth::test {

class FaultyServer {
  public:
    class Connection;

    // One request and the means to answer it, at any time or never.
    struct Exchange {
        std::string method, path, head, body;
        std::weak_ptr<Connection> connection;

        bool has_header(std::string_view line) const { return head.find(line) != std::string::npos; }
        // `headers` are complete lines, each with its "\r\n".
        void respond(int status, std::string_view text, std::string_view headers = "") const;
        void begin_stream() const;                   // 200 with a body of unknown length
        void send(std::string_view text) const;      // one piece of it
        void end_stream() const;                     // its proper end
        void send_raw(std::string_view text) const;  // bytes as they are
        void cut() const;                            // closes the connection, without any end
    };
    using Handler = std::function<void(Exchange)>;

    FaultyServer(Loop &loop, Handler handler);
    ~FaultyServer();

    std::string url() const;
    kube::Credentials credentials() const;
    unsigned connections() const { return accepted_; }  // so far

  private:
    void accept_one();

    Loop &loop_;
    Handler handler_;
    int fd_;
    unsigned short port_ = 0;
    unsigned accepted_ = 0;
    std::set<std::shared_ptr<Connection>> open_;
    SourcePtr source_;
};

// Runs the loop until somebody calls quit(0); false when the deadline passed first.
bool run(Loop &loop, std::chrono::milliseconds deadline = std::chrono::seconds(20));

}  // namespace berth::test
