#include "agent/translate/dependency.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "agent/translate/text.h"

namespace berth {
namespace {

constexpr std::array<std::string_view, 4> kTypes = {"after", "afterany", "afterok", "afternotok"};
constexpr std::array<std::string_view, 5> kKinds = {"Pod", "Job", "JobSet", "PodGroup", "LeaderWorkerSet"};
constexpr std::size_t kMost = 32;

bool is_object_name(std::string_view name) {
    return !name.empty() && name.size() <= 253 && std::all_of(name.begin(), name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
    });
}

template <std::size_t N>
bool contains(const std::array<std::string_view, N> &words, std::string_view word) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

Result<std::vector<Dependency>> parse_dependencies(std::string_view text) {
    std::vector<Dependency> out;
    for (const std::string_view item : split(text, ',')) {
        const std::size_t colon = item.find(':');
        Dependency d;
        d.type = item.substr(0, colon);
        std::string_view what = colon == std::string_view::npos ? std::string_view() : item.substr(colon + 1);
        const std::size_t slash = what.find('/');
        if (slash != std::string_view::npos) {
            d.kind = what.substr(0, slash);
            what.remove_prefix(slash + 1);
        }
        d.name = what;
        const bool good_kind = slash == std::string_view::npos || contains(kKinds, d.kind);
        if (!contains(kTypes, d.type) || !good_kind || !is_object_name(d.name) || out.size() == kMost)
            return Error{fmt::format(
                "\"{}\" is not a dependency; accepted are up to {} of TYPE:KIND/NAME or TYPE:NAME, separated by commas, such as "
                "afterok:Job/prepare, where TYPE is after, afterany, afterok or afternotok and KIND is Pod, Job, JobSet, PodGroup or "
                "LeaderWorkerSet",
                shown(text), kMost)};
        out.push_back(std::move(d));
    }
    return out;
}

Result<std::string> resolve_dependencies(const std::vector<Dependency> &dependencies, const std::string &ns,
                                         const std::string &own_kind, const JobsOf &jobs_of) {
    std::vector<std::pair<std::string, std::string>> by_type;  // ("afterok", ":12:13")
    for (const Dependency &d : dependencies) {
        const std::string &kind = d.kind.empty() ? own_kind : d.kind;
        const Result<std::vector<std::uint32_t>> jobs =
            jobs_of ? jobs_of(ns, kind, d.name) : Result<std::vector<std::uint32_t>>(Error{"other workloads are not known here"});
        if (!jobs)
            return Error{fmt::format("waits for {} {}/{}, which has no job in Slurm: {}", kind, ns, d.name, jobs.error())};
        auto at = std::find_if(by_type.begin(), by_type.end(), [&](const auto &entry) { return entry.first == d.type; });
        if (at == by_type.end())
            at = by_type.insert(by_type.end(), {d.type, ""});
        for (const std::uint32_t job : *jobs)
            at->second += fmt::format(":{}", job);
    }
    std::string out;
    for (const auto &[type, ids] : by_type)
        out += (out.empty() ? "" : ",") + type + ids;
    return out;
}

}  // namespace berth
