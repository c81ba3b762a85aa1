#include "proto/version.h"

#include <limits>

#include "proto/flat_json.h"

namespace berth {

namespace {

constexpr std::size_t max_ticket = 8 * 1024;
constexpr std::uint32_t most_parts = 128;  // of a heterogeneous job, by Slurm
constexpr std::string_view opening = "{\"berth\":";

bool read(const FlatJson &object, const char *key, std::string &out) {
    const auto value = object.text(key);
    if (!value || value->empty())
        return false;
    out = *value;
    return true;
}

template <class Number>
bool read(const FlatJson &object, const char *key, Number &out) {
    const auto value = object.number(key);
    if (!value || *value > std::numeric_limits<Number>::max())
        return false;
    out = static_cast<Number>(*value);
    return true;
}

bool read(const FlatJson &object, const char *key, bool &out) {
    const auto value = object.truth(key);
    out = value.value_or(false);
    return value.has_value();
}

// A member that may be left out; when it is there it must be right.
template <class Value>
bool read_optional(const FlatJson &object, const char *key, Value &out) {
    return !object.has(key) || read(object, key, out);
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

std::string to_json(const Ticket &ticket) { return to_json(ticket, ticket_versions); }

std::optional<Ticket> parse_ticket(std::string_view json, std::string &why) { return parse_ticket(json, why, ticket_versions); }

std::string to_json(const Ticket &t, const Versions &versions) {
    FlatJsonWriter out;
    out.number("berth", versions.written).text("cluster", t.cluster).text("ns", t.ns).text("kind", t.kind).text("name", t.name);
    out.text("uid", t.uid).text("nonce", t.nonce).number("user", t.user).number("group", t.group).number("size", t.size);
    out.number("cpus", t.cpus).number("memory", t.memory_mib);
    // What is as most tickets have it is left out: the ticket of a single pod stays short.
    const auto put_text = [&](const char *key, const std::string &text) {
        if (!text.empty())
            out.text(key, text);
    };
    const auto put_number = [&](const char *key, std::uint64_t number, std::uint64_t usual) {
        if (number != usual)
            out.number(key, number);
    };
    const auto put_truth = [&](const char *key, bool truth) {
        if (truth)
            out.truth(key, true);
    };
    put_text("gres", t.gres);
    put_truth("plain", t.plain);
    put_number("part", t.part, 0);
    put_number("parts", t.parts, 1);
    put_text("shape", t.shape);
    put_number("gang", t.gang, 1);
    put_text("selector", t.selector);
    put_text("scheduling_group", t.scheduling_group);
    put_text("tenant", t.tenant);
    put_number("per_node", t.per_node, 0);
    put_number("term", t.term, 0);
    put_truth("over", t.over);
    std::string json = out.finish();
    return json.size() <= max_ticket ? json : std::string();
}

std::optional<Ticket> parse_ticket(std::string_view json, std::string &why, const Versions &versions) {
    if (json.size() > max_ticket) {
        why = "the ticket is longer than 8 KiB";
        return std::nullopt;
    }
    // So that nothing passes here which a guard that asks looks_like_ticket() took for an ordinary job's text.
    if (!looks_like_ticket(json)) {
        why = "no ticket: it does not begin with {\"berth\":";
        return std::nullopt;
    }
    std::size_t error_at = 0;
    const auto object = FlatJson::parse(json, error_at);
    if (!object) {
        // Where, and not what: a log had better not hold the bytes.
        why = "the ticket is no JSON: it cannot be read at byte " + std::to_string(error_at);
        return std::nullopt;
    }
    std::uint32_t version = 0;
    if (!read(*object, "berth", version) || !versions.reads(version)) {
        why = "the ticket is of a version that is not spoken here: this build and the controller's are more than one release apart";
        return std::nullopt;
    }
    Ticket t;
    const char *bad = nullptr;
    const auto need = [&](bool found, const char *key) {
        if (!found && bad == nullptr)
            bad = key;
    };
    need(read(*object, "cluster", t.cluster), "cluster");
    need(read(*object, "ns", t.ns), "ns");
    need(read(*object, "kind", t.kind), "kind");
    need(read(*object, "name", t.name), "name");
    need(read(*object, "uid", t.uid), "uid");
    need(read(*object, "nonce", t.nonce) && is_nonce(t.nonce), "nonce");
    need(read(*object, "user", t.user), "user");
    need(read(*object, "group", t.group), "group");
    need(read(*object, "size", t.size) && t.size > 0, "size");
    need(read(*object, "cpus", t.cpus), "cpus");
    need(read(*object, "memory", t.memory_mib), "memory");
    need(read_optional(*object, "gres", t.gres), "gres");
    need(read_optional(*object, "plain", t.plain), "plain");
    need(read_optional(*object, "parts", t.parts) && t.parts > 0 && t.parts <= most_parts, "parts");
    need(read_optional(*object, "part", t.part) && t.part < t.parts, "part");
    need(read_optional(*object, "shape", t.shape) && (t.parts == 1 || !t.shape.empty()), "shape");
    need(read_optional(*object, "gang", t.gang) && t.gang > 0, "gang");
    need(read_optional(*object, "selector", t.selector), "selector");
    need(read_optional(*object, "scheduling_group", t.scheduling_group), "scheduling_group");
    // Without either, every pod of the namespace would be a member.
    need(t.single() || !t.selector.empty() || !t.scheduling_group.empty(), "selector");
    need(read_optional(*object, "tenant", t.tenant), "tenant");
    need(read_optional(*object, "per_node", t.per_node), "per_node");
    need(read_optional(*object, "term", t.term), "term");
    need(read_optional(*object, "over", t.over), "over");
    if (bad != nullptr) {
        why = std::string("the ticket's ") + bad + " is missing or wrong";
        return std::nullopt;
    }
    return t;
}

}  // namespace berth
