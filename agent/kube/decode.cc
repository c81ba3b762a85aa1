#include "agent/kube/decode.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "agent/kube/json_text.h"
#include "agent/kube/record_decode.h"
#include "agent/translate/quantity.h"

namespace berth::kube {

namespace {

using simdjson::SUCCESS;
using Array = simdjson::dom::array;
using Element = simdjson::dom::element;

static_assert(Frames::padding >= simdjson::SIMDJSON_PADDING);

// Far above what the API holds (pods nest about 15 deep), far below what would cost memory.
constexpr std::size_t deepest = 128;

// Both go into the path of a request. A version is a number, a token some hundred bytes; what no server would take back is not kept, or
// every later request would fail by it.
constexpr std::size_t longest_version = 256, longest_token = 16 << 10;

int small(std::int64_t value) {
    return static_cast<int>(
        std::clamp<std::int64_t>(value, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()));
}

template <class Record>
Result<Record> record(Json from, const Record &blank) {
    Record out = blank;
    if (const auto done = read(from, out); !done)
        return Error{done.error()};
    return out;
}

}  // namespace

Result<void> read(Json from, Node &node) {
    Json metadata, spec, status, allocatable;
    if (from["metadata"].get(metadata) != SUCCESS)
        return Error{"a node without metadata"};
    node.name = text(metadata, "name");
    node.uid = text(metadata, "uid");
    node.resource_version = text(metadata, "resourceVersion");
    if (node.name.empty() || node.uid.empty())
        return Error{fmt::format("a node without name or uid ('{}')", for_log(node.name, 80))};
    node.labels = read_all(metadata, "labels");
    node.annotations = read_annotations(metadata);
    if (from["spec"].get(spec) == SUCCESS) {
        node.unschedulable = flag(spec, "unschedulable");
        each(spec, "taints", [&](Json taint) {
            node.taints.push_back({std::string(text(taint, "key")), std::string(text(taint, "value")),
                                   std::string(text(taint, "effect")), std::string(text(taint, "timeAdded"))});
        });
    }
    if (from["status"].get(status) != SUCCESS)
        return {};
    each(status, "conditions", [&](Json condition) {
        const std::string_view type = text(condition, "type");
        const bool is_true = text(condition, "status") == "True";
        if (type == "Ready") {
            node.ready = is_true;
            node.ready_message = text(condition, "message");
        } else if (is_true && (type == "DiskPressure" || type == "MemoryPressure" || type == "PIDPressure")) {
            node.pressures.emplace_back(type, text(condition, "message"));
        }
    });
    if (status["allocatable"].get(allocatable) != SUCCESS)
        return {};
    if (const auto cpu = parse_milli(text(allocatable, "cpu")))
        node.cpu_milli = *cpu;
    if (const auto memory = parse_units(text(allocatable, "memory")))
        node.memory_bytes = *memory;
    if (const auto pods = parse_units(text(allocatable, "pods")))
        node.pods = *pods;
    for (const auto field : allocatable)
        if (std::string_view value; field.key != "cpu" && field.key != "memory" && field.key != "pods" && field.value.get(value) == SUCCESS)
            if (const auto units = parse_units(value))
                node.extended.emplace_back(field.key, *units);
    return {};
}

std::string status_message(const std::string &body) {
    simdjson::dom::parser parser;
    Json root;
    std::string_view message;
    if (parser.parse(simdjson::padded_string(body)).get(root) == SUCCESS && root["message"].get(message) == SUCCESS)
        return for_log(message, 500);
    return for_log(body, 200);
}

int version_minor(const std::string &body) {
    simdjson::dom::parser parser;
    Json root;
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

    Result<Json> parse(std::string_view json) {
        Element root;
        Json out;
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

template <class Record>
Result<Record> Decoder::one(std::string_view json, const Record &blank) {
    const auto root = parser_->parse(json);
    return root ? record<Record>(*root, blank) : Result<Record>(Error{root.error()});
}

Result<Pod> Decoder::pod(std::string_view json) { return one<Pod>(json, {}); }
Result<Node> Decoder::node(std::string_view json) { return one<Node>(json, {}); }
Result<Object> Decoder::object(std::string_view json, const Object &blank) { return one<Object>(json, blank); }
Result<Claim> Decoder::claim(std::string_view json) { return one<Claim>(json, {}); }

template <class Record>
Result<ListPage<Record>> Decoder::list(std::string_view json, const Record &blank) {
    const auto root = parser_->parse(json);
    if (!root)
        return Error{root.error()};
    Json metadata;
    Array items;
    if ((*root)["metadata"].get(metadata) != SUCCESS || text(metadata, "resourceVersion").empty())
        return Error{"a list without a resourceVersion"};
    if (text(metadata, "resourceVersion").size() > longest_version || text(metadata, "continue").size() > longest_token)
        return Error{"a list whose resourceVersion or continue token is too long to be sent back"};
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
        Json object;
        auto item = element.get(object) == SUCCESS ? record<Record>(object, blank)
                                                   : Result<Record>(Error{"an item that is no object"});
        if (item)
            page.items.push_back(std::move(*item));
        else if (page.bad++ == 0)
            page.first_problem = item.error();
    }
    return page;
}

template <class Record>
Result<WatchEvent<Record>> Decoder::event(std::string_view json, const Record &blank) {
    using Event = WatchEvent<Record>;
    using Kind = typename Event::Kind;
    const auto root = parser_->parse(json);
    if (!root)
        return Error{root.error()};
    Json object, metadata;
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
    if (object["metadata"].get(metadata) == SUCCESS && text(metadata, "resourceVersion").size() <= longest_version)
        out.resource_version = text(metadata, "resourceVersion");
    if (out.kind != Kind::added && out.kind != Kind::modified && out.kind != Kind::deleted)
        return out;
    auto item = record<Record>(object, blank);
    if (item)
        out.object = std::move(*item);
    else
        out.problem = item.error();
    return out;
}

template Result<ListPage<Pod>> Decoder::list<Pod>(std::string_view, const Pod &);
template Result<ListPage<Node>> Decoder::list<Node>(std::string_view, const Node &);
template Result<ListPage<Object>> Decoder::list<Object>(std::string_view, const Object &);
template Result<WatchEvent<Pod>> Decoder::event<Pod>(std::string_view, const Pod &);
template Result<WatchEvent<Node>> Decoder::event<Node>(std::string_view, const Node &);
template Result<WatchEvent<Object>> Decoder::event<Object>(std::string_view, const Object &);

}  // namespace berth::kube
