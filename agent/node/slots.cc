#include "agent/node/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

namespace berth::node {

namespace {

constexpr std::size_t most_nodes = 1'000'000;

// A number at the beginning of the text, which is shortened by it.
std::optional<std::uint64_t> take_number(std::string_view &text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc())
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return number;
}

// The next element of a list; commas inside parentheses do not part.
std::string_view take_element(std::string_view &list) {
    int depth = 0;
    std::size_t at = 0;
    for (; at < list.size() && (list[at] != ',' || depth > 0); ++at)
        depth += list[at] == '(' ? 1 : list[at] == ')' ? -1 : 0;
    const std::string_view element = list.substr(0, at);
    list.remove_prefix(std::min(list.size(), at + 1));
    return element;
}

// "gpu:a100:2(IDX:0-1)" -> ("gpu:a100", 2); "gpu" is one.
std::pair<std::string_view, std::uint64_t> device(std::string_view element) {
    element = element.substr(0, element.find('('));
    const std::size_t colon = element.rfind(':');
    if (colon == std::string_view::npos)
        return {element, 1};
    std::string_view text = element.substr(colon + 1);
    auto count = take_number(text);
    if (!count)
        return {element, 1};  // a type: "gpu:a100"
    const std::size_t power = text.empty() ? std::string_view::npos : std::string_view("KMGT").find(text.front());
    for (std::size_t i = 0; power != std::string_view::npos && i <= power; ++i)
        *count *= 1024;
    return {element.substr(0, colon), *count};
}

bool known(const std::vector<std::string> &gres_by_node) {
    return std::any_of(gres_by_node.begin(), gres_by_node.end(), [](const std::string &text) { return !text.empty(); });
}

}  // namespace

std::string to_text(const SlotName &name) { return fmt::format("{}.{}", name.part, name.slot); }

std::optional<SlotName> parse_slot(std::string_view text) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    const auto part = take_number(text);
    if (!part || *part > most || !text.starts_with('.'))
        return std::nullopt;
    text.remove_prefix(1);
    const auto slot = take_number(text);
    if (!slot || *slot > most || !text.empty())
        return std::nullopt;
    return SlotName{static_cast<std::uint32_t>(*part), static_cast<std::uint32_t>(*slot)};
}

std::optional<std::vector<std::uint32_t>> parse_cpus_per_node(std::string_view text) {
    std::vector<std::uint32_t> out;
    while (!text.empty()) {
        const auto cpus = take_number(text);
        std::uint64_t times = 1;
        if (text.starts_with("(x")) {
            text.remove_prefix(2);
            const auto number = take_number(text);
            if (!number || !text.starts_with(')'))
                return std::nullopt;
            text.remove_prefix(1);
            times = *number;
        }
        if (!cpus || *cpus > std::numeric_limits<std::uint32_t>::max() || times == 0 || times > most_nodes - out.size())
            return std::nullopt;
        out.insert(out.end(), static_cast<std::size_t>(times), static_cast<std::uint32_t>(*cpus));
        if (text.empty())
            return out;
        if (!text.starts_with(',') || text.size() == 1)
            return std::nullopt;
        text.remove_prefix(1);
    }
    return std::nullopt;
}

std::uint64_t devices_in(std::string_view gres_of_node, std::string_view name) {
    std::uint64_t sum = 0;
    while (!gres_of_node.empty()) {
        const auto [found, count] = device(take_element(gres_of_node));
        if (found == name || (found.size() > name.size() && found.starts_with(name) && found[name.size()] == ':'))
            sum += count;
    }
    return sum;
}

std::string device_shortage(const Ticket &ticket, const std::vector<std::string> &gres_by_node) {
    if (!known(gres_by_node))
        return {};
    for (std::string_view list = ticket.gres; !list.empty();) {
        const auto [name, each] = device(take_element(list));
        std::uint64_t found = 0;
        for (const std::string &text : gres_by_node)
            found += devices_in(text, name);
        if (each != 0 && found / each < ticket.size)
            return fmt::format("{} {} instead of {}", found, name, each * ticket.size);
    }
    return {};
}

Result<Slots> slots_here(const Ticket &ticket, const Allocation &allocation, const std::string &node) {
    const auto here = std::find(allocation.nodes.begin(), allocation.nodes.end(), node);
    const auto cpus = parse_cpus_per_node(allocation.cpus_per_node);
    if (here == allocation.nodes.end())
        return Error{fmt::format("node {} has no part in it", node)};
    if (!cpus || cpus->size() != allocation.nodes.size())
        return Error{fmt::format("CPUs per node \"{}\" for {} nodes", allocation.cpus_per_node, allocation.nodes.size())};
    const bool devices_known = known(allocation.gres_by_node);
    if (devices_known && allocation.gres_by_node.size() != cpus->size())
        return Error{fmt::format("devices of {} nodes for {}", allocation.gres_by_node.size(), cpus->size())};

    std::vector<std::uint64_t> room(cpus->size());
    std::uint64_t all = 0;
    for (std::size_t i = 0; i < room.size(); ++i) {
        room[i] = (*cpus)[i] / std::max(ticket.cpus, 1U);
        const std::uint64_t memory = allocation.memory_mib_per_cpu != 0 ? allocation.memory_mib_per_cpu * (*cpus)[i]
                                                                        : allocation.memory_mib_per_node;
        if (memory != 0 && ticket.memory_mib != 0)
            room[i] = std::min(room[i], memory / ticket.memory_mib);
        if (ticket.per_node != 0)
            room[i] = std::min<std::uint64_t>(room[i], ticket.per_node);
        for (std::string_view list = devices_known ? std::string_view(ticket.gres) : std::string_view(); !list.empty();) {
            const auto [name, each] = device(take_element(list));
            if (each != 0)
                room[i] = std::min(room[i], devices_in(allocation.gres_by_node[i], name) / each);
        }
        all += room[i];
    }
    if (all < ticket.size)
        return Error{fmt::format("room for {} pods instead of {}", all, ticket.size)};
    if (all > std::numeric_limits<std::uint32_t>::max())
        return Error{fmt::format("room for {} pods, which is more than a job can have", all)};

    std::vector<std::uint64_t> given(room.size());
    std::uint64_t left = ticket.size;
    for (std::size_t i = 0; i < room.size() && left > 0; ++i)
        if (room[i] > 0) {
            given[i] = 1;
            --left;
        }
    for (std::size_t i = 0; i < room.size() && left > 0; ++i) {
        const std::uint64_t more = std::min(room[i] - given[i], left);
        given[i] += more;
        left -= more;
    }
    Slots slots;
    slots.spare_first = ticket.size;
    slots.everywhere = static_cast<std::uint32_t>(all);
    const auto index = static_cast<std::size_t>(here - allocation.nodes.begin());
    for (std::size_t i = 0; i < index; ++i) {
        slots.first += static_cast<std::uint32_t>(given[i]);
        slots.spare_first += static_cast<std::uint32_t>(room[i] - given[i]);
    }
    slots.count = static_cast<std::uint32_t>(given[index]);
    slots.spare = static_cast<std::uint32_t>(room[index] - given[index]);
    return slots;
}

}  // namespace berth::node
