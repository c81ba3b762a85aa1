// The site, the pods and the one-line view of a Placeholder that the tests of translate() share.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "agent/translate/annotations.h"
#include "agent/translate/placeholder.h"
#include "test/unit/suite.h"

namespace berth::test {

constexpr std::int64_t kMi = 1024 * 1024;
constexpr std::time_t kNow = 1794830400;  // 2026-11-16T12:00:00Z

using Words = std::vector<std::pair<std::string, std::string>>;

// Annotation keys are given without prefix; those that begin with '+' are Berth's own.
inline kube::KeyValues annotations(const Words &words) {
    kube::KeyValues out;
    for (const auto &[key, value] : words)
        out.emplace_back(key.starts_with('+') ? std::string(kOwnPrefix) + key.substr(1) : std::string(kAnnotationPrefix) + key, value);
    std::sort(out.begin(), out.end());
    return out;
}

inline Config make_config() {
    Config config;
    config.clusters.push_back({});
    TenantConfig science;
    science.ns = "science";
    science.user = "ada";
    science.accounts = {"physics", "chemistry"};
    science.partitions = {"batch", "gpu"};
    science.qos = {"normal", "high"};
    science.reservations = {"maint"};
    TenantConfig bare;
    bare.ns = "bare";
    bare.user = "bob";
    TenantConfig vip = bare;
    vip.ns = "vip-*";
    vip.service_account = "boss";
    vip.may_set_priority = true;
    TenantConfig rooted;
    rooted.ns = "rooted";
    rooted.user = "toor";
    TenantConfig wheel;
    wheel.ns = "wheel";
    wheel.user = "ada";
    wheel.group = "wheel";
    TenantConfig ghost;
    ghost.ns = "ghost";
    ghost.user = "nobody-here";
    config.tenants = {science, bare, vip, rooted, wheel, ghost};
    config.gres.push_back({.resource = "example.com/a100", .gres = "gpu:a100"});
    config.gres.push_back({.resource = "example.com/h100", .gres = "gpu:h100"});
    config.gres.push_back({.resource = "example.com/disk", .gres = "tmpdisk"});
    config.gres.push_back({.resource = "example.com/matlab", .license = "matlab"});
    config.gres.push_back({.resource = "example.com/scratch", .tmp_disk = true});
    config.gres.push_back({.resource = "example.com/nothing", .ignore = true});
    config.priority_classes = {{"urgent", "high", {}}, {"patient", "", 500}, {"pushy", "high", -100}, {"royal", "king", {}}};
    config.features = {{"example.com/model"}, {"zone"}};
    return config;
}

inline Result<Identity> identities(const std::string &user, const std::string &group) {
    if (user == "toor")
        return Identity{0, 5};
    if (user == "ada")
        return Identity{1001, group == "wheel" ? 0u : 2001u};
    if (user == "bob")
        return Identity{1002, 2002};
    return Error{fmt::format("user \"{}\" is not known to this host", user)};
}

// One line that shows every field that is not at its resting value.
inline std::string shown(const Placeholder &p, const std::string &usual_name = "science/sim-0") {
    std::string out = fmt::format("{}.{} c{} m{}", p.uid, p.gid, p.cpus_per_task, p.memory_mib);
    const auto add_texts = [&](std::initializer_list<std::pair<const char *, const std::string *>> texts) {
        for (const auto &[key, value] : texts)
            if (!value->empty())
                out += fmt::format(" {}={}", key, *value);
    };
    const auto add_number = [&](const char *key, auto value, auto usual) {
        if (static_cast<std::int64_t>(value) != static_cast<std::int64_t>(usual))
            out += fmt::format(" {}{}", key, value);
    };
    add_texts({{"acct", &p.account}, {"part", &p.partition}, {"qos", &p.qos}, {"resv", &p.reservation}, {"feat", &p.constraints},
               {"prefer", &p.prefer}, {"lic", &p.licenses}, {"wckey", &p.wckey}});
    if (p.job_name != usual_name)
        out += " name=" + p.job_name;
    for (const auto &[name, count] : p.gres)
        out += fmt::format(" {}={}", name, count);
    add_number("disk", p.tmp_disk_mib, 0);
    add_number("t", p.time_limit_minutes, 0);
    if (p.priority)
        out += fmt::format(" prio{}", *p.priority);
    if (p.nice)
        out += fmt::format(" nice{}", *p.nice);
    for (const auto &[word, set] : {std::pair("exclusive", p.exclusive), std::pair("spread", p.spread), std::pair("pack", p.pack)})
        if (set)
            out += fmt::format(" {}", word);
    add_number("per-node", p.tasks_per_node, 0);
    if (p.begin != 0)
        out += fmt::format(" begin{:+}", p.begin - kNow);
    if (p.deadline != 0)
        out += fmt::format(" deadline{:+}", p.deadline - kNow);
    add_texts({{"dep", &p.dependency}});
    if (p.switches != 0)
        out += fmt::format(" switches{}@{}", p.switches, p.switches_wait_seconds);
    add_texts({{"not", &p.excluded_nodes}});
    if (p.tasks != 1 || p.min_nodes != 1 || p.max_nodes != 1)
        out += fmt::format(" {}x on {}-{}", p.tasks, p.min_nodes, p.max_nodes);
    return out;
}

// Every word must be in the error, which is one bounded line.
inline void check_refusal(std::size_t row, const std::string &error, const std::vector<std::string> &words) {
    for (const std::string &word : words)
        ck_assert_msg(error.find(word) != std::string::npos, "row %zu: \"%s\" is missing in: %s", row, word.c_str(), error.c_str());
    ck_assert_msg(error.find('\n') == std::string::npos, "row %zu: a newline in: %s", row, error.c_str());
    ck_assert_msg(error.size() < 600, "row %zu: too long: %s", row, error.c_str());
}

// What namespace science gets for a pod that says nothing.
inline const std::string kPlaces = " acct=physics part=batch qos=normal";

}  // namespace berth::test
