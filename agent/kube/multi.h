// Multi: a curl multi handle driven by the event loop: curl says which sockets and when, the loop calls back, curl
// works on. No code of ours but small copying callbacks runs inside curl, so transfers may be added, removed and
// everything dropped at any time. Everything happens on the loop's thread.
#pragma once

#include <curl/curl.h>

#include <functional>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/loop.h"

namespace berth::kube {

class Multi {
  public:
    // `activity` is called after curl has worked: bytes may have arrived, transfers may be finished. It may destroy
    // this.
    Multi(Loop &loop, std::function<void()> activity);
    ~Multi();  // every easy handle must have been removed
    Multi(const Multi &) = delete;
    Multi &operator=(const Multi &) = delete;

    bool add(CURL *easy);
    void remove(CURL *easy);
    // Handles that finished since the last call; they are still added.
    std::vector<std::pair<CURL *, CURLcode>> take_finished();

  private:
    static int on_socket(CURL *easy, curl_socket_t fd, int what, void *self, void *socket);
    static int on_timer(CURLM *multi, long timeout_ms, void *self);
    void watch(int fd, int what);
    void act(int fd, int mask);

    Loop &loop_;
    std::shared_ptr<std::function<void()>> activity_;
    CURLM *multi_;
    std::unordered_map<int, SourcePtr> sockets_;
    SourcePtr timer_;
    std::shared_ptr<bool> kicked_;  // set while a call for "now" is posted; its loss tells that call that we are gone
};

}  // namespace berth::kube
