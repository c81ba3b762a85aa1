#include "agent/web/request.h"

#include <strings.h>

#include <algorithm>
#include <utility>

namespace berth::web {

namespace {

bool printable(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

// The line up to its end, which is CRLF, or LF alone; takes it off `text`.
std::string_view take_line(std::string_view &text) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r'))
        line.remove_suffix(1);
    return line;
}

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
        text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
        text.remove_suffix(1);
    return text;
}

// "GET /path?query HTTP/1.1"
int read_request_line(std::string_view line, Request &request) {
    const std::size_t first = line.find(' '), last = line.rfind(' ');
    if (first == std::string_view::npos || first == last)
        return 400;
    const std::string_view method = line.substr(0, first), target = line.substr(first + 1, last - first - 1),
                           version = line.substr(last + 1);
    if (method.empty() || !printable(method) || !target.starts_with('/') || !printable(target) || !version.starts_with("HTTP/"))
        return 400;
    if (version != "HTTP/1.1" && version != "HTTP/1.0")
        return 505;
    if (method != "GET" && method != "HEAD")
        return 405;
    request.head = method == "HEAD";
    request.path = target.substr(0, target.find('?'));
    return 200;
}

int read_headers(std::string_view lines, Request &request) {
    bool host_seen = false;
    while (!lines.empty()) {
        const std::string_view line = take_line(lines);
        const std::size_t colon = line.find(':');
        // A name with a space, or a line that goes on from the one before, is how requests are smuggled.
        if (colon == std::string_view::npos || colon == 0 || !printable(line.substr(0, colon)))
            return 400;
        if (colon != 4 || strncasecmp(line.data(), "host", 4) != 0)
            continue;
        const std::string_view value = trimmed(line.substr(colon + 1));
        if (std::exchange(host_seen, true) || value.empty() || !printable(value))
            return 400;
        request.host = value;
    }
    return 200;
}

}  // namespace

Parsed parse_request(std::string_view bytes) {
    const std::string_view head = bytes.substr(0, most_request);
    const std::size_t crlf = head.find("\n\r\n"), lf = head.find("\n\n");
    if (crlf == std::string_view::npos && lf == std::string_view::npos)
        return {bytes.size() >= most_request ? 431 : 0, {}};
    std::string_view lines = head.substr(0, std::min(crlf, lf) + 1);
    Parsed out;
    out.status = read_request_line(take_line(lines), out.request);
    if (out.status == 200)
        out.status = read_headers(lines, out.request);
    if (out.status != 200)
        out.request = {};
    return out;
}

}  // namespace berth::web
