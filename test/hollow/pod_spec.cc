#include "test/hollow/pod_spec.h"

#include <charconv>
#include <cmath>

namespace berth::hollow {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::string_view prefix = "hollow.berth.dev/";

std::string string_at(element e, std::string_view pointer) {
    std::string_view text;
    return e.at_pointer(pointer).get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

void read_annotation(PodSpec &pod, std::string_view key, std::string_view value) {
    Behaviour &b = pod.behaviour;
    auto duration = [&](auto &into) {
        if (Result<milliseconds> d = parse_duration(value))
            into = *d;
        else
            pod.problem = "annotation hollow.berth.dev/" + std::string(key) + ": " + d.error();
    };
    if (key == "run-for")
        duration(b.run_for);
    else if (key == "start-delay")
        duration(b.start_delay);
    else if (key == "die-after")
        duration(b.die_after);
    else if (key == "exit-code")
        std::from_chars(value.data(), value.data() + value.size(), b.exit_code);
    else if (key == "oom")
        b.oom = value == "true";
    else if (key == "ignore-term")
        b.ignore_term = value == "true";
    else if (key == "beat")
        b.beat = value == "true";
    else if (key == "stuck")
        b.stuck = value == "true";
    else if (key == "unkillable")
        b.unkillable = value == "true";
    else
        pod.problem = "unknown annotation hollow.berth.dev/" + std::string(key);
    b.stuck = b.stuck || b.unkillable;
}

// The sum over containers of what each asks for; limits stand in for requests that are not said, as the server does it.
void read_container(PodSpec &pod, element container) {
    pod.containers.push_back(string_at(container, "/name"));
    auto amount = [&](std::string_view resource, bool milli) {
        for (const char *kind : {"requests", "limits"}) {
            element quantities;
            std::string_view text;
            if (container["resources"][kind].get(quantities) == simdjson::SUCCESS &&
                quantities[resource].get(text) == simdjson::SUCCESS)
                return parse_quantity(text, milli);
        }
        return std::int64_t{0};
    };
    std::int64_t cpu = amount("cpu", true), memory = amount("memory", false);
    pod.cpu_milli += cpu;
    pod.memory_bytes += memory;
    pod.gpus += amount("nvidia.com/gpu", false);
}

// [sleep, "5"] is what examples for people do.
void read_command(PodSpec &pod, element container) {
    std::string_view program, seconds;
    if (pod.behaviour.run_for || container.at_pointer("/command/0").get(program) != simdjson::SUCCESS || program != "sleep" ||
        container.at_pointer("/command/1").get(seconds) != simdjson::SUCCESS)
        return;
    if (Result<milliseconds> d = parse_duration(seconds))
        pod.behaviour.run_for = *d;
}

}  // namespace

PodSpec decode_pod(element pod) {
    PodSpec out;
    out.ns = string_at(pod, "/metadata/namespace");
    out.name = string_at(pod, "/metadata/name");
    out.uid = string_at(pod, "/metadata/uid");
    out.resource_version = string_at(pod, "/metadata/resourceVersion");
    out.node = string_at(pod, "/spec/nodeName");
    out.phase = string_at(pod, "/status/phase");
    std::string policy = string_at(pod, "/spec/restartPolicy");
    if (policy == "Never")
        out.restart_policy = RestartPolicy::never;
    else if (policy == "OnFailure")
        out.restart_policy = RestartPolicy::on_failure;
    std::string qos = string_at(pod, "/status/qosClass");
    out.guaranteed = qos == "Guaranteed";
    out.burstable = qos == "Burstable";
    out.deleting = pod.at_pointer("/metadata/deletionTimestamp").error() == simdjson::SUCCESS;
    if (pod.at_pointer("/metadata/deletionGracePeriodSeconds").get(out.deletion_grace) != simdjson::SUCCESS)
        out.deletion_grace = 30;
    simdjson::dom::array containers;
    if (pod.at_pointer("/spec/containers").get(containers) == simdjson::SUCCESS)
        for (element c : containers)
            read_container(out, c);
    object annotations;
    if (pod.at_pointer("/metadata/annotations").get(annotations) == simdjson::SUCCESS)
        for (auto [key, value] : annotations) {
            std::string_view text;
            if (key.starts_with(prefix) && value.get(text) == simdjson::SUCCESS)
                read_annotation(out, key.substr(prefix.size()), text);
        }
    element first;
    if (pod.at_pointer("/spec/containers/0").get(first) == simdjson::SUCCESS)
        read_command(out, first);
    return out;
}

Result<milliseconds> parse_duration(std::string_view text) {
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string_view unit(end, text.data() + text.size() - end);
    double factor = unit.empty() || unit == "s" ? 1000 : unit == "ms" ? 1 : unit == "m" ? 60'000 : unit == "h" ? 3'600'000 : 0;
    if (error != std::errc() || number < 0 || factor == 0)
        return Error{"\"" + std::string(text) + "\" is no duration"};
    return milliseconds(std::llround(number * factor));
}

std::int64_t parse_quantity(std::string_view text, bool milli) {
    double number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc())
        return 0;
    std::string_view unit(end, text.data() + text.size() - end);
    constexpr std::pair<std::string_view, double> units[] = {
        {"", 1}, {"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}};
    for (auto [name, factor] : units)
        if (unit == name)
            return std::llround(std::ceil(number * factor * (milli ? 1000 : 1)));
    return 0;
}

}  // namespace berth::hollow
