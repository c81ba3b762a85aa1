#include "agent/controller/pod_groups.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <set>

#include "agent/log.h"

namespace berth {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds gather{100};      // a gang's pods change together: one write for all of them
constexpr milliseconds try_again{2'000};
constexpr std::size_t most_owners = 3;

// The API group whose PodGroups have a status of phases.
bool has_phases(const kube::Object &object) { return object.is(kube::x_scheduling_group, "PodGroup"); }

bool is_group(const kube::Object &object) { return object.kind == "PodGroup"; }

bool same_words(const kube::Condition &a, const kube::Condition &b) {
    return a.status == b.status && a.reason == b.reason && a.message == b.message;
}

}  // namespace

std::string phase_of(const GroupView &v, const std::string &before) {
    const bool was_over = before == "Finished" || before == "Failed";
    if (v.pods == 0)
        return was_over ? before : "Pending";
    const std::int64_t left = v.pods - v.succeeded - v.failed;
    if (v.succeeded >= v.min_member && left == 0)
        return "Finished";
    if (v.failed > 0 && left + v.succeeded < v.min_member)
        return "Failed";
    const std::int64_t ran = v.running + v.succeeded + v.failed;
    if (ran >= v.min_member)
        return "Running";
    if (v.bound >= v.min_member)
        return "Scheduled";
    if (before == "Scheduled" || before == "Running" || before == "Unknown")
        return v.submitted ? "Unknown" : "PreScheduling";
    if (v.submitted)
        return "Scheduling";
    return "PreScheduling";
}

void PodGroups::on_group(const ObjectPtr &object, bool removed) {
    if (!is_group(*object))
        return;
    if (removed) {
        groups_.erase(object->uid);
        return;
    }
    groups_[object->uid].object = object;
    write_soon(object->uid);
}

void PodGroups::on_pod(const std::string &group_uid, const kube::Pod &pod) {
    PodState &state = groups_[group_uid].pods[pod.uid];
    state.bound = !pod.node_name.empty();
    state.phase = pod.phase;
    state.failed = state.failed || (pod.phase == kube::Phase::failed && !pod.deleting);
    state.owner = pod.owner.empty() ? "Pod/" + pod.name : pod.owner.kind + "/" + pod.owner.name;
    write_soon(group_uid);
}

void PodGroups::on_pod_removed(const std::string &group_uid, const std::string &pod_uid) {
    const auto found = groups_.find(group_uid);
    if (found == groups_.end())
        return;
    found->second.pods.erase(pod_uid);
    if (found->second.pods.empty() && !found->second.object)
        groups_.erase(found);
    else
        write_soon(group_uid);
}

void PodGroups::on_state(const std::string &group_uid, State state) {
    const auto found = groups_.find(group_uid);
    if (found == groups_.end())
        return;
    Group &group = found->second;
    const bool submitted = state == State::submitting || state == State::unsure || state == State::queued || state == State::berthed ||
                           state == State::docked;
    group.docked = state == State::docked;
    if (group.submitted != submitted) {
        group.submitted = submitted;
        write_soon(group_uid);
    }
    if (state == State::docked)
        tell_condition(group_uid, true, "Scheduled", "all pods that the group must have are bound");
}

kube::Object::GroupStatus PodGroups::status_of(const Group &group) const {
    kube::Object::GroupStatus status = group.object->status;
    GroupView view;
    view.min_member = std::max<std::int64_t>(1, group.object->min_member);
    view.submitted = group.submitted;
    std::set<std::string> owners;
    for (const auto &[uid, pod] : group.pods) {
        ++view.pods;
        view.bound += pod.bound;
        view.running += pod.bound && pod.phase == kube::Phase::running;
        view.succeeded += pod.phase == kube::Phase::succeeded;
        view.failed += pod.failed;
        owners.insert(pod.owner);
    }
    const std::string &before = group.object->status.phase;
    status.phase = phase_of(view, before);
    status.scheduled = view.bound;
    status.running = view.running;
    if (view.pods == 0 && (status.phase == "Finished" || status.phase == "Failed"))
        return status;  // the pods are tidied away, what they came to is not
    status.succeeded = view.succeeded;
    status.failed = view.failed;
    status.occupied_by.clear();
    std::size_t listed = 0;
    for (const std::string &owner : owners) {
        if (++listed > most_owners) {
            status.occupied_by += fmt::format(" and {} more", owners.size() - most_owners);
            break;
        }
        status.occupied_by += (status.occupied_by.empty() ? "" : ", ") + owner;
    }
    const bool waits = status.phase == "Pending" || status.phase == "PreScheduling";
    const bool begins_anew = (before == "Finished" || before == "Failed") && status.phase != before;
    if (waits || begins_anew)
        status.schedule_start_time.clear();
    if (!waits && status.schedule_start_time.empty())
        status.schedule_start_time = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
    return status;
}

void PodGroups::write_soon(const std::string &uid) {
    Group &group = groups_[uid];
    if (group.timer || group.writing || !group.object)
        return;
    group.timer = loop_.after(gather, [this, uid] { write(uid); });
}

void PodGroups::write(const std::string &uid) {
    const auto found = groups_.find(uid);
    if (found == groups_.end())
        return;
    Group &group = found->second;
    group.timer.reset();
    if (!group.object || !has_phases(*group.object) || group.object->deleting)
        return;
    const kube::Object::GroupStatus status = status_of(group);
    if (status == group.object->status)
        return;
    group.writing = true;
    api_.patch_group_status(*group.object, status, [this, uid, status](const kube::Response &response) {
        const auto still = groups_.find(uid);
        if (still == groups_.end())
            return;
        Group &now = still->second;
        now.writing = false;
        if (response.ok()) {
            // As the server has it now; the watch tells the same a little later.
            auto object = std::make_shared<kube::Object>(*now.object);
            object->status = status;
            now.object = object;
            return write_soon(uid);
        }
        if (response.status == 404 || response.status == 409)
            return;  // it is gone, or another one of its name is there
        log::warning("writing the status of PodGroup {}: {}; trying again", now.object->full_name(), response.error);
        now.timer = loop_.after(try_again, [this, uid] { write(uid); });
    });
}

void PodGroups::tell_condition(const std::string &group_uid, bool scheduled, const std::string &reason, const std::string &message) {
    const auto found = groups_.find(group_uid);
    if (found == groups_.end() || !found->second.object || has_phases(*found->second.object))
        return;
    Group &group = found->second;
    if (!group.wanted) {
        group.wanted = group.told = kube::Condition{"", group.object->condition_status, group.object->condition_reason,
                                                    group.object->condition_message};
    }
    const bool was_true = group.docked || (kube::scheduled_for_good(group.object->api_version) && group.wanted->status == "True");
    if (!scheduled && was_true)
        return;
    group.wanted = kube::Condition{"", scheduled ? "True" : "False", reason, message};
    write_condition(group_uid);
}

// One write at a time, or an older one might arrive last.
void PodGroups::write_condition(const std::string &uid) {
    const auto found = groups_.find(uid);
    if (found == groups_.end() || !found->second.wanted || found->second.object->deleting)
        return;
    Group &group = found->second;
    if (group.telling || same_words(*group.wanted, *group.told))
        return;
    group.telling = true;
    group.telling_again.reset();
    kube::Object before = *group.object;  // the watch may lag behind what was written last
    before.condition_status = group.told->status;
    api_.set_group_condition(before, *group.wanted, [this, uid, written = *group.wanted](const kube::Response &response) {
        const auto still = groups_.find(uid);
        if (still == groups_.end() || !still->second.wanted)
            return;  // it was removed meanwhile
        Group &now = still->second;
        now.telling = false;
        if (response.ok()) {
            now.told = written;
            return write_condition(uid);
        }
        if (response.status == 404 || response.status == 409)
            return;  // it is gone, or another one of its name is there
        log::warning("writing the condition of PodGroup {}: {}; trying again", now.object->full_name(), response.error);
        now.telling_again = loop_.after(try_again, [this, uid] { write_condition(uid); });
    });
}

void PodGroups::post_event(const std::string &group_uid, const kube::Event &event) {
    const auto found = groups_.find(group_uid);
    if (found == groups_.end() || !found->second.object)
        return;
    api_.post_event(kube::ObjectRef(*found->second.object), event);
}

std::time_t PodGroups::started(const std::string &group_uid) const {
    const auto found = groups_.find(group_uid);
    if (found == groups_.end() || !found->second.object)
        return 0;
    std::tm time{};
    const std::string &text = found->second.object->status.schedule_start_time;
    return text.empty() || strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time) == nullptr ? 0 : timegm(&time);
}

}  // namespace berth
