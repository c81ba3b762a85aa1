// What anybody on the host sends to the web server, in one piece and in two; and the same bytes as an address to listen on.
#include "agent/web/request.h"

#include <algorithm>

#include "agent/web/address.h"
#include "test/fuzz/fuzz.h"

using namespace berth::web;
namespace fuzz = berth::fuzz;

namespace {

bool printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    const std::string_view text = fuzz::as_text(data, size);
    const Parsed got = parse_request(text);
    const bool known = got.status == 0 || got.status == 200 || got.status == 400 || got.status == 405 || got.status == 431 || got.status == 505;
    fuzz::require(known, "an answer is one of the few", text);
    fuzz::require(got.status != 0 || text.size() < most_request, "a head has an end", text);
    if (got.status == 200) {
        const Request &request = got.request;
        fuzz::require(request.path.starts_with('/') && printable(request.path) && request.path.find('?') == std::string::npos, "a path is plain", text);
        fuzz::require(printable(request.host), "a host is plain", text);
        // What comes behind a complete head changes nothing.
        const Parsed more = parse_request(std::string(text) + "GET /other HTTP/1.1\r\nHost: other\r\n\r\n");
        fuzz::require(more.status == 200 && more.request.path == request.path && more.request.host == request.host, "a request ends where it ends", text);
    }
    // Whatever was refused stays refused; what was waited for was not an answer before.
    for (std::size_t cut = 0; cut < text.size() && cut < 64; ++cut) {
        const Parsed part = parse_request(std::string(text.substr(0, cut)));
        fuzz::require(part.status == 0 || part.status == got.status, "a piece says nothing else than the whole", text);
    }
    plain_host(text);
    const auto address = parse_address(text);
    if (!address)
        fuzz::require_sentence(address.error(), 200);
    return 0;
}
