#include "spank/agent_link.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace berth {

AgentLink::~AgentLink() { close(); }

void AgentLink::close() {
    if (fd_ >= 0)
        ::close(fd_);
    fd_ = -1;
}

bool AgentLink::connect() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path)
        return false;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0)
        return false;
    if (::connect(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0)
        close();
    return connected();
}

bool AgentLink::send(const Message &message) {
    if (!connected() && !connect())
        return false;
    const std::string text = encode(message);
    if (!text.empty() && ::send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()))
        return true;
    close();
    return false;
}

std::optional<Message> AgentLink::wait(std::chrono::milliseconds time) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, connected() ? 1 : 0, static_cast<int>(time.count())) <= 0)
        return std::nullopt;
    std::string text(max_message + 1, '\0');
    const ssize_t n = recv(fd_, text.data(), text.size(), MSG_DONTWAIT);
    if (n <= 0) {
        close();
        return std::nullopt;
    }
    text.resize(static_cast<std::size_t>(n));
    std::string why;
    return decode(text, why);
}

}  // namespace berth
