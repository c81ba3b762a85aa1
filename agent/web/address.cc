#include "agent/web/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

namespace berth::web {

namespace {

bool is_v4(std::string_view text) {
    in_addr ignored{};
    return inet_pton(AF_INET, std::string(text).c_str(), &ignored) == 1;
}

bool is_v6(std::string_view text) {
    in6_addr ignored{};
    return inet_pton(AF_INET6, std::string(text).c_str(), &ignored) == 1;
}

// "HOST:PORT" or "[HOST]:PORT"; the port may be missing.
bool split(std::string_view text, std::string_view &host, std::string_view &port) {
    if (text.starts_with('[')) {
        const std::size_t end = text.find(']');
        if (end == std::string_view::npos)
            return false;
        host = text.substr(1, end - 1);
        text.remove_prefix(end + 1);
        if (!text.empty() && text[0] != ':')
            return false;
        port = text.empty() ? "" : text.substr(1);
        return is_v6(host);
    }
    const std::size_t colon = text.find(':');
    host = text.substr(0, colon);
    port = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    return true;
}

}  // namespace

bool Address::loopback() const {
    if (storage.ss_family == AF_INET)
        return (ntohl(reinterpret_cast<const sockaddr_in &>(storage).sin_addr.s_addr) >> 24) == 127;
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 &>(storage).sin6_addr);
}

Result<std::optional<Address>> parse_address(std::string_view text) {
    if (text == "off")
        return std::optional<Address>();
    std::string_view host, digits;
    std::uint16_t port = 0;
    const auto wrong = [&] { return Error{"is no address to listen on; accepted are such as 127.0.0.1:9484 and [::1]:9484, and off"}; };
    if (!split(text, host, digits))
        return wrong();
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (error != std::errc() || end != digits.data() + digits.size())
        return wrong();
    Address address;
    if (text.starts_with('[')) {
        auto &v6 = reinterpret_cast<sockaddr_in6 &>(address.storage);
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        inet_pton(AF_INET6, std::string(host).c_str(), &v6.sin6_addr);
        address.length = sizeof v6;
    } else if (is_v4(host)) {
        auto &v4 = reinterpret_cast<sockaddr_in &>(address.storage);
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        inet_pton(AF_INET, std::string(host).c_str(), &v4.sin_addr);
        address.length = sizeof v4;
    } else {
        return wrong();
    }
    return std::optional<Address>(address);
}

bool plain_host(std::string_view text) {
    std::string_view host, port;
    if (!split(text, host, port))
        return false;
    for (const char c : port)
        if (c < '0' || c > '9')
            return false;
    return text.starts_with('[') || host == "localhost" || is_v4(host);
}

}  // namespace berth::web
