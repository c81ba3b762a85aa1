#include "agent/kube/multi.h"

#include <sys/epoll.h>

namespace berth::kube {

namespace {

constexpr long kept_connections = 16;

}  // namespace

Multi::Multi(Loop &loop, std::function<void()> activity)
    : loop_(loop),
      activity_(std::make_shared<std::function<void()>>(std::move(activity))),
      multi_(curl_multi_init()),
      kicked_(std::make_shared<bool>(false)) {
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Multi::on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Multi::on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_MULTIPLEX));
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, kept_connections);
}

Multi::~Multi() { curl_multi_cleanup(multi_); }

bool Multi::add(CURL *easy) { return multi_ && curl_multi_add_handle(multi_, easy) == CURLM_OK; }

void Multi::remove(CURL *easy) { curl_multi_remove_handle(multi_, easy); }

std::vector<std::pair<CURL *, CURLcode>> Multi::take_finished() {
    std::vector<std::pair<CURL *, CURLcode>> out;
    int left = 0;
    while (const CURLMsg *message = curl_multi_info_read(multi_, &left))
        if (message->msg == CURLMSG_DONE)
            out.emplace_back(message->easy_handle, message->data.result);
    return out;
}

int Multi::on_socket(CURL *, curl_socket_t fd, int what, void *self, void *) {
    static_cast<Multi *>(self)->watch(fd, what);
    return 0;
}

void Multi::watch(int fd, int what) {
    sockets_.erase(fd);  // a descriptor can be registered once only
    if (what == CURL_POLL_REMOVE)
        return;
    const std::uint32_t events = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    sockets_[fd] = loop_.watch_fd(fd, events, [this, fd](std::uint32_t ready) {
        act(fd, (ready & EPOLLIN ? CURL_CSELECT_IN : 0) | (ready & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
                    (ready & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0));
    });
}

int Multi::on_timer(CURLM *, long timeout_ms, void *data) {
    auto *self = static_cast<Multi *>(data);
    self->timer_.reset();
    if (timeout_ms > 0) {
        self->timer_ =
            self->loop_.after(std::chrono::milliseconds(timeout_ms), [self] { self->act(CURL_SOCKET_TIMEOUT, 0); });
    } else if (timeout_ms == 0 && !*self->kicked_) {
        // "Now", but curl must not be entered again from inside; a post is sooner than any timer.
        *self->kicked_ = true;
        self->loop_.post([self, alive = std::weak_ptr<bool>(self->kicked_)] {
            if (const auto kicked = alive.lock()) {
                *kicked = false;
                self->act(CURL_SOCKET_TIMEOUT, 0);
            }
        });
    }
    return 0;
}

void Multi::act(int fd, int mask) {
    const auto activity = activity_;
    int running = 0;
    curl_multi_socket_action(multi_, fd, mask, &running);
    (*activity)();  // may destroy this
}

}  // namespace berth::kube
