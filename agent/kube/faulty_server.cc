#include "agent/kube/faulty_server.h"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>

namespace berth::test {

class FaultyServer::Connection : public std::enable_shared_from_this<FaultyServer::Connection> {
  public:
    Connection(Loop &loop, int fd, FaultyServer &server) : loop_(loop), fd_(fd), server_(&server) {}
    ~Connection() { close_now(); }

    void listen() {
        in_ = loop_.watch_fd(fd_, EPOLLIN, [this](std::uint32_t) { readable(); });
    }

    void write_text(std::string_view text) {
        if (fd_ < 0)
            return;
        out_.append(text);
        flush();
    }

    void close_now() {
        in_.reset();
        if (fd_ >= 0)
            close(fd_);
        fd_ = -1;
    }

  private:
    void readable() {
        const auto self = shared_from_this();
        char chunk[65536];
        const ssize_t n = recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
        if (n <= 0) {
            close_now();
            server_->open_.erase(self);
            return;
        }
        got_.append(chunk, static_cast<std::size_t>(n));
        while (fd_ >= 0 && take_request()) {
        }
    }

    bool take_request() {
        const auto end = got_.find("\r\n\r\n");
        if (end == std::string::npos)
            return false;
        std::size_t length = 0;
        const auto field = got_.find("Content-Length: ");
        if (field != std::string::npos && field < end)
            length = std::strtoul(got_.c_str() + field + 16, nullptr, 10);
        if (got_.size() < end + 4 + length)
            return false;
        Exchange exchange;
        exchange.head = got_.substr(0, end + 2);
        exchange.body = got_.substr(end + 4, length);
        got_.erase(0, end + 4 + length);
        const auto first = exchange.head.find(' '), second = exchange.head.find(' ', first + 1);
        exchange.method = exchange.head.substr(0, first);
        exchange.path = exchange.head.substr(first + 1, second - first - 1);
        exchange.connection = weak_from_this();
        server_->handler_(std::move(exchange));
        return true;
    }

    void flush() {
        while (!out_.empty()) {
            const ssize_t n = ::send(fd_, out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
            if (n < 0) {
                if (errno == EAGAIN)
                    in_ = loop_.watch_fd(fd_, EPOLLIN | EPOLLOUT, [this](std::uint32_t ready) {
                        if (ready & EPOLLOUT)
                            flush();
                        if (ready & EPOLLIN)
                            readable();
                    });
                return;
            }
            out_.erase(0, static_cast<std::size_t>(n));
        }
        listen_again();
    }

    void listen_again() {
        in_.reset();
        listen();
    }

    Loop &loop_;
    int fd_;
    FaultyServer *server_;
    std::string got_, out_;
    SourcePtr in_;
};

void FaultyServer::Exchange::send_raw(std::string_view text) const {
    if (const auto to = connection.lock())
        to->write_text(text);
}

void FaultyServer::Exchange::respond(int status, std::string_view text, std::string_view headers) const {
    send_raw(fmt::format("HTTP/1.1 {} Said So\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n{}",
                         status, text.size(), headers, text));
}

void FaultyServer::Exchange::begin_stream() const {
    send_raw("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
}

void FaultyServer::Exchange::send(std::string_view text) const {
    send_raw(fmt::format("{:x}\r\n{}\r\n", text.size(), text));
}

void FaultyServer::Exchange::end_stream() const { send_raw("0\r\n\r\n"); }

void FaultyServer::Exchange::cut() const {
    if (const auto to = connection.lock())
        to->close_now();
}

FaultyServer::FaultyServer(Loop &loop, Handler handler)
    : loop_(loop), handler_(std::move(handler)), fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (fd_ < 0 || bind(fd_, reinterpret_cast<sockaddr *>(&address), size) != 0 || listen(fd_, 64) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr *>(&address), &size) != 0)
        std::abort();
    port_ = ntohs(address.sin_port);
    source_ = loop_.watch_fd(fd_, EPOLLIN, [this](std::uint32_t) { accept_one(); });
}

FaultyServer::~FaultyServer() {
    source_.reset();
    for (const auto &connection : open_)
        connection->close_now();
    close(fd_);
}

void FaultyServer::accept_one() {
    const int fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    ++accepted_;
    const auto connection = std::make_shared<Connection>(loop_, fd, *this);
    open_.insert(connection);
    connection->listen();
}

std::string FaultyServer::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

kube::Credentials FaultyServer::credentials() const {
    kube::Credentials out;
    out.server = url();
    return out;
}

bool run(Loop &loop, std::chrono::milliseconds deadline) {
    const SourcePtr timer = loop.after(deadline, [&] { loop.quit(1); });
    return loop.run() == 0;
}

}  // namespace berth::test
