// Which versions of a format a build speaks. Plugins, agents and records of two neighbouring releases meet on a node while a site is
// updated, in either order; no side can ask the other what it knows. So a new version takes two releases: the first reads it and
// still writes the one before, the second writes it and still reads the one before. docs/protocol.md says what needs a version at all.
// message.h and ticket.h speak by the constants below; what takes versions as arguments is for the tests of the rule. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "proto/message.h"
#include "proto/ticket.h"

namespace berth {

struct Versions {
    unsigned written;
    unsigned oldest, newest;  // that are read

    constexpr bool reads(unsigned version) const { return version >= oldest && version <= newest; }
    constexpr bool keeps_the_rule() const { return oldest > 0 && reads(written) && newest - oldest <= 1; }
    // Whether builds with these two understand all that the other writes.
    constexpr bool understands(const Versions &other) const { return reads(other.written) && other.reads(written); }
};

constexpr Versions message_versions{1, 1, 1};  // on the socket and in records
constexpr Versions ticket_versions{1, 1, 1};
static_assert(message_versions.keeps_the_rule() && ticket_versions.keeps_the_rule());

std::string encode(const Message &message, const Versions &versions);
std::optional<Message> decode(std::string_view text, std::string &why, const Versions &versions);
std::string to_json(const Ticket &ticket, const Versions &versions);
std::optional<Ticket> parse_ticket(std::string_view json, std::string &why, const Versions &versions);

}  // namespace berth
