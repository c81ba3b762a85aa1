// PodFeed: every pod that is bound to some node, by a list in pages and a watch. Its own small one, not the agent's: tests
// should not see the cluster through the code they test. Calls come on the loop's thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "agent/kube/http.h"
#include "agent/loop.h"
#include "test/hollow/pod_spec.h"

namespace berth::hollow {

class PodFeed {
  public:
    struct Handlers {
        std::function<void(PodSpec &&)> changed;
        std::function<void(const std::string &uid)> removed;
        std::function<void(const std::unordered_set<std::string> &uids)> synced;  // after a list: all there are
    };

    PodFeed(Loop &loop, kube::Http &http, Handlers handlers);
    void start() { list(""); }

  private:
    void list(const std::string &continue_token);
    void listed(const kube::Response &response);
    void watch();
    void take(std::string_view chunk);
    void take_line(std::string_view line);
    void again(const std::string &why, bool relist);

    Loop &loop_;
    kube::Http &http_;
    Handlers handlers_;
    simdjson::dom::parser parser_;
    std::string resource_version_, buffer_;
    std::unordered_set<std::string> uids_;
    std::unique_ptr<kube::Stream> stream_;
    SourcePtr retry_;
    bool gone_ = false;  // the server no longer knows our resource version
};

}  // namespace berth::hollow
