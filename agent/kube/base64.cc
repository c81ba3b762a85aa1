#include "agent/kube/base64.h"

#include <cstdint>

namespace berth::kube {

namespace {

constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int value_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

}  // namespace

std::optional<std::string> base64_decode(std::string_view text) {
    std::string out;
    out.reserve(text.size() / 4 * 3);
    std::uint32_t bits = 0;
    unsigned count = 0, padding = 0;
    for (const char c : text) {
        if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
            continue;
        if (c == '=') {
            ++padding;
            continue;
        }
        const int value = value_of(c);
        if (value < 0 || padding > 0)
            return std::nullopt;
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        if (++count % 4 == 0) {
            out.push_back(static_cast<char>(bits >> 16 & 0xff));
            out.push_back(static_cast<char>(bits >> 8 & 0xff));
            out.push_back(static_cast<char>(bits & 0xff));
        }
    }
    const unsigned rest = count % 4;
    if (rest == 1 || (rest == 0 ? padding != 0 : padding != 4 - rest))
        return std::nullopt;
    if (rest == 2)
        out.push_back(static_cast<char>(bits >> 4 & 0xff));
    if (rest == 3) {
        out.push_back(static_cast<char>(bits >> 10 & 0xff));
        out.push_back(static_cast<char>(bits >> 2 & 0xff));
    }
    return out;
}

std::string base64_encode(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t left = bytes.size() - i;
        std::uint32_t bits = 0;
        for (std::size_t k = 0; k < 3; ++k)
            bits = bits << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        out.push_back(digits[bits >> 18 & 63]);
        out.push_back(digits[bits >> 12 & 63]);
        out.push_back(left > 1 ? digits[bits >> 6 & 63] : '=');
        out.push_back(left > 2 ? digits[bits & 63] : '=');
    }
    return out;
}

}  // namespace berth::kube
