// PodGroups: Berth as the controller of PodGroups (scheduling.x-k8s.io), whose status it keeps true, and as the one who sets the
// "scheduled" condition of those of scheduling.k8s.io. Everything is computed from the group and its pods as they are, so a crash
// forgets nothing; written only when it differs, shortly after the last change. On the loop's thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>

#include "agent/controller/workload.h"
#include "agent/kube/api.h"
#include "agent/kube/object.h"
#include "agent/loop.h"
#include "agent/workload/grouping.h"

namespace berth {

// What a group's status is made of.
struct GroupView {
    std::int64_t pods = 0, bound = 0, running = 0, succeeded = 0, failed = 0;
    std::int64_t min_member = 1;
    bool submitted = false;  // its placeholder waits or runs
};
// The phase, by the words of the PodGroup API:
//   Pending        the group has no pods yet
//   PreScheduling  it has pods, fewer than it must have
//   Scheduling     its placeholder waits, or its pods are being bound
//   Scheduled      all that it must have are bound
//   Running        so many run, or have run
//   Unknown        it was scheduled, and lacks pods now
//   Finished       so many have succeeded, and none is left
//   Failed         one has failed, and none is left that could still succeed
// Finished and Failed stay when the pods are removed.
std::string phase_of(const GroupView &view, const std::string &before);

class PodGroups {
  public:
    PodGroups(Loop &loop, kube::Api &api) : loop_(loop), api_(api) {}

    void on_group(const ObjectPtr &object, bool removed);
    // A pod of the group; late members with a placeholder of their own count too.
    void on_pod(const std::string &group_uid, const kube::Pod &pod);
    void on_pod_removed(const std::string &group_uid, const std::string &pod_uid);
    // The state of the group's gang.
    void on_state(const std::string &group_uid, State state);
    // The group's own condition, where its API has one. While the gang is docked it stays True whatever happens to others of the group,
    // and by the newer APIs it does so for ever.
    void tell_condition(const std::string &group_uid, bool scheduled, const std::string &reason, const std::string &message);
    void post_event(const std::string &group_uid, const kube::Event &event);
    // When the group began to be scheduled, by its status; 0: not yet.
    std::time_t started(const std::string &group_uid) const;

  private:
    struct PodState {
        bool bound = false;
        kube::Phase phase = kube::Phase::pending;
        bool failed = false;  // by itself: pods that are being deleted end somehow, which says nothing
        std::string owner;    // "Job/ring"
    };
    struct Group {
        ObjectPtr object;                      // null while only its pods are known
        std::map<std::string, PodState> pods;  // by uid
        bool submitted = false;
        bool docked = false;
        std::optional<kube::Condition> wanted, told;  // its condition, as it is to be and as it was written last; with an object
        bool telling = false;
        SourcePtr telling_again;
        bool writing = false;
        SourcePtr timer;
    };
    void write_soon(const std::string &uid);
    void write(const std::string &uid);
    void write_condition(const std::string &uid);
    kube::Object::GroupStatus status_of(const Group &group) const;

    Loop &loop_;
    kube::Api &api_;
    std::map<std::string, Group> groups_;  // by uid
};

}  // namespace berth
