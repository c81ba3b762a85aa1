// Where the web server listens, as berth.yaml says it: "127.0.0.1:9484", "[::1]:9484", or "off". Literal addresses only: a name could come to
// mean another host. Pure.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "agent/result.h"

namespace berth::web {

struct Address {
    sockaddr_storage storage{};
    socklen_t length = 0;

    bool loopback() const;  // only this host can reach it
};

// Nothing for "off".
Result<std::optional<Address>> parse_address(std::string_view text);

// Whether a request's Host header can be of somebody who means this server: an address or "localhost", not a name. A page of another
// site that a browser on this host has open can have a name of its own lead here, and would read the answer.
bool plain_host(std::string_view host);

}  // namespace berth::web
