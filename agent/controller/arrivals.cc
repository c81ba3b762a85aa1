// Pods and their owners come and go: which workload a pod belongs to, and what its owners say of it.
#include <fmt/format.h>

#include <algorithm>

#include "agent/controller/controller.h"
#include "agent/keys.h"
#include "agent/log.h"

namespace berth {

namespace {

// Whether a change of the pod can change what would be submitted; our own writes to its status cannot.
bool same_request(const kube::Pod &a, const kube::Pod &b) {
    return a.annotations == b.annotations && a.gated == b.gated && a.need == b.need &&
           a.active_deadline_seconds == b.active_deadline_seconds;
}

bool has_owner(const kube::Pod &pod) {
    return !pod.owner.empty() || !pod.scheduling_group.empty() ||
           std::any_of(pod.labels.begin(), pod.labels.end(), [](const auto &label) { return !label.first.starts_with("berth.dev/"); });
}

std::string missing_name(std::string_view kind, const std::string &full_name) { return fmt::format("{} {}", kind, full_name); }

// What of an owner its pods depend on. A Job's status changes with each of its pods, and most of that is no news to the others.
// To a gang it is: so many pods fewer will come.
std::string words_of(const kube::Object &o, bool gangs_by_default) {
    const bool gang_by_count = (gangs_by_default && o.indexed) || !kube::value_of(o.annotations, keys::gang).empty();
    std::string words = fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {}", o.parallelism.value_or(-1), o.completions.value_or(-1), o.indexed,
                                    o.suspended, o.finished, o.failed, o.active_deadline_seconds, o.pods, o.size, o.min_member,
                                    o.schedule_timeout_seconds, o.deleting, o.workload);
    words += fmt::format(" {}", o.restarts);
    if (gang_by_count)
        words += fmt::format(" {}", o.succeeded);
    if (o.min_resources)
        words += fmt::format(" {} {}", o.min_resources->cpu_milli, o.min_resources->memory_bytes);
    for (const auto &[key, value] : o.annotations)
        words += "\n" + key + "=" + value;
    return words;
}

Membership alone(const kube::Pod &pod) {
    Membership who;
    who.key = who.owner_uid = pod.uid;
    who.kind = "Pod";
    who.ns = pod.ns;
    who.name = pod.name;
    who.layers = {pod.annotations};
    who.created = pod.created;
    return who;
}

}  // namespace

void Controller::on_pod(kube::Pod &&pod) {
    if (const auto known = by_pod_.find(pod.uid); known != by_pod_.end()) {
        const WorkloadPtr workload = known->second;
        Member &member = workload->members.at(pod.uid);
        const bool news = !same_request(member.pod, pod), was_bound = member.bound();
        member.pod = std::move(pod);
        if (!was_bound && member.bound())
            note_bound(*workload, member);
        if (!member.ready())
            notices_->drop(member.pod.uid);
        if (workload->gang())
            workload->note_end(member.pod);
        if (!workload->group.empty())
            groups_->on_pod(workload->group, member.pod);
        if (workload->suspended || member.pod.suspended)
            tell_suspension(workload);
        if (workload->state == State::refused && !news && member.ready())
            return;
        return settle(workload);
    }
    const std::string uid = pod.uid;
    if (pod.terminal() && ended_.count(uid) != 0)
        return;
    if (const auto arriving = arriving_.find(uid); arriving != arriving_.end()) {
        arriving->second = std::move(pod);
        return;
    }
    if (pod.terminal() && pod.node_name.empty())
        return;
    const bool owned = has_owner(pod);
    const kube::Pod &here = arriving_.emplace(uid, std::move(pod)).first->second;
    if (owned)
        owners_->resolve(kube::Pod(here), [this, uid](const Chain &chain) { place(uid, chain); });
    else
        place(uid, {});
}

void Controller::on_pod_removed(const kube::Pod &pod) {
    if (arriving_.erase(pod.uid) != 0) {
        owners_->forget(pod);
        return all_arrived();
    }
    if (const auto ended = ended_.extract(pod.uid); !ended.empty()) {
        if (!ended.mapped().empty())
            groups_->on_pod_removed(ended.mapped(), pod.uid);
        return;
    }
    const auto found = by_pod_.find(pod.uid);
    if (found == by_pod_.end())
        return;
    const WorkloadPtr workload = found->second;
    by_pod_.erase(found);
    notices_->drop(pod.uid);
    owners_->forget(pod);
    if (!workload->group.empty())
        groups_->on_pod_removed(workload->group, pod.uid);
    const auto member = workload->members.find(pod.uid);
    const bool bound = member->second.bound() || !pod.node_name.empty();
    if (workload->gang()) {
        // The last state that a watch knew may be the end that it did not tell.
        if (!member->second.pod.terminal() && pod.terminal())
            workload->note_end(pod);
        workload->members.erase(member);
        settle(workload);
    } else {
        post(workload, bound ? Event::pod_ended : Event::pod_withdrawn);
        workload->members.erase(pod.uid);
    }
    forget_if_empty(workload);
}

void Controller::place(const std::string &uid, const Chain &chain) {
    auto arriving = arriving_.extract(uid);
    if (arriving.empty())
        return;
    kube::Pod pod = std::move(arriving.mapped());
    if (!pod.terminal() || !pod.node_name.empty()) {
        auto fresh = std::make_shared<Workload>();
        read_owners(*fresh, pod, chain);
        WorkloadPtr &open = open_[fresh->who.key];
        if (open) {
            open->who = std::move(fresh->who);
            open->obstacle = std::move(fresh->obstacle);
        } else {
            open = std::move(fresh);
            for (const std::string &name : open->interests)
                interested_[name].insert(open);
        }
        const WorkloadPtr workload = open;
        add_member(workload, std::move(pod));
        settle(workload);
    }
    all_arrived();
}

void Controller::add_member(const WorkloadPtr &workload, kube::Pod &&pod) {
    by_pod_[pod.uid] = workload;
    if (workload->gang())
        workload->note_end(pod);
    if (!workload->group.empty())
        groups_->on_pod(workload->group, pod);
    Member &member = workload->members[pod.uid];
    member.ending_reason = pod.ending_reason;
    member.ending_message = pod.ending_message;
    if (jobs_listed_)
        member.arrived = loop_.now();
    member.pod = std::move(pod);
}

void Controller::read_owners(Workload &workload, const kube::Pod &pod, const Chain &chain) {
    auto who = group_of(pod, chain, config_);
    workload.obstacle.clear();
    if (!who)
        workload.obstacle = who.error();
    else if (!chain.missing.empty())
        workload.obstacle = chain.missing + " does not exist; the pod waits for it";
    workload.who = who && chain.missing.empty() ? std::move(*who) : alone(pod);
    workload.group = chain.pod_group ? chain.pod_group->uid : "";
    for (const ObjectPtr &owner : chain.owners)
        workload.who.owners.push_back(owner->kind + "/" + owner->name);
    workload.interests.clear();
    if (!chain.missing.empty())
        workload.interests.push_back(chain.missing);
    std::vector<ObjectPtr> objects = chain.owners;
    objects.insert(objects.end(), {chain.pod_group, chain.set, chain.workload});
    for (const ObjectPtr &object : objects)
        if (object && std::find(workload.interests.begin(), workload.interests.end(), object->uid) == workload.interests.end())
            workload.interests.push_back(object->uid);
}

// Owners may have changed what is asked for. A pod that now belongs to another group goes there while nothing is submitted for it.
void Controller::reconsider(const WorkloadPtr &workload, const std::function<void()> &then) {
    if (workload->late || workload->members.empty() || !open_.count(workload->who.key) || open_[workload->who.key] != workload)
        return then();
    const kube::Pod pod = workload->members.begin()->second.pod;
    owners_->resolve(pod, [this, workload, pod, then](const Chain &chain) {
        Workload fresh;
        read_owners(fresh, pod, chain);
        if (fresh.who.key == workload->who.key && fresh.who.gang == workload->who.gang) {
            workload->who = std::move(fresh.who);
            workload->obstacle = std::move(fresh.obstacle);
            return then();
        }
        if (workload->state != State::idle && workload->state != State::refused && workload->state != State::waiting)
            return then();
        turnstile_.leave(workload);
        auto members = std::move(workload->members);
        workload->members.clear();
        close(workload);
        forget_if_empty(workload);
        for (auto &[uid, member] : members)
            by_pod_.erase(uid);
        for (auto &[uid, member] : members)
            on_pod(std::move(member.pod));
    });
}

void Controller::on_owner(const ObjectPtr &object, bool removed) {
    groups_->on_group(object, removed);
    std::string words = removed ? "gone" : words_of(*object, config_.defaults.indexed_job_is_gang);
    std::string &before = owner_words_[object->uid];
    const bool news = before != words;
    before = std::move(words);
    if (removed)
        owner_words_.erase(object->uid);
    if (!news)
        return;
    std::vector<WorkloadPtr> touched;
    for (const std::string &name : {object->uid, missing_name(object->kind, object->full_name())})
        if (const auto found = interested_.find(name); found != interested_.end())
            touched.insert(touched.end(), found->second.begin(), found->second.end());
    for (const WorkloadPtr &workload : touched) {
        // The pods of a PodGroup outlive it, and may find another one of its name; those of other owners go with them.
        const bool gathers = object->kind == "PodGroup" && (workload->state == State::idle || workload->state == State::refused || workload->state == State::waiting);
        if (removed && workload->gang() && workload->who.owner_uid == object->uid && !gathers) {
            workload->who.deleted = workload->who.deleted || !workload->who.finished;
            workload->who.finished = true;
            settle(workload);
            continue;
        }
        reconsider(workload, [this, workload] {
            if (workload->state == State::refused)
                post(workload, Event::retry);
            else
                settle(workload);
        });
    }
}

void Controller::on_node(kube::Node &&node, bool removed) {
    const std::string name = node.name;
    // After a list one of the same name may be there already when its predecessor's end is told.
    if (const kube::Node *known = nodes_.kube(name); removed && known != nullptr && known->uid != node.uid)
        return;
    if (removed)
        return mirror_->node_removed(name, nodes_.remove_kube(name));
    nodes_.set_kube(std::move(node));
    mirror_->node_changed(name);
}

void Controller::close(const WorkloadPtr &workload) {
    const auto open = open_.find(workload->who.key);
    if (open == open_.end() || open->second != workload)
        return;
    open_.erase(open);
    closed_.insert(workload);
    for (const std::string &name : workload->interests) {
        const auto found = interested_.find(name);
        if (found != interested_.end() && found->second.erase(workload) != 0 && found->second.empty())
            interested_.erase(found);
    }
}

void Controller::forget_if_empty(const WorkloadPtr &workload) {
    if (workload->state == State::over)
        close(workload);
    if (workload->members.empty())
        closed_.erase(workload);
}

void Controller::hand_on(const WorkloadPtr &workload) {
    std::vector<kube::Pod> waiting;
    for (const kube::Pod *pod : workload->ranked(&Member::ready))
        waiting.push_back(*pod);
    for (const kube::Pod &pod : waiting) {
        workload->members.erase(pod.uid);
        by_pod_.erase(pod.uid);
    }
    for (kube::Pod &pod : waiting)
        on_pod(std::move(pod));
}

// The first look waits for everybody: a pod whose owners are not read yet may have its placeholder already.
void Controller::all_arrived() {
    if (arriving_.empty() && pods_listed_ && owners_listed_ && nodes_.listed() && !jobs_listed_)
        look_now();
}

}  // namespace berth
