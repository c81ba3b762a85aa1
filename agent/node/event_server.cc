#include "agent/node/event_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "agent/log.h"

namespace berth::node {

namespace {
constexpr std::size_t max_connections = 2048;  // each is a prolog or epilog of this node
constexpr int most_at_once = 64;               // the loop has other work
}

EventServer::EventServer(Loop &loop, std::string path, uid_t slurm_user, Handler handler)
    : loop_(loop), path_(std::move(path)), slurm_user_(slurm_user), handler_(std::move(handler)) {}

EventServer::~EventServer() {
    source_.reset();
    if (fd_ >= 0)
        close(fd_);
    while (!connections_.empty())
        close_connection(connections_.begin()->first);
}

Result<void> EventServer::listen() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path_.size() >= sizeof address.sun_path)
        return Error{path_ + ": longer than a socket's path may be (107 bytes); choose a shorter node.run_dir"};
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    unlink(path_.c_str());
    fd_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd_ < 0 || bind(fd_, reinterpret_cast<const sockaddr *>(&address), sizeof address) != 0 ||
        chmod(path_.c_str(), 0600) != 0 || ::listen(fd_, 1024) != 0)
        return Error{path_ + ": " + std::strerror(errno)};
    source_ = loop_.watch_fd(fd_, EPOLLIN, [this](std::uint32_t) { accept_all(); });
    return {};
}

void EventServer::accept_all() {
    int fd = -1;
    for (int i = 0; i < most_at_once && (fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; ++i) {
        ucred peer{};
        socklen_t size = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || (peer.uid != 0 && peer.uid != slurm_user_)) {
            log::warning("{}: a connection from uid {} is refused: only root and SlurmUser are heard", path_, peer.uid);
            close(fd);
            continue;
        }
        if (connections_.size() >= max_connections) {
            log::warning("{}: more than {} connections; one is closed, its plugin tries again", path_, max_connections);
            close(fd);
            continue;
        }
        const ConnectionId id = next_++;
        connections_[id] = Connection{fd, loop_.watch_fd(fd, EPOLLIN, [this, id](std::uint32_t) { receive(id); })};
    }
}

void EventServer::receive(ConnectionId id) {
    const auto found = connections_.find(id);
    if (found == connections_.end())
        return;
    std::string text(max_message + 1, '\0');
    const ssize_t n = recv(found->second.fd, text.data(), text.size(), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close_connection(id);
        return;
    }
    text.resize(static_cast<std::size_t>(n));
    std::string why;
    const auto message = decode(text, why);
    if (!message) {
        log::warning("{}: a message is refused: {}", path_, why);
        close_connection(id);
        return;
    }
    handler_(id, *message);
}

void EventServer::reply(ConnectionId id, const Message &message) {
    const auto found = connections_.find(id);
    if (found == connections_.end())
        return;
    const std::string text = encode(message);
    if (send(found->second.fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        close_connection(id);
}

void EventServer::close_connection(ConnectionId id) {
    const auto found = connections_.find(id);
    if (found == connections_.end())
        return;
    found->second.source.reset();
    close(found->second.fd);
    connections_.erase(found);
}

}  // namespace berth::node
