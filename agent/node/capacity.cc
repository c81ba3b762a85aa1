#include "agent/node/capacity.h"

#include <fmt/format.h>

#include <algorithm>

namespace berth::node {

namespace {

using Amount = std::pair<std::string, std::int64_t>;

std::int64_t amount_of(const std::vector<Amount> &amounts, const std::string &name) {
    const auto found = std::find_if(amounts.begin(), amounts.end(), [&](const Amount &each) { return each.first == name; });
    return found == amounts.end() ? 0 : found->second;
}

std::string number(std::int64_t value) { return std::to_string(value); }
std::string cpus(std::int64_t milli) { return fmt::format("{:g}", static_cast<double>(milli) / 1000); }
std::string mebibytes(std::int64_t bytes) { return fmt::format("{} MiB", bytes >> 20); }

Lack compare(const std::string &resource, std::int64_t asked, std::int64_t used, std::int64_t all, std::string (*text)(std::int64_t)) {
    if (asked <= 0 || asked <= all - used)
        return {};
    const std::int64_t free = std::max<std::int64_t>(0, all - used);
    return {resource, fmt::format("of {} it asks for {}, and {} of {} are free", resource, text(asked), text(free), text(all))};
}

}  // namespace

void Capacity::set_node(const kube::Node &node) {
    known_ = node.cpu_milli > 0 || node.memory_bytes > 0;
    all_ = {node.cpu_milli, node.memory_bytes, node.extended};
    most_pods_ = node.pods;
}

void Capacity::saw(const kube::Pod &pod) {
    if (pod.terminal())
        return forget(pod.uid);
    pods_[pod.uid] = pod.requested();
}

void Capacity::reserve(const std::string &uid, const kube::Resources &asked) { pods_[uid] = asked; }

void Capacity::forget(const std::string &uid) { pods_.erase(uid); }

Lack Capacity::lack(const std::string &uid, const kube::Resources &asked) const {
    if (!known_)
        return {};
    kube::Resources used;
    std::int64_t others = 0;
    std::map<std::string, std::int64_t> extended;
    for (const auto &[other, need] : pods_) {
        if (other == uid)
            continue;
        ++others;
        used.cpu_milli += need.cpu_milli;
        used.memory_bytes += need.memory_bytes;
        for (const auto &[name, value] : need.extended)
            extended[name] += value;
    }
    if (most_pods_ > 0 && others >= most_pods_)
        return {"pods", fmt::format("it may run {} pods, and {} are there", most_pods_, others)};
    if (const Lack cpu = compare("cpu", asked.cpu_milli, used.cpu_milli, all_.cpu_milli, cpus); !cpu.empty())
        return cpu;
    if (const Lack memory = compare("memory", asked.memory_bytes, used.memory_bytes, all_.memory_bytes, mebibytes); !memory.empty())
        return memory;
    for (const auto &[name, all] : all_.extended)
        if (const Lack lack = compare(name, amount_of(asked.extended, name), extended[name], all, number); !lack.empty())
            return lack;
    return {};
}

}  // namespace berth::node
