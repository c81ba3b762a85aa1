#include "proto/seal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "proto/hmac_sha256.h"
#include "proto/trusted_path.h"

namespace berth {

namespace {

constexpr std::size_t digest_hex = 64;
constexpr std::size_t min_key = 32, max_key = 4096;

}  // namespace

std::string seal(std::string_view key, std::string_view text) {
    return to_hex(hmac_sha256(key, text)).append(".").append(text);
}

std::optional<std::string_view> open_seal(std::string_view key, std::string_view sealed) {
    if (sealed.size() <= digest_hex || sealed[digest_hex] != '.')
        return std::nullopt;
    const std::string_view text = sealed.substr(digest_hex + 1);
    if (!same_secret(to_hex(hmac_sha256(key, text)), sealed.substr(0, digest_hex)))
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
    if (!trusted_directories(path, why))
        return std::nullopt;
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
