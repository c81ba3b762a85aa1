// EventServer: the socket on which the node's SPANK plugin speaks (docs/protocol.md). Only root and SlurmUser are heard.
// Malformed messages are logged and their connection closed. Loop's thread only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/loop.h"
#include "agent/result.h"
#include "proto/message.h"

namespace berth::node {

using ConnectionId = std::uint64_t;

class EventServer {
  public:
    using Handler = std::function<void(ConnectionId, const Message &)>;

    EventServer(Loop &loop, std::string path, uid_t slurm_user, Handler handler);
    ~EventServer();

    Result<void> listen();
    // Answers on a connection; does nothing when its other end has gone.
    void reply(ConnectionId connection, const Message &message);

  private:
    struct Connection {
        int fd;
        SourcePtr source;
    };
    void accept_all();
    void receive(ConnectionId id);
    void close_connection(ConnectionId id);

    Loop &loop_;
    const std::string path_;
    const uid_t slurm_user_;
    Handler handler_;
    int fd_ = -1;
    SourcePtr source_;
    ConnectionId next_ = 1;
    std::map<ConnectionId, Connection> connections_;
};

}  // namespace berth::node
