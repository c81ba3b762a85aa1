#include "agent/controller/turnstile.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace berth {

namespace {

constexpr std::uint32_t share = 4;       // of what is left, for one namespace
constexpr unsigned oldest_asks = 3;      // times, before another does
constexpr std::uint32_t left_alone = 10;  // every tenth record of slurmctld's table stays free for native jobs

}  // namespace

Turnstile::Turnstile(unsigned most_under_way, std::uint32_t seed) : most_under_way_(most_under_way), random_(seed) {}

void Turnstile::looked(Occupancy occupancy) {
    placeholders_ = 0;
    records_ = occupancy.records;
    if (occupancy.max_records != 0)
        max_records_ = occupancy.max_records;
    for (auto &[ns, lane] : lanes_) {
        const auto now = occupancy.placeholders.find(ns);
        if (lane.placeholders > (now == occupancy.placeholders.end() ? 0 : now->second))
            hint(ns);
        lane.placeholders = 0;
    }
    for (const auto &[ns, count] : occupancy.placeholders) {
        lanes_[ns].placeholders = count;
        placeholders_ += count;
    }
    // A limit that nobody waits for is forgotten.
    for (auto &[ns, lane] : lanes_)
        std::erase_if(lane.queues, [](const auto &queue) { return queue.second.waiting.empty() && queue.second.gate.empty(); });
    std::erase_if(lanes_, [](const auto &entry) {
        return entry.second.queues.empty() && entry.second.placeholders == 0 && entry.second.under_way == 0;
    });
}

void Turnstile::join(const WorkloadPtr &workload, Entrant entrant) {
    if (waiting_.count(workload.get()) != 0)
        return;
    const Rank rank{entrant.refusals, entrant.created, ++joined_};
    lanes_[entrant.ns].queues[entrant.allowance].waiting.emplace(rank, workload);
    waiting_.emplace(workload.get(), Spot{std::move(entrant), rank});
}

void Turnstile::leave(const WorkloadPtr &workload) {
    const auto spot = waiting_.extract(workload.get());
    if (spot.empty())
        return;
    const Entrant &entrant = spot.mapped().entrant;
    lanes_.at(entrant.ns).queues.at(entrant.allowance).waiting.erase(spot.mapped().rank);
    tidy(entrant.ns, entrant.allowance);
}

// What is not needed to remember a limit is forgotten with the last who waited or was under way.
void Turnstile::tidy(const std::string &ns, const std::string &allowance) {
    const auto lane = lanes_.find(ns);
    const auto queue = lane->second.queues.find(allowance);
    if (queue->second.waiting.empty() && queue->second.gate.empty() && !queue->second.gate.shut())
        lane->second.queues.erase(queue);
    if (lane->second.queues.empty() && lane->second.placeholders == 0 && lane->second.under_way == 0)
        lanes_.erase(lane);
}

std::uint32_t Turnstile::most_records() const { return max_records_ == 0 ? UINT32_MAX : max_records_ - (max_records_ + left_alone - 1) / left_alone; }

bool Turnstile::room() const {
    return placeholders_ + parts_under_way_ < places_ && records_ + parts_under_way_ < most_records();
}

bool Turnstile::within_share(const Lane &lane) const {
    const std::uint32_t taken = placeholders_ + parts_under_way_;
    const std::uint64_t left = places_ > taken ? places_ - taken : 0;
    return lane.placeholders + lane.under_way < share * left;
}

Turnstile::Queue *Turnstile::first_of(Lane &lane, Time now) {
    Queue *first = nullptr;
    for (auto &[allowance, queue] : lane.queues)
        if (!queue.waiting.empty() && queue.gate.open(now) &&
            (first == nullptr || queue.waiting.begin()->first < first->waiting.begin()->first))
            first = &queue;
    return first;
}

std::map<Turnstile::Rank, WorkloadPtr>::iterator Turnstile::who_asks(Queue &queue) {
    const auto oldest = queue.waiting.begin();
    if (!queue.gate.shut() || queue.asked++ % (oldest_asks + 1) < oldest_asks || queue.waiting.size() == 1)
        return oldest;
    auto other = queue.waiting.upper_bound(queue.other);
    if (other == queue.waiting.end() || other == oldest)
        other = std::next(oldest);
    queue.other = other->first;
    std::get<2>(queue.other) = UINT64_MAX;  // it joins anew
    return other;
}

WorkloadPtr Turnstile::next(Time now) {
    if (waiting_.empty() || under_way_.size() >= most_under_way_ || !room() || !gate_.open(now))
        return nullptr;
    auto lane = lanes_.upper_bound(served_);
    for (std::size_t seen = 0; seen < lanes_.size(); ++seen, ++lane) {
        if (lane == lanes_.end())
            lane = lanes_.begin();
        Queue *queue = within_share(lane->second) ? first_of(lane->second, now) : nullptr;
        if (queue == nullptr)
            continue;
        served_ = lane->first;
        const auto who = who_asks(*queue);
        const WorkloadPtr workload = who->second;
        queue->waiting.erase(who);
        Entrant entrant = std::move(waiting_.extract(workload.get()).mapped().entrant);
        queue->gate.enter();
        gate_.enter();
        lane->second.under_way += entrant.parts;
        parts_under_way_ += entrant.parts;
        under_way_.emplace(workload.get(), std::move(entrant));
        return workload;
    }
    return nullptr;
}

void Turnstile::answered(const WorkloadPtr &workload, Answer answer, Time now, const std::string &said) {
    const auto gone = under_way_.extract(workload.get());
    if (gone.empty())
        return;
    const Entrant &entrant = gone.mapped();
    const double jitter = std::uniform_real_distribution<double>(0, 1)(random_);
    Lane &lane = lanes_[entrant.ns];
    Queue &queue = lane.queues[entrant.allowance];
    lane.under_way -= entrant.parts;
    parts_under_way_ -= entrant.parts;
    switch (answer) {
    case Answer::taken:
        lane.placeholders += entrant.parts;
        placeholders_ += entrant.parts;
        records_ += entrant.parts;
        gate_.passed();
        queue.gate.passed();
        break;
    case Answer::refused:
        gate_.passed();  // slurmctld answers
        queue.gate.returned();
        break;
    case Answer::unasked:
        gate_.returned();
        queue.gate.returned();
        break;
    case Answer::limit:
        gate_.passed();
        queue.gate.refused(now, jitter);
        queue.said = said;
        break;
    case Answer::full:
        gate_.refused(now, jitter);
        queue.gate.returned();
        said_ = said;
        break;
    }
    tidy(entrant.ns, entrant.allowance);
}

// One that ended makes room for another.
void Turnstile::hint(const std::string &ns) {
    gate_.hint();
    if (const auto lane = lanes_.find(ns); lane != lanes_.end())
        for (auto &[allowance, queue] : lane->second.queues) {
            queue.gate.hint();
            queue.asked = 0;
        }
}

std::optional<Turnstile::Time> Turnstile::opens() const {
    std::optional<Time> earliest;
    const auto awaits_answer = [](const Gate &gate) { return gate.shut() && !gate.empty(); };
    if (waiting_.empty() || under_way_.size() >= most_under_way_ || !room() || awaits_answer(gate_))
        return earliest;
    for (const auto &[ns, lane] : lanes_)
        for (const auto &[allowance, queue] : lane.queues) {
            if (queue.waiting.empty() || !within_share(lane) || awaits_answer(queue.gate))
                continue;
            // Both must be open.
            const Time when = std::max(gate_.opens(), queue.gate.opens());
            if (when != Time{} && (!earliest || when < *earliest))
                earliest = when;
        }
    return earliest;
}

Turnstile::Why Turnstile::why(const WorkloadPtr &workload) const {
    const auto spot = waiting_.find(workload.get());
    if (spot == waiting_.end())
        return Why::turn;
    const Lane &lane = lanes_.at(spot->second.entrant.ns);
    if (gate_.refusing())
        return Why::full;
    if (lane.queues.at(spot->second.entrant.allowance).gate.shut())
        return Why::limit;
    if (placeholders_ + parts_under_way_ >= places_)
        return Why::places;
    if (records_ + parts_under_way_ >= most_records())
        return Why::records;
    return within_share(lane) ? Why::turn : Why::share;
}

std::string Turnstile::said(const WorkloadPtr &workload) const {
    const auto spot = waiting_.find(workload.get());
    if (spot == waiting_.end())
        return said_;
    return why(workload) == Why::limit ? lanes_.at(spot->second.entrant.ns).queues.at(spot->second.entrant.allowance).said : said_;
}

}  // namespace berth
