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
#include "agent/kube/object.h"
#include "agent/kube/pod.h"

namespace berth::kube {

// From this minor version of Kubernetes 1 on, every release honours a Binding's metadata.uid as a precondition (409
// when the pod of that name has another uid). 1.23 and 1.24 do too, but 1.25 and 1.26 lost it until late patch
// releases, and older servers ignore it: below this, read the pod right before binding it and compare.
constexpr int binding_uid_minor = 27;

struct PodRef {
    std::string ns, name, uid;
};

using ClaimRef = PodRef;

// Any object, as an event names it.
struct ObjectRef {
    ObjectRef(std::string api, std::string its_kind, std::string its_ns, std::string its_name, std::string its_uid)
        : api_version(std::move(api)),
          kind(std::move(its_kind)),
          ns(std::move(its_ns)),
          name(std::move(its_name)),
          uid(std::move(its_uid)) {}
    ObjectRef(const Object &object) : ObjectRef(object.api_version, object.kind, object.ns, object.name, object.uid) {}

    std::string api_version, kind, ns, name, uid;
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
    bool can_wait = false;        // as Request::can_wait; it is lost when this process stops meanwhile
};

// What of a node is to be changed; what is not said stays.
struct NodeChange {
    std::optional<bool> unschedulable;
    std::vector<std::pair<std::string, std::optional<std::string>>> annotations;  // nothing: removed
    std::optional<std::vector<Taint>> taints;                                      // all of them

    bool empty() const { return !unschedulable && annotations.empty() && !taints; }
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
    // Asks for the pod's eviction, with preconditions.uid: 429 while a PodDisruptionBudget forbids it.
    void evict(const PodRef &ref, Done done);
    // PATCHes one condition in status (strategic merge), uid in the body's metadata so that another pod of the name is
    // refused: 409, on old servers too.
    void set_condition(const PodRef &ref, const Condition &condition, Done done);
    // events.k8s.io/v1, with the time of the call; failures are logged here, at debug.
    void post_event(const PodRef &ref, const Event &event);
    void post_event(const ObjectRef &ref, const Event &event);

    // Writes what differs between group.status and `status` into a PodGroup of scheduling.x-k8s.io: a merge patch of its status with
    // the uid as precondition (409 when the group of that name is another). When nothing differs nothing is sent, and done is called
    // from inside with status 200.
    void patch_group_status(const Object &group, const Object::GroupStatus &status, Done done);
    // One condition of a PodGroup of scheduling.k8s.io, uid likewise. An empty type is the one by which the group's version says
    // that it is scheduled; its lastTransitionTime then moves only when its status does.
    void set_group_condition(const Object &group, const Condition &condition, Done done);

    using ClaimDone = std::function<void(Response, std::optional<Claim>)>;
    void get_claim(const ClaimRef &ref, ClaimDone done);  // uid is not compared
    // Tells the storage provisioner for which node the volume of a WaitForFirstConsumer claim is to be made; uid as above.
    void select_node_for_claim(const ClaimRef &ref, std::string_view node, Done done);

    // Only if the node is still as it was read: 409 when anybody has written it since, and the watch will tell what.
    void patch_node(const Node &node, const NodeChange &change, Done done);
    void post_node_event(const Node &node, const Event &event);

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
