// Nodes: the Node objects that the hollow kubelet plays. Registers them at the start, Ready from the first moment, and
// renews their heartbeat every few minutes (the lab's controller manager has patience). Loop's thread.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "agent/kube/http.h"
#include "agent/loop.h"
#include "agent/result.h"

namespace berth::hollow {

struct Capacity {
    std::int64_t cpu_milli = 0, memory_bytes = 0, gpus = 0;
};

class Nodes {
  public:
    Nodes(Loop &loop, kube::Http &http, std::vector<std::string> names, Capacity each);
    void start();

    bool has(const std::string &name) const { return names_set_.contains(name); }
    const std::vector<std::string> &names() const { return names_; }
    const Capacity &capacity() const { return each_; }

  private:
    void create(const std::string &name);
    void renew(const std::string &name, const std::string &status);
    void renew_all();
    std::string status() const;
    std::string conditions() const;

    Loop &loop_;
    kube::Http &http_;
    std::vector<std::string> names_;
    std::unordered_map<std::string, SourcePtr> names_set_;  // with the timer that tries again
    Capacity each_;
    SourcePtr heartbeat_;
};

// "n[1-3]", "a,b", or both.
Result<std::vector<std::string>> expand_names(std::string_view text);
std::string rfc3339(std::chrono::system_clock::time_point time);

}  // namespace berth::hollow
