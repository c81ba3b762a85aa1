// What the headers of Pod and Object promise of whatever the decoder took.
#pragma once

#include <algorithm>

#include "agent/kube/decode.h"
#include "test/fuzz/fuzz.h"

namespace berth::fuzz {

constexpr std::size_t longest_problem = 700;

template <class Pairs>
void require_sorted(const Pairs &pairs, const char *what) {
    require(std::is_sorted(pairs.begin(), pairs.end(), [](const auto &a, const auto &b) { return a.first < b.first; }), what);
}

inline void require_resources(const kube::Resources &resources) {
    require(resources.cpu_milli >= 0 && resources.memory_bytes >= 0, "no amount is negative");
    require_sorted(resources.extended, "extended resources are sorted");
    for (const auto &[name, count] : resources.extended)
        require(count > 0, "no extended resource is zero or less", name);
}

inline void require_pod(const kube::Pod &pod) {
    require(!pod.ns.empty() && !pod.name.empty() && !pod.uid.empty(), "a pod has namespace, name and uid");
    require_sorted(pod.annotations, "annotations are sorted");
    require_sorted(pod.labels, "labels are sorted");
    require(pod.grace_seconds >= 0 && pod.active_deadline_seconds >= 0, "no time is negative");
    require_resources(pod.need);
    if (pod.requests)
        require_resources(*pod.requests);
    if (!pod.problem.empty())
        require_sentence(pod.problem, longest_problem);
}

inline void require_object(const kube::Object &object) {
    require(!object.name.empty() && !object.uid.empty(), "an object has name and uid");
    require_sorted(object.annotations, "annotations are sorted");
    require_sorted(object.labels, "labels are sorted");
    require(object.pods >= 0 || !object.problem.empty(), "pods are counted, or the problem said");
    require(object.active_deadline_seconds >= 0 && object.schedule_timeout_seconds >= 0 && object.succeeded >= 0, "no time is negative");
    if (object.min_resources)
        require_resources(*object.min_resources);
    if (!object.problem.empty())
        require_sentence(object.problem, longest_problem);
}

inline void require_record(const kube::Pod &pod) { require_pod(pod); }
inline void require_record(const kube::Object &object) { require_object(object); }
inline void require_record(const kube::Node &node) {
    require(!node.name.empty() && !node.uid.empty(), "a node has name and uid");
    require(node.cpu_milli >= 0 && node.memory_bytes >= 0 && node.pods >= 0, "no amount is negative");
    for (const auto &[name, count] : node.extended)
        require(count >= 0, "no amount is negative", name);
}

template <class Record>
void try_list(kube::Decoder &decoder, std::string_view json, const Record &blank = {}) {
    const auto page = decoder.list<Record>(json, blank);
    if (!page)
        return require_sentence(page.error(), longest_problem);
    require(!page->resource_version.empty(), "a list has a resourceVersion");
    require((page->bad > 0) == !page->first_problem.empty(), "what could not be read is counted and said");
    for (const Record &record : page->items)
        require_record(record);
}

template <class Record>
void try_event(kube::Decoder &decoder, std::string_view json, const Record &blank = {}) {
    using Kind = typename kube::WatchEvent<Record>::Kind;
    const auto event = decoder.event<Record>(json, blank);
    if (!event)
        return require_sentence(event.error(), longest_problem);
    require(!has_control(event->message) && event->message.size() <= longest_problem, "a server's message is fit for a log");
    const bool has_object = event->kind == Kind::added || event->kind == Kind::modified || event->kind == Kind::deleted;
    if (!has_object)
        return;
    if (event->problem.empty())
        require_record(event->object);
    else
        require_sentence(event->problem, longest_problem);
}

}  // namespace berth::fuzz
