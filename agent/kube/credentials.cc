#include "agent/kube/credentials.h"

#include <arpa/inet.h>
#include <fmt/core.h>

#include "agent/yaml.h"

namespace berth::kube {

namespace {

constexpr std::size_t largest_token_file = 64 << 10;
constexpr std::size_t largest_pem_file = 4 << 20;

}  // namespace

Result<std::string> read_token(const std::string &path) {
    auto text = yaml::read_file(path, largest_token_file);
    if (!text)
        return Error{text.error()};
    constexpr const char *white = " \t\r\n";
    const auto first = text->find_first_not_of(white);
    if (first == std::string::npos)
        return Error{fmt::format("{}: holds no token", path)};
    std::string token = text->substr(first, text->find_last_not_of(white) - first + 1);
    for (const char c : token)
        if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f)
            return Error{fmt::format("{}: holds more than one word, or bytes that cannot be part of a token", path)};
    return token;
}

std::string host_of(const std::string &url) {
    const auto scheme = url.find("://");
    std::size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
    const std::size_t end = std::min(url.find_first_of("/?#", begin), url.size());
    const auto at = url.rfind('@', end);
    if (at != std::string::npos && at >= begin)
        begin = at + 1;
    if (begin < end && url[begin] == '[') {
        const auto close = url.find(']', begin);
        return close == std::string::npos || close > end ? "" : url.substr(begin + 1, close - begin - 1);
    }
    return url.substr(begin, std::min(url.find(':', begin), end) - begin);
}

bool is_loopback(const std::string &host) {
    in_addr v4{};
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return host == "localhost" || host == "::1";
}

Result<Credentials> load_in_cluster(const std::string &root, const std::string &host, const std::string &port) {
    if (host.empty() || port.empty())
        return Error{
            "no Kubernetes service address in the environment (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT): "
            "outside a pod a kubeconfig is needed"};
    Credentials out;
    out.server = host.find(':') == std::string::npos ? fmt::format("https://{}:{}", host, port)
                                                     : fmt::format("https://[{}]:{}", host, port);
    auto ca = yaml::read_file(root + "/ca.crt", largest_pem_file);
    if (!ca)
        return Error{"the service account's authority cannot be read: " + ca.error()};
    out.ca_pem = std::move(*ca);
    out.token_file = root + "/token";
    const auto token = read_token(out.token_file);  // a missing mount should be said now, not at the first request
    if (!token)
        return Error{"the service account's token cannot be read: " + token.error()};
    out.reload = [root, host, port] {
        return load_in_cluster(root, host, port);
    };
    return out;
}

}  // namespace berth::kube
