#include "proto/seal.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace berth {

namespace {

constexpr std::size_t digest_hex = 64;
constexpr std::size_t min_key = 32, max_key = 4096;

std::string hmac_hex(std::string_view key, std::string_view text) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char *>(text.data()), text.size(), digest, &length) == nullptr)
        return {};
    static constexpr char hex[] = "0123456789abcdef";
    std::string out;
    out.reserve(digest_hex);
    for (unsigned int i = 0; i < length; ++i) {
        out.push_back(hex[digest[i] >> 4]);
        out.push_back(hex[digest[i] & 15]);
    }
    return out;
}

}  // namespace

std::string seal(std::string_view key, std::string_view text) {
    std::string out = hmac_hex(key, text);
    if (!out.empty())
        out.append(".").append(text);
    return out;
}

std::optional<std::string_view> open_seal(std::string_view key, std::string_view sealed) {
    if (sealed.size() <= digest_hex || sealed[digest_hex] != '.')
        return std::nullopt;
    const std::string_view text = sealed.substr(digest_hex + 1);
    const std::string expected = hmac_hex(key, text);
    if (expected.size() != digest_hex || CRYPTO_memcmp(expected.data(), sealed.data(), digest_hex) != 0)
        return std::nullopt;
    return text;
}

std::optional<std::string> read_key(const std::string &path, std::string &why) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        why = path + ": " + std::strerror(errno);
        return std::nullopt;
    }
    struct stat st {};
    std::string key(max_key + 2, '\0');
    const bool statted = fstat(fd, &st) == 0;
    const ssize_t n = statted && S_ISREG(st.st_mode) ? read(fd, key.data(), key.size()) : -1;
    close(fd);
    if (n < 0) {
        why = path + ": not a readable plain file";
        return std::nullopt;
    }
    if ((st.st_mode & 027) != 0 || (st.st_uid != 0 && st.st_uid != geteuid())) {
        why = path + ": must belong to root (or SlurmUser) with mode 0640 or stricter";
        return std::nullopt;
    }
    key.resize(static_cast<std::size_t>(n));
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r'))
        key.pop_back();
    if (key.size() < min_key || key.size() > max_key) {
        why = path + ": a key has 32 to 4096 bytes; make one with: openssl rand -hex 32";
        return std::nullopt;
    }
    return key;
}

}  // namespace berth
