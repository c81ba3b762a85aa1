// Api: the handful of writes and reads that Berth makes in Kubernetes, as calls. Bodies are built here and nowhere else.
// Same threading as Http. Errors come back as the Response.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "agent/kube/http.h"
#include "agent/kube/pod.h"

namespace berth::kube {

struct PodRef {
    std::string ns, name, uid;
};

struct Condition {
    std::string type;    // "PodScheduled", "DisruptionTarget"
    std::string status;  // "True", "False"
    std::string reason, message;
};

struct Event {
    std::string type = "Normal";  // or "Warning"
    std::string reason;           // CamelCase word
    std::string action;           // what was done or tried: "Submitting", "Binding", ...
    std::string message;          // cut to 1,024 bytes at a UTF-8 boundary
};

class Api {
  public:
    // `reporter` names this process in events ("berth-controller", instance = host name).
    Api(Http &http, std::string reporter, std::string instance);

    using Done = Http::Done;
    using PodDone = std::function<void(Response, std::optional<Pod>)>;  // 404: response.status == 404, no pod

    void get_pod(const PodRef &ref, PodDone done);  // uid is not compared: the caller does
    // POST .../binding with metadata.uid as precondition; annotations are merged into the pod by the server.
    void bind(const PodRef &ref, std::string_view node, const KeyValues &annotations, Done done);
    // Deletes with preconditions.uid. grace < 0: the pod's own.
    void remove(const PodRef &ref, std::int64_t grace_seconds, Done done);
    // PATCHes one condition in status (strategic merge), uid in the body's metadata so that another pod of the name is refused.
    void set_condition(const PodRef &ref, const Condition &condition, Done done);
    // events.k8s.io/v1; failures are logged here, at debug.
    void post_event(const PodRef &ref, const Event &event);

  private:
    Http &http_;
    std::string reporter_, instance_;
};

}  // namespace berth::kube
