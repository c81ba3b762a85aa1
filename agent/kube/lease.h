// LeaseStore: one coordination.k8s.io/v1 Lease, as the controllers' election reads and writes it. Writes name the version that was read:
// 409 when anybody has written since. Same threading as Http.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "agent/kube/http.h"
#include "agent/lifecycle/election.h"

namespace berth::kube {

class LeaseStore {
  public:
    LeaseStore(Http &http, std::string ns, std::string name, std::chrono::milliseconds timeout);

    // 2xx comes with the record; what could not be understood is a Response of status 0, like no answer.
    using Done = std::function<void(Response, std::optional<LeaseRecord>)>;
    void read(Done done);
    void create(const LeaseRecord &record, Done done);
    // A merge patch: what others wrote onto the Lease stays.
    void write(const LeaseRecord &record, Done done);

    std::string full_name() const { return ns_ + "/" + name_; }

  private:
    void send(Request request, Done done);

    Http &http_;
    const std::string ns_, name_;
    const std::chrono::milliseconds timeout_;
};

// For the tool and for tests. Numbers out of bounds (election.h) are brought within them, for anybody may have written them.
Result<LeaseRecord> decode_lease(std::string_view body);
// The members of the object that are ours, with `version` as precondition when there is one.
std::string encode_lease(const LeaseRecord &record, std::string_view name);
std::string lease_path(std::string_view ns, std::string_view name);

}  // namespace berth::kube
