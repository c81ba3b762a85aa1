#include "proto/ticket.h"

#include <jansson.h>

#include <cstdlib>
#include <limits>
#include <memory>

namespace berth {

namespace {

constexpr std::size_t max_ticket = 8 * 1024;
constexpr std::uint32_t most_parts = 128;  // of a heterogeneous job, by Slurm
constexpr std::string_view opening = "{\"berth\":";

struct Free {
    void operator()(json_t *value) const { json_decref(value); }
    void operator()(char *text) const { std::free(text); }
};

bool read(const json_t *object, const char *key, std::string &out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value) || json_string_length(value) == 0)
        return false;
    out.assign(json_string_value(value), json_string_length(value));
    return true;
}

template <class Number>
bool read(const json_t *object, const char *key, Number &out) {
    const json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        return false;
    const json_int_t number = json_integer_value(value);
    if (number < 0 || static_cast<std::uint64_t>(number) > std::numeric_limits<Number>::max())
        return false;
    out = static_cast<Number>(number);
    return true;
}

bool read(const json_t *object, const char *key, bool &out) {
    const json_t *value = json_object_get(object, key);
    out = json_is_true(value);
    return json_is_boolean(value);
}

// A member that may be left out; when it is there it must be right.
template <class Value>
bool read_optional(const json_t *object, const char *key, Value &out) {
    return json_object_get(object, key) == nullptr || read(object, key, out);
}

bool is_nonce(std::string_view text) {
    return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

bool looks_like_ticket(std::string_view text) {
    // What a person might forge with spaces in between is still a claim.
    std::size_t matched = 0;
    for (const char c : text) {
        if (matched == opening.size())
            return true;
        if (c == opening[matched])
            ++matched;
        else if (c != ' ' && c != '\t' && c != '\n' && c != '\r')
            return false;
    }
    return matched == opening.size();
}

std::string to_json(const Ticket &t) {
    const std::unique_ptr<json_t, Free> object(
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "berth", 1, "cluster",
                  t.cluster.c_str(), "ns", t.ns.c_str(), "kind", t.kind.c_str(), "name", t.name.c_str(), "uid",
                  t.uid.c_str(), "nonce", t.nonce.c_str(), "user", static_cast<json_int_t>(t.user), "group",
                  static_cast<json_int_t>(t.group), "size", static_cast<json_int_t>(t.size), "cpus",
                  static_cast<json_int_t>(t.cpus), "memory", static_cast<json_int_t>(t.memory_mib)));
    if (!object || t.memory_mib > static_cast<std::uint64_t>(std::numeric_limits<json_int_t>::max()))
        return {};
    // What is as most tickets have it is left out: the ticket of a single pod stays short.
    bool written = true;
    const auto put = [&](const char *key, bool needed, json_t *value) {
        written = (needed ? json_object_set_new(object.get(), key, value) == 0 : (json_decref(value), true)) && written;
    };
    const auto put_text = [&](const char *key, const std::string &text) {
        if (!text.empty())
            put(key, true, json_stringn(text.data(), text.size()));
    };
    const auto put_number = [&](const char *key, std::uint32_t number, std::uint32_t usual) {
        put(key, number != usual, json_integer(number));
    };
    put_text("gres", t.gres);
    put("plain", t.plain, json_true());
    put_number("part", t.part, 0);
    put_number("parts", t.parts, 1);
    put_text("shape", t.shape);
    put_number("gang", t.gang, 1);
    put_text("selector", t.selector);
    put_text("scheduling_group", t.scheduling_group);
    put_text("tenant", t.tenant);
    put_number("per_node", t.per_node, 0);
    put("over", t.over, json_true());
    if (!written)
        return {};
    const std::unique_ptr<char, Free> text(json_dumps(object.get(), JSON_COMPACT | JSON_PRESERVE_ORDER));
    if (!text || std::string_view(text.get()).size() > max_ticket)
        return {};
    return text.get();
}

std::optional<Ticket> parse_ticket(std::string_view json, std::string &why) {
    if (json.size() > max_ticket) {
        why = "the ticket is longer than 8 KiB";
        return std::nullopt;
    }
    // So that nothing passes here which a guard that asks looks_like_ticket() took for an ordinary job's text.
    if (!looks_like_ticket(json)) {
        why = "no ticket: it does not begin with {\"berth\":";
        return std::nullopt;
    }
    json_error_t error;
    const std::unique_ptr<json_t, Free> object(json_loadb(json.data(), json.size(), JSON_REJECT_DUPLICATES, &error));
    if (!json_is_object(object.get())) {
        why = object ? "the ticket is not a JSON object" : error.text;
        return std::nullopt;
    }
    std::uint32_t version = 0;
    if (!read(object.get(), "berth", version) || version != 1) {
        why = "the ticket's version is not 1";
        return std::nullopt;
    }
    Ticket t;
    const char *bad = nullptr;
    const auto need = [&](bool found, const char *key) {
        if (!found && bad == nullptr)
            bad = key;
    };
    need(read(object.get(), "cluster", t.cluster), "cluster");
    need(read(object.get(), "ns", t.ns), "ns");
    need(read(object.get(), "kind", t.kind), "kind");
    need(read(object.get(), "name", t.name), "name");
    need(read(object.get(), "uid", t.uid), "uid");
    need(read(object.get(), "nonce", t.nonce) && is_nonce(t.nonce), "nonce");
    need(read(object.get(), "user", t.user), "user");
    need(read(object.get(), "group", t.group), "group");
    need(read(object.get(), "size", t.size) && t.size > 0, "size");
    need(read(object.get(), "cpus", t.cpus), "cpus");
    need(read(object.get(), "memory", t.memory_mib), "memory");
    need(read_optional(object.get(), "gres", t.gres), "gres");
    need(read_optional(object.get(), "plain", t.plain), "plain");
    need(read_optional(object.get(), "parts", t.parts) && t.parts > 0 && t.parts <= most_parts, "parts");
    need(read_optional(object.get(), "part", t.part) && t.part < t.parts, "part");
    need(read_optional(object.get(), "shape", t.shape) && (t.parts == 1 || !t.shape.empty()), "shape");
    need(read_optional(object.get(), "gang", t.gang) && t.gang > 0, "gang");
    need(read_optional(object.get(), "selector", t.selector), "selector");
    need(read_optional(object.get(), "scheduling_group", t.scheduling_group), "scheduling_group");
    // Without either, every pod of the namespace would be a member.
    need(t.single() || !t.selector.empty() || !t.scheduling_group.empty(), "selector");
    need(read_optional(object.get(), "tenant", t.tenant), "tenant");
    need(read_optional(object.get(), "per_node", t.per_node), "per_node");
    need(read_optional(object.get(), "over", t.over), "over");
    if (bad != nullptr) {
        why = std::string("the ticket's ") + bad + " is missing or wrong";
        return std::nullopt;
    }
    return t;
}

}  // namespace berth
