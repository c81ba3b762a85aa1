// Api: the handful of writes and reads that Berth makes in Kubernetes, as calls. Bodies are built here and nowhere
// else. Same threading as Http. Errors come back as the Response.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agent/kube/http.h"
#include "agent/kube/pod.h"

namespace berth::kube {

// From this minor version of Kubernetes 1 on, every release honours a Binding's metadata.uid as a precondition (409
// when the pod of that name has another uid). 1.23 and 1.24 do too, but 1.25 and 1.26 lost it until late patch
// releases, and older servers ignore it: below this, read the pod right before binding it and compare.
constexpr int binding_uid_minor = 27;

struct PodRef {
    std::string ns, name, uid;
};

struct Condition {
    std::string type;    // "PodScheduled", "DisruptionTarget"
    std::string status;  // "True", "False"
    std::string reason, message;
    bool changes_status = true;  // false: only reason or message change, and lastTransitionTime stays
};

struct Event {
    std::string type = "Normal";  // or "Warning"
    std::string reason;           // CamelCase word
    std::string action;           // what was done or tried: "Submitting", "Binding", ...
    std::string message;          // cut to 1,024 bytes at a UTF-8 boundary
};

class Api {
  public:
    using Clock = std::function<std::chrono::system_clock::time_point()>;

    // `reporter` names this process in events ("berth-controller", instance = host name).
    Api(Http &http, std::string reporter, std::string instance, Clock clock = std::chrono::system_clock::now);

    using Done = Http::Done;
    using PodDone = std::function<void(Response, std::optional<Pod>)>;  // 404: response.status == 404, no pod

    void get_pod(const PodRef &ref, PodDone done);  // uid is not compared: the caller does
    // POST .../binding with metadata.uid as precondition; annotations are merged into the pod by the server.
    void bind(const PodRef &ref, std::string_view node, const KeyValues &annotations, Done done);
    // Deletes with preconditions.uid. grace < 0: the pod's own.
    void remove(const PodRef &ref, std::int64_t grace_seconds, Done done);
    // PATCHes one condition in status (strategic merge), uid in the body's metadata so that another pod of the name is
    // refused: 409, on old servers too.
    void set_condition(const PodRef &ref, const Condition &condition, Done done);
    // events.k8s.io/v1; failures are logged here, at debug.
    void post_event(const PodRef &ref, const Event &event);
    // The server's minor version, asked once and remembered (done may then be called from inside). 0 when it could not
    // be learned: treat that as an old server; the next call asks again.
    void server_version(std::function<void(int minor)> done);

  private:
    Http &http_;
    std::string reporter_, instance_;
    Clock clock_;
    struct Version;
    std::shared_ptr<Version> version_;
};

}  // namespace berth::kube
