#include "agent/controller/notices.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "agent/log.h"

namespace berth {

namespace {

double jitter() {
    static std::minstd_rand random{std::random_device{}()};
    return std::uniform_real_distribution<double>(0, 1)(random);
}

// The server, or the way to it, is the trouble, and not this notice.
bool may_pass(int status) { return status < 400 || status == 401 || status == 408 || status == 429 || status >= 500; }

}  // namespace

void Notices::write(const kube::PodRef &pod, const kube::Condition &condition) {
    if (waiting_.insert_or_assign(pod.uid, Notice{pod, condition}).second && under_way_.count(pod.uid) == 0)
        order_.push_back(pod.uid);
    pump();
}

void Notices::drop(const std::string &pod_uid) {
    if (const auto open = under_way_.find(pod_uid); open != under_way_.end())
        open->second = false;
    // Many may be dropped while the server is away.
    if (waiting_.erase(pod_uid) != 0 && order_.size() > 2 * waiting_.size() + 1024)
        std::erase_if(order_, [this](const std::string &uid) { return waiting_.count(uid) == 0; });
}

void Notices::pump() {
    const auto now = loop_.now();
    while (!order_.empty() && under_way_.size() < most_under_way_ && gate_.open(now)) {
        auto next = waiting_.extract(order_.front());
        order_.pop_front();
        if (next.empty())
            continue;
        const Notice notice = std::move(next.mapped());
        if (!under_way_.emplace(notice.pod.uid, true).second) {  // dropped and written again meanwhile
            waiting_.emplace(notice.pod.uid, notice);
            continue;
        }
        gate_.enter();
        api_.set_condition(notice.pod, notice.condition, [this, notice, alive = std::weak_ptr<bool>(alive_)](const kube::Response &response) {
            if (alive.lock())
                answered(notice, response);
        });
    }
    timer_.reset();
    if (const auto opens = gate_.opens(); !order_.empty() && opens > now)
        timer_ = loop_.after(std::chrono::ceil<std::chrono::milliseconds>(opens - now), [this] { pump(); });
}

void Notices::answered(const Notice &notice, const kube::Response &response) {
    const std::string &uid = notice.pod.uid;
    const bool wanted = under_way_.extract(uid).mapped();
    const bool gone = response.status == 404 || response.status == 409;
    if (response.ok() || !may_pass(response.status)) {
        gate_.passed();
        const int refused = response.ok() || gone ? 0 : response.status;
        if (std::exchange(refused_, refused) != refused && refused != 0)
            log::warning("writing the condition of pod {}/{}: {}; it is not tried again", notice.pod.ns, notice.pod.name, response.error);
        if (waiting_.count(uid) != 0)
            order_.push_back(uid);
        return pump();
    }
    const bool was_open = !gate_.shut();
    gate_.refused(loop_.now(), jitter());
    if (was_open)
        log::warning("writing the condition of pod {}/{}: {}; it and {} others are written when the server takes them", notice.pod.ns,
                     notice.pod.name, response.error, waiting_.size());
    if (wanted)
        waiting_.emplace(uid, notice);  // unless there is a later one
    if (waiting_.count(uid) != 0)
        order_.push_back(uid);
    pump();
}

}  // namespace berth
