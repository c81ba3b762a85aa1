#include "agent/web/server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace berth::web {

namespace {

constexpr int most_at_once = 16;                  // the loop has other work
constexpr std::size_t most_unwanted = 64 * 1024;  // bytes after a request

const char *words(int status) {
    switch (status) {
    case 200: return "OK";
    case 400: return "Bad Request";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 431: return "Request Header Fields Too Large";
    case 503: return "Service Unavailable";
    case 505: return "HTTP Version Not Supported";
    default: return "Error";
    }
}

// Nothing is kept by anybody, loaded from elsewhere, or shown inside another site.
constexpr std::string_view fixed_headers =
    "Cache-Control: no-store\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "Connection: close\r\n";

std::uint16_t bound_port(int fd) {
    sockaddr_storage storage{};
    socklen_t length = sizeof storage;
    if (getsockname(fd, reinterpret_cast<sockaddr *>(&storage), &length) != 0)
        return 0;
    return ntohs(storage.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in &>(storage).sin_port
                                              : reinterpret_cast<const sockaddr_in6 &>(storage).sin6_port);
}

}  // namespace

Response plain(int status, std::string text) {
    return {status, "text/plain; charset=utf-8", std::make_shared<const std::string>(std::move(text))};
}

Server::Server(Loop &loop, Handler handler, Limits limits) : loop_(loop), handler_(std::move(handler)), limits_(limits) {}

Server::~Server() {
    source_.reset();
    if (fd_ >= 0)
        close(fd_);
    while (!connections_.empty())
        drop(connections_.begin()->first);
}

Result<void> Server::listen(const Address &address) {
    const int one = 1;
    fd_ = socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // A port is free again as soon as its last owner is gone.
    if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd_, reinterpret_cast<const sockaddr *>(&address.storage), address.length) != 0 || ::listen(fd_, 64) != 0)
        return Error{std::strerror(errno)};
    port_ = bound_port(fd_);
    loopback_ = address.loopback();
    source_ = loop_.watch_fd(fd_, EPOLLIN, [this](std::uint32_t) { accept_all(); });
    return {};
}

void Server::accept_all() {
    int fd = -1;
    for (int i = 0; i < most_at_once && (fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; ++i) {
        // Who holds connections open for nothing must not keep others out.
        if (connections_.size() >= limits_.most_connections)
            drop(connections_.begin()->first);
        const std::uint64_t id = next_++;
        Connection &connection = connections_[id];
        connection.fd = fd;
        watch(id, connection);
        connection.timer = loop_.after(limits_.patience, [this, id] { drop(id); });
    }
}

void Server::ready(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end())
        return;
    Connection &connection = found->second;
    if (!receive(connection) || (connection.answered && !send_rest(connection)))
        return drop(id);
    watch(id, connection);
}

void Server::watch(std::uint64_t id, Connection &connection) {
    const std::uint32_t events = (connection.hears_no_more ? 0u : EPOLLIN) | (connection.answered && !connection.sent_all ? EPOLLOUT : 0u);
    if (events == connection.events)
        return;
    connection.events = events;
    connection.source.reset();  // a descriptor can be watched once
    connection.source = loop_.watch_fd(connection.fd, events, [this, id](std::uint32_t) { ready(id); });
}

bool Server::receive(Connection &connection) {
    if (connection.hears_no_more)
        return true;
    char buffer[4096];
    const ssize_t n = recv(connection.fd, buffer, sizeof buffer, 0);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    if (n == 0) {
        connection.hears_no_more = true;  // it may still read
        return connection.answered && !connection.sent_all;
    }
    if (connection.answered) {
        // Not wanted; but a socket that is closed with bytes unread takes the answer with it.
        connection.unwanted += static_cast<std::size_t>(n);
        return connection.unwanted < most_unwanted;
    }
    connection.in.append(buffer, static_cast<std::size_t>(n));
    const Parsed parsed = parse_request(connection.in);
    if (parsed.status != 0)
        answer(connection, parsed);
    return true;
}

void Server::answer(Connection &connection, const Parsed &parsed) {
    Response response;
    if (parsed.status != 200)
        response = plain(parsed.status, fmt::format("{} {}\n", parsed.status, words(parsed.status)));
    else if (loopback_ && !parsed.request.host.empty() && !plain_host(parsed.request.host))
        response = plain(403, "This page is asked for by its address, or as localhost.\n");
    else
        response = handler_(parsed.request);
    connection.answered = true;
    connection.head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n", response.status, words(response.status),
                                  response.type, response.body ? response.body->size() : 0, response.status == 405 ? "Allow: GET, HEAD\r\n" : "",
                                  fixed_headers);
    if (!parsed.request.head)
        connection.body = std::move(response.body);
}

bool Server::send_rest(Connection &connection) {
    if (connection.sent_all)
        return true;
    const std::size_t head = connection.head.size(), body = connection.body ? connection.body->size() : 0;
    while (connection.sent < head + body) {
        const bool in_head = connection.sent < head;
        const char *from = in_head ? connection.head.data() + connection.sent : connection.body->data() + (connection.sent - head);
        const ssize_t n = send(connection.fd, from, in_head ? head - connection.sent : head + body - connection.sent, MSG_NOSIGNAL);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        connection.sent += static_cast<std::size_t>(n);
    }
    connection.sent_all = true;
    shutdown(connection.fd, SHUT_WR);  // the other end closes when it has read all
    return !connection.hears_no_more;
}

void Server::drop(std::uint64_t id) {
    const auto found = connections_.find(id);
    if (found == connections_.end())
        return;
    Connection gone = std::move(found->second);
    connections_.erase(found);
    gone.source.reset();
    gone.timer.reset();
    close(gone.fd);
}

}  // namespace berth::web
