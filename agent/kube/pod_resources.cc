#include "agent/kube/pod_resources.h"

#include <fmt/core.h>

#include <map>

#include "agent/kube/json_text.h"
#include "agent/translate/quantity.h"

namespace berth::kube {

namespace {

using simdjson::SUCCESS;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;

constexpr std::string_view cpu = "cpu", memory = "memory";

// By resource name; CPU in thousandths, the rest in whole units. Only what a site can tell Slurm of.
using Amounts = std::map<std::string, std::int64_t, std::less<>>;

bool is_hugepages(std::string_view name) { return name.starts_with("hugepages-"); }

bool counted(std::string_view name) {
    return name == cpu || name == memory || name == "ephemeral-storage" || is_hugepages(name) ||
           name.find('/') != std::string_view::npos;
}

Result<std::int64_t> amount(std::string_view name, simdjson::dom::element value) {
    std::string_view text;
    std::int64_t number = 0;
    std::string digits;
    if (value.get(text) != SUCCESS) {  // the API writes strings; whole numbers are legal as well
        if (value.get(number) != SUCCESS)
            return Error{"is neither a text nor a whole number"};
        text = digits = std::to_string(number);
    }
    return name == cpu ? parse_milli(text) : parse_units(text);
}

void raise(Amounts &to, const Amounts &from) {
    for (const auto &[name, value] : from) {
        auto &slot = to[name];
        slot = std::max(slot, value);
    }
}

Result<void> add(Amounts &to, const Amounts &from) {
    for (const auto &[name, value] : from)
        if (auto &slot = to[name]; __builtin_add_overflow(slot, value, &slot))
            return Error{fmt::format("the sum of {} is too large", for_log(name, 80))};
    return {};
}

// Takes the larger of what stands in `into` and in the map of quantities.
Result<void> read_quantities(Object quantities, Amounts &into) {
    for (const auto field : quantities) {
        if (!counted(field.key))
            continue;
        const auto value = amount(field.key, field.value);
        if (!value)
            return Error{fmt::format("{}: {}", for_log(field.key, 80), value.error())};
        auto &slot = into[std::string(field.key)];
        slot = std::max(slot, *value);
    }
    return {};
}

Result<Amounts> read_resources(Object holder, Counted which) {
    Amounts out;
    Amounts limits;
    Object resources, quantities;
    if (holder["resources"].get(resources) != SUCCESS)
        return out;
    if (resources["requests"].get(quantities) == SUCCESS)
        if (const auto read = read_quantities(quantities, out); !read)
            return Error{read.error()};
    if (resources["limits"].get(quantities) == SUCCESS)
        if (const auto read = read_quantities(quantities, limits); !read)
            return Error{read.error()};
    if (which == Counted::larger)
        raise(out, limits);
    else
        out.merge(limits);  // adds what is not there
    return out;
}

Result<Amounts> container_amounts(simdjson::dom::element element, Object &container, Counted which) {
    if (element.get(container) != SUCCESS)
        return Error{"a container is not an object"};
    auto out = read_resources(container, which);
    if (!out) {
        std::string_view name = "?";
        [[maybe_unused]] const auto missing = container["name"].get(name);
        return Error{fmt::format("container {}: {}", for_log(name, 80), out.error())};
    }
    return out;
}

Resources to_resources(const Amounts &amounts) {
    Resources out;
    for (const auto &[name, value] : amounts) {
        if (name == cpu)
            out.cpu_milli = value;
        else if (name == memory)
            out.memory_bytes = value;
        else if (value > 0)
            out.extended.emplace_back(name, value);
    }
    out.extended.shrink_to_fit();
    return out;
}

bool has(Object holder, std::string_view pointer) {
    simdjson::dom::element value;
    return holder.at_pointer(pointer).get(value) == SUCCESS;
}

}  // namespace

bool is_sidecar(Object init_container) {
    std::string_view policy;
    return init_container["restartPolicy"].get(policy) == SUCCESS && policy == "Always";
}

Result<Resources> pod_resources(Object spec, Counted counted) {
    Amounts total, sidecars, init;
    Array list;
    if (spec["containers"].get(list) == SUCCESS)
        for (const auto element : list) {
            Object container;
            const auto need = container_amounts(element, container, counted);
            if (!need)
                return Error{need.error()};
            if (const auto added = add(total, *need); !added)
                return Error{added.error()};
        }
    // Init containers run one after the other, each beside the sidecars started before it.
    if (spec["initContainers"].get(list) == SUCCESS)
        for (const auto element : list) {
            Object container;
            const auto need = container_amounts(element, container, counted);
            if (!need)
                return Error{need.error()};
            // Only what this one asks for can make its step the largest yet: the sidecars were counted when they came. So a thousand of them
            // cost a thousand times one, and no more.
            Amounts step;
            for (const auto &[name, value] : *need)
                if (const auto beside = sidecars.find(name); beside != sidecars.end())
                    step.emplace(name, beside->second);
            Result<void> added = add(step, *need);
            if (added && is_sidecar(container)) {
                added = add(total, *need);
                for (const auto &[name, value] : step)
                    sidecars[name] = value;
            }
            if (!added)
                return Error{added.error()};
            raise(init, step);
        }
    raise(total, init);
    // Resources of the pod as a whole, where the server knows them, stand in place of the sum.
    const auto whole = read_resources(spec, counted);
    if (!whole)
        return Error{"the pod's own resources: " + whole.error()};
    for (const auto &[name, value] : *whole)
        if (name == cpu || name == memory || is_hugepages(name))
            total[name] = value;
    Object overhead;
    if (spec["overhead"].get(overhead) == SUCCESS) {
        Amounts extra;
        Result<void> read = read_quantities(overhead, extra);
        if (read)
            read = add(total, extra);
        if (!read)
            return Error{"overhead: " + read.error()};
    }
    return to_resources(total);
}

bool memory_open(Object spec) {
    const auto said = [](Object holder) {
        return has(holder, "/resources/requests/memory") || has(holder, "/resources/limits/memory");
    };
    if (said(spec))
        return false;
    for (const char *key : {"containers", "initContainers"}) {
        Array list;
        if (spec[key].get(list) != SUCCESS)
            continue;
        for (const auto element : list)
            if (Object container; element.get(container) == SUCCESS && !said(container) &&
                                  (std::string_view(key) == "containers" || is_sidecar(container)))
                return true;
    }
    return false;
}

bool memory_limited(Object spec) {
    const auto limited = [](Object holder) { return has(holder, "/resources/limits/memory"); };
    if (limited(spec))
        return true;
    for (const char *key : {"containers", "initContainers"}) {
        Array list;
        if (spec[key].get(list) != SUCCESS)
            continue;
        for (const auto element : list)
            if (Object container; element.get(container) != SUCCESS || !limited(container))
                return false;
    }
    return true;
}

Result<Resources> resource_list(Object quantities) {
    Amounts amounts;
    if (const auto read = read_quantities(quantities, amounts); !read)
        return Error{read.error()};
    return to_resources(amounts);
}

}  // namespace berth::kube
