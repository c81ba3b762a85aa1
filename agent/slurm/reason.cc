#include "agent/slurm/reason.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "agent/translate/text.h"

namespace berth::slurm {

namespace {

constexpr std::string_view job_words = "Slurm job ", is_pending = "is pending", stays_pending = "cannot start as it is";

struct Advice {
    std::string_view reason;  // as squeue shows it; with a '*' at its end all that begin so
    std::string_view text;    // {job} is the job's id
    bool never = false;
};

// The first that fits counts.
constexpr Advice table[] = {
    {"JobHeldAdmin", "an operator lets it go on with: scontrol release {job}"},
    {"JobHeldUser", "its owner lets it go on with: scontrol release {job}"},
    {"BeginTime", "it may start at the time it was given; sooner with: scontrol update JobId={job} StartTime=now"},
    {"DependencyNeverSatisfied",
     "the job it depends on ended in another way; delete the pod, or ask an operator for: scontrol update JobId={job} Dependency="},
    {"Dependency", "it starts after the jobs it depends on: scontrol show job {job}"},
    {"PartitionTimeLimit", "ask for less time, or for another partition", true},
    {"PartitionNodeLimit", "ask for fewer nodes, or for another partition", true},
    {"PartitionConfig", "ask for less, or for another partition", true},
    {"BadConstraints", "no node has these features together; ask for others", true},
    {"PartitionDown", "an operator opens the partition with: scontrol update PartitionName=NAME State=UP"},
    {"PartitionInactive", "an operator opens the partition with: scontrol update PartitionName=NAME State=UP"},
    {"ReqNodeNotAvail", "nodes that it needs are down, drained or reserved: sinfo -R, scontrol show reservation"},
    {"NodeDown", "nodes that it needs are down: sinfo -R"},
    {"QOSMax*PerJob*", "it asks for more than its QOS allows one job; ask for less, or for another QOS"},
    {"QOSMin*", "it asks for less than its QOS wants of a job; ask for another QOS"},
    {"QOSNotAllowed", "its partition does not take its QOS; ask for another of the two"},
    {"QOS*", "it waits until other jobs of its QOS end; the limits: sacctmgr show qos"},
    {"AssocMax*PerJob*", "it asks for more than its account allows one job; ask for less"},
    {"Assoc*", "it waits until other jobs of its account end; the limits: sacctmgr show assoc"},
    {"AccountNotAllowed", "its partition does not take its account; ask for another of the two"},
    {"Reservation", "it waits for its reservation to begin or to have room: scontrol show reservation"},
    {"ReservationDeleted", "its reservation is gone; delete the pod, or ask for another reservation"},
    {"Licenses", "it waits for licenses: scontrol show licenses"},
    {"Resources", "it starts when enough nodes are free"},
    {"Priority", "jobs of a higher priority go first: sprio -j {job}"},
};

const Advice *find(std::string_view reason) {
    reason = reason.substr(0, reason.find_first_of(" ,("));
    const auto at = std::find_if(std::begin(table), std::end(table), [&](const Advice &a) { return matches(a.reason, reason); });
    return at == std::end(table) ? nullptr : &*at;
}

constexpr std::time_t minute = 60, half_a_year = 183 * 24 * 60 * minute;
constexpr std::time_t soon = 2 * minute, coarse = 5 * minute, shift = 10 * minute;

}  // namespace

std::string reason_advice(std::string_view reason, std::uint32_t job) {
    const Advice *advice = find(reason);
    if (advice == nullptr)
        return {};
    std::string out(advice->text);
    constexpr std::string_view place = "{job}";
    if (const auto at = out.find(place); at != std::string::npos)
        out.replace(at, place.size(), std::to_string(job));
    return out;
}

bool can_never_start(std::string_view reason) {
    const Advice *advice = find(reason);
    return advice != nullptr && advice->never;
}

std::time_t start_to_tell(std::time_t told, std::time_t expected, std::time_t now) {
    const std::time_t still = told > now ? told : 0;
    if (expected <= now + soon || expected > now + half_a_year)
        return still;
    if (still != 0 && std::abs(expected - still) <= std::max(shift, (expected - now) / 4))
        return still;
    return (expected + coarse - 1) / coarse * coarse;
}

std::string pending_sentence(std::uint32_t job, std::string_view reason, std::time_t start) {
    const std::string advice = reason_advice(reason, job);
    std::string out = fmt::format("{}{} {}: {}", job_words, job, can_never_start(reason) ? stays_pending : is_pending, reason);
    if (!advice.empty())
        out += "; " + advice;
    if (start != 0)
        out += "; expected to start about " + utc_text(start);
    return out;
}

std::uint32_t job_of_sentence(std::string_view text) {
    if (!text.starts_with(job_words))
        return 0;
    text.remove_prefix(job_words.size());
    std::uint32_t job = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), job);
    if (error != std::errc())
        return 0;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const bool ours = text.starts_with(fmt::format(" {}: ", is_pending)) || text.starts_with(fmt::format(" {}: ", stays_pending));
    return ours ? job : 0;
}

std::string utc_text(std::time_t when) {
    std::tm tm{};
    gmtime_r(&when, &tm);
    char text[32];
    std::strftime(text, sizeof text, when % minute == 0 ? "%Y-%m-%d %H:%M UTC" : "%Y-%m-%d %H:%M:%S UTC", &tm);
    return text;
}

}  // namespace berth::slurm
