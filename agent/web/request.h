// The head of an HTTP request, as far as a server needs it that only hands things out: which path, and whom the client means to speak to.
// Bodies, query strings and all other headers are nobody's business here. Pure; fuzzed (test/fuzz/request.cc).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace berth::web {

constexpr std::size_t most_request = 8192;  // bytes of a head; browsers send less than one thousand

struct Request {
    std::string path;   // "/metrics": begins with '/', printable, without the query
    std::string host;   // the Host header, "" when there is none (HTTP/1.0)
    bool head = false;  // HEAD: the answer without its body
};

struct Parsed {
    int status = 0;  // 0: not complete yet; 200: `request` holds it; else how it is refused (400, 405, 431, 505)
    Request request;
};

// `bytes` is all that has arrived so far.
Parsed parse_request(std::string_view bytes);

}  // namespace berth::web
