#include "agent/controller/doorbell.h"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace berth {

namespace {

constexpr std::size_t most_callers = 256;  // anybody can connect: beyond this an earlier one is sent away
constexpr int most_at_once = 64;

}  // namespace

Doorbell::~Doorbell() {
    while (!callers_.empty())
        hang_up(callers_.begin()->first);
    tcp_source_.reset();
    datagram_source_.reset();
    if (tcp_ >= 0)
        close(tcp_);
    if (datagram_ >= 0)
        close(datagram_);
}

Result<void> Doorbell::open(std::uint16_t tcp_port, const std::string &notify_socket, uid_t slurm_user) {
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(tcp_port);
    const int off = 0, on = 1;
    tcp_ = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (tcp_ >= 0) {
        setsockopt(tcp_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
        setsockopt(tcp_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    }
    socklen_t size = sizeof any;
    if (tcp_ < 0 || bind(tcp_, reinterpret_cast<const sockaddr *>(&any), sizeof any) != 0 || listen(tcp_, 1024) != 0 ||
        getsockname(tcp_, reinterpret_cast<sockaddr *>(&any), &size) != 0)
        return Error{"the doorbell's TCP port " + std::to_string(tcp_port) + ": " + std::strerror(errno)};
    port_ = ntohs(any.sin6_port);
    tcp_source_ = loop_.watch_fd(tcp_, EPOLLIN, [this](std::uint32_t) { accept_all(); });

    sockaddr_un path{};
    path.sun_family = AF_UNIX;
    if (notify_socket.size() >= sizeof path.sun_path)
        return Error{notify_socket + ": longer than a socket's path may be (107 bytes)"};
    notify_socket.copy(path.sun_path, sizeof path.sun_path - 1);
    unlink(notify_socket.c_str());
    datagram_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // slurmctld runs as SlurmUser; nobody else needs to ring here.
    if (datagram_ < 0 || bind(datagram_, reinterpret_cast<const sockaddr *>(&path), sizeof path) != 0 ||
        chmod(notify_socket.c_str(), 0600) != 0 ||
        (geteuid() == 0 && chown(notify_socket.c_str(), slurm_user, static_cast<gid_t>(-1)) != 0))
        return Error{notify_socket + ": " + std::strerror(errno)};
    datagram_source_ = loop_.watch_fd(datagram_, EPOLLIN, [this](std::uint32_t) { drain(); });
    return {};
}

void Doorbell::accept_all() {
    // A bounded number at a time: whoever rings without end must not keep the loop from its other work.
    int fd = -1;
    for (int i = 0; i < most_at_once && (fd = accept4(tcp_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; ++i) {
        if (callers_.size() >= most_callers)
            hang_up(callers_.begin()->first);
        callers_[fd] = loop_.watch_fd(fd, EPOLLIN, [this, fd](std::uint32_t) { hear_out(fd); });
    }
    ring_();
}

void Doorbell::hear_out(int fd) {
    char buffer[4096];
    const ssize_t n = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        hang_up(fd);
}

void Doorbell::hang_up(int fd) {
    callers_.erase(fd);
    close(fd);
}

void Doorbell::drain() {
    char buffer[64];
    for (int i = 0; i < most_at_once && recv(datagram_, buffer, sizeof buffer, MSG_DONTWAIT) >= 0; ++i) {
    }
    ring_();
}

}  // namespace berth
