#include "agent/kube/decode.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "agent/kube/json_text.h"
#include "agent/kube/pod_resources.h"
#include "agent/translate/quantity.h"

namespace berth::kube {

namespace {

using simdjson::SUCCESS;
using Object = simdjson::dom::object;
using Array = simdjson::dom::array;
using Element = simdjson::dom::element;

static_assert(Frames::padding >= simdjson::SIMDJSON_PADDING);

// Far above what the API holds (pods nest about 15 deep), far below what would cost memory.
constexpr std::size_t deepest = 128;

constexpr std::string_view our_prefixes[] = {"slurmjob.slinky.slurm.net/", "slinky.slurm.net/",
                                             "scheduler.slinky.slurm.net/", "berth.dev/"};

// Absent fields and fields of another type read as empty, zero or false.
std::string_view text(Object from, std::string_view key) {
    std::string_view out;
    return from[key].get(out) == SUCCESS ? out : std::string_view();
}

std::int64_t number(Object from, std::string_view key, std::int64_t otherwise = 0) {
    std::int64_t out;
    return from[key].get(out) == SUCCESS ? out : otherwise;
}

bool flag(Object from, std::string_view key) {
    bool out;
    return from[key].get(out) == SUCCESS && out;
}

template <class Fn>
void each(Object from, std::string_view key, Fn fn) {
    Array list;
    if (from[key].get(list) != SUCCESS)
        return;
    for (const auto element : list) {
        Object item;
        if (element.get(item) == SUCCESS)
            fn(item);
    }
}

KeyValues ours(Object metadata, std::string_view key) {
    KeyValues out;
    Object map;
    if (metadata[key].get(map) != SUCCESS)
        return out;
    for (const auto field : map) {
        std::string_view value;
        const bool wanted = std::any_of(std::begin(our_prefixes), std::end(our_prefixes),
                                        [&](std::string_view prefix) { return field.key.starts_with(prefix); });
        if (wanted && field.value.get(value) == SUCCESS)
            out.emplace_back(field.key, value);
    }
    std::sort(out.begin(), out.end());
    return out;
}

Phase phase_of(std::string_view name) {
    if (name.empty() || name == "Pending")
        return Phase::pending;
    if (name == "Running")
        return Phase::running;
    if (name == "Succeeded")
        return Phase::succeeded;
    return name == "Failed" ? Phase::failed : Phase::unknown;
}

int small(std::int64_t value) {
    return static_cast<int>(
        std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

// The first container that failed, by the time it ended. Times are RFC 3339 in UTC, so their texts sort as they do;
// a container without one comes last.
class FirstFailure {
  public:
    void look_at(Object status) {
        Object state, ended;
        if (status["state"].get(state) != SUCCESS || state["terminated"].get(ended) != SUCCESS)
            return;
        any_ended_ = true;
        const int code = small(number(ended, "exitCode")), signal = small(number(ended, "signal"));
        const std::string_view at = text(ended, "finishedAt");
        if ((code == 0 && signal == 0) || (found_ && (at.empty() || (!at_.empty() && at_ <= at))))
            return;
        found_ = true;
        at_ = at;
        code_ = code;
        reason_ = text(ended, "reason");
        signal_ = reason_ == "OOMKilled" ? 9 : signal;
    }

    void put_into(Pod &pod, std::string_view pod_reason) const {
        pod.exit_known = any_ended_ || pod.terminal();
        if (found_ && pod.phase != Phase::succeeded) {
            pod.exit_code = code_;
            pod.exit_signal = signal_;
            pod.exit_reason = reason_;
        } else if (pod.phase == Phase::failed) {
            pod.exit_code = 1;
        }
        // Evicted, DeadlineExceeded and the like say more than the "Error" of a container that was killed for it.
        if (pod.phase == Phase::failed && !pod_reason.empty())
            pod.exit_reason = pod_reason;
    }

  private:
    bool any_ended_ = false, found_ = false;
    int code_ = 0, signal_ = 0;
    std::string_view at_, reason_;
};

void read_spec(Object spec, Pod &pod) {
    pod.scheduler_name = text(spec, "schedulerName");
    pod.node_name = text(spec, "nodeName");
    pod.service_account = text(spec, "serviceAccountName");
    pod.priority_class = text(spec, "priorityClassName");
    pod.grace_seconds = std::max<std::int64_t>(0, number(spec, "terminationGracePeriodSeconds", 30));
    pod.active_deadline_seconds = std::max<std::int64_t>(0, number(spec, "activeDeadlineSeconds"));
    Array gates;
    pod.gated = spec["schedulingGates"].get(gates) == SUCCESS && gates.begin() != gates.end();
    auto need = pod_resources(spec);
    if (need)
        pod.need = std::move(*need);
    else
        pod.problem = need.error();
}

void read_status(Object status, Object spec, bool has_spec, Pod &pod) {
    pod.phase = phase_of(text(status, "phase"));
    each(status, "conditions", [&](Object condition) {
        if (text(condition, "type") != "PodScheduled")
            return;
        pod.scheduled_status = text(condition, "status");
        pod.scheduled_reason = text(condition, "reason");
        pod.scheduled_message = text(condition, "message");
    });
    // Sidecars are ended by force when the rest is done: how they end says nothing about the pod.
    std::vector<std::string_view> sidecars;
    if (has_spec)
        each(spec, "initContainers", [&](Object container) {
            if (is_sidecar(container))
                sidecars.push_back(text(container, "name"));
        });
    FirstFailure failure;
    each(status, "initContainerStatuses", [&](Object container) {
        if (std::find(sidecars.begin(), sidecars.end(), text(container, "name")) == sidecars.end())
            failure.look_at(container);
    });
    each(status, "containerStatuses", [&](Object container) { failure.look_at(container); });
    failure.put_into(pod, text(status, "reason"));
}

Result<void> read(Object from, Pod &pod) {
    Object metadata, spec, status;
    if (from["metadata"].get(metadata) != SUCCESS)
        return Error{"a pod without metadata"};
    pod.ns = text(metadata, "namespace");
    pod.name = text(metadata, "name");
    pod.uid = text(metadata, "uid");
    pod.resource_version = text(metadata, "resourceVersion");
    if (pod.name.empty() || pod.uid.empty() || pod.ns.empty())
        return Error{
            fmt::format("a pod without namespace, name or uid ('{}/{}')", for_log(pod.ns, 80), for_log(pod.name, 80))};
    pod.deleting = !text(metadata, "deletionTimestamp").empty();
    pod.annotations = ours(metadata, "annotations");
    pod.labels = ours(metadata, "labels");
    each(metadata, "ownerReferences", [&](Object owner) {
        if (!flag(owner, "controller"))
            return;
        pod.owner = {std::string(text(owner, "apiVersion")), std::string(text(owner, "kind")), std::string(text(owner, "name")),
                     std::string(text(owner, "uid"))};
    });
    const bool has_spec = from["spec"].get(spec) == SUCCESS;
    if (has_spec)
        read_spec(spec, pod);
    if (from["status"].get(status) == SUCCESS)
        read_status(status, spec, has_spec, pod);
    return {};
}

Result<void> read(Object from, Node &node) {
    Object metadata, spec, status, allocatable;
    if (from["metadata"].get(metadata) != SUCCESS)
        return Error{"a node without metadata"};
    node.name = text(metadata, "name");
    node.uid = text(metadata, "uid");
    node.resource_version = text(metadata, "resourceVersion");
    if (node.name.empty() || node.uid.empty())
        return Error{fmt::format("a node without name or uid ('{}')", for_log(node.name, 80))};
    if (from["spec"].get(spec) == SUCCESS)
        node.unschedulable = flag(spec, "unschedulable");
    if (from["status"].get(status) != SUCCESS)
        return {};
    each(status, "conditions", [&](Object condition) {
        if (text(condition, "type") == "Ready")
            node.ready = text(condition, "status") == "True";
    });
    if (status["allocatable"].get(allocatable) != SUCCESS)
        return {};
    if (const auto cpu = parse_milli(text(allocatable, "cpu")))
        node.cpu_milli = *cpu;
    if (const auto memory = parse_units(text(allocatable, "memory")))
        node.memory_bytes = *memory;
    return {};
}

template <class Record>
Result<Record> record(Object from) {
    Record out;
    if (const auto done = read(from, out); !done)
        return Error{done.error()};
    return out;
}

}  // namespace

std::string status_message(const std::string &body) {
    simdjson::dom::parser parser;
    Object root;
    std::string_view message;
    if (parser.parse(simdjson::padded_string(body)).get(root) == SUCCESS && root["message"].get(message) == SUCCESS)
        return for_log(message, 500);
    return for_log(body, 200);
}

int version_minor(const std::string &body) {
    simdjson::dom::parser parser;
    Object root;
    if (parser.parse(simdjson::padded_string(body)).get(root) != SUCCESS)
        return 0;
    const std::string_view major = text(root, "major"), minor = text(root, "minor");
    int major_number = 0, minor_number = 0;
    std::from_chars(major.data(), major.data() + major.size(), major_number);
    std::from_chars(minor.data(), minor.data() + minor.size(), minor_number);
    return major_number > 1 ? 1000 : major_number == 1 ? minor_number : 0;
}

std::string_view padded(std::string &text) {
    text.reserve(text.size() + Frames::padding);
    return text;
}

struct Decoder::Parser {
    // Room grows with the texts; the depth is fixed here. Failing to allocate shows at the first parse.
    Parser() { [[maybe_unused]] const auto ignored = parser.allocate(64 << 10, deepest); }

    Result<Object> parse(std::string_view json) {
        Element root;
        Object out;
        if (const auto code = parser.parse(json.data(), json.size(), false).get(root); code != SUCCESS)
            return Error{fmt::format("not JSON that can be read: {}", simdjson::error_message(code))};
        if (root.get(out) != SUCCESS)
            return Error{"not a JSON object"};
        return out;
    }

    simdjson::dom::parser parser;
};

Decoder::Decoder() : parser_(std::make_unique<Parser>()) {}
Decoder::~Decoder() = default;

Result<Pod> Decoder::pod(std::string_view json) {
    const auto root = parser_->parse(json);
    return root ? record<Pod>(*root) : Result<Pod>(Error{root.error()});
}

Result<Node> Decoder::node(std::string_view json) {
    const auto root = parser_->parse(json);
    return root ? record<Node>(*root) : Result<Node>(Error{root.error()});
}

template <class Record>
Result<ListPage<Record>> Decoder::list(std::string_view json) {
    const auto root = parser_->parse(json);
    if (!root)
        return Error{root.error()};
    Object metadata;
    Array items;
    if ((*root)["metadata"].get(metadata) != SUCCESS || text(metadata, "resourceVersion").empty())
        return Error{"a list without a resourceVersion"};
    ListPage<Record> page;
    page.resource_version = text(metadata, "resourceVersion");
    page.next = text(metadata, "continue");
    Element list;
    if ((*root)["items"].get(list) != SUCCESS || list.is_null())
        return page;  // "items": null is how an empty list may look
    if (list.get(items) != SUCCESS)
        return Error{"a list whose items are no array"};
    page.items.reserve(items.size());
    for (const auto element : items) {
        Object object;
        auto item = element.get(object) == SUCCESS ? record<Record>(object)
                                                   : Result<Record>(Error{"an item that is no object"});
        if (item)
            page.items.push_back(std::move(*item));
        else if (page.bad++ == 0)
            page.first_problem = item.error();
    }
    return page;
}

template <class Record>
Result<WatchEvent<Record>> Decoder::event(std::string_view json) {
    using Event = WatchEvent<Record>;
    using Kind = typename Event::Kind;
    const auto root = parser_->parse(json);
    if (!root)
        return Error{root.error()};
    Object object, metadata;
    const std::string_view type = text(*root, "type");
    if (type.empty() || (*root)["object"].get(object) != SUCCESS)
        return Error{"a watch event without type or object"};
    Event out;
    out.kind = type == "ADDED"      ? Kind::added
               : type == "MODIFIED" ? Kind::modified
               : type == "DELETED"  ? Kind::deleted
               : type == "BOOKMARK" ? Kind::bookmark
               : type == "ERROR"    ? Kind::error
                                    : Kind::unknown;
    if (out.kind == Kind::error) {
        out.code = small(number(object, "code"));
        out.message = for_log(text(object, "message"));
        return out;
    }
    if (object["metadata"].get(metadata) == SUCCESS)
        out.resource_version = text(metadata, "resourceVersion");
    if (out.kind != Kind::added && out.kind != Kind::modified && out.kind != Kind::deleted)
        return out;
    auto item = record<Record>(object);
    if (item)
        out.object = std::move(*item);
    else
        out.problem = item.error();
    return out;
}

template Result<ListPage<Pod>> Decoder::list<Pod>(std::string_view);
template Result<ListPage<Node>> Decoder::list<Node>(std::string_view);
template Result<WatchEvent<Pod>> Decoder::event<Pod>(std::string_view);
template Result<WatchEvent<Node>> Decoder::event<Node>(std::string_view);

}  // namespace berth::kube
