// AgentLink: one connection to the node's agent (SOCK_SEQPACKET: a packet is a message). Never blocks but in wait().
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "proto/message.h"

namespace berth {

class AgentLink {
  public:
    explicit AgentLink(std::string socket_path) : path_(std::move(socket_path)) {}
    ~AgentLink();
    AgentLink(const AgentLink &) = delete;
    AgentLink &operator=(const AgentLink &) = delete;

    // Connects when there is no connection. False at once when the agent is absent or its queue is full.
    bool send(const Message &message);
    // The agent's next message; nothing when none came in time or the connection broke (then connected() is false).
    std::optional<Message> wait(std::chrono::milliseconds time);
    bool connected() const { return fd_ >= 0; }

  private:
    bool connect();
    void close();

    std::string path_;
    int fd_ = -1;
};

}  // namespace berth
