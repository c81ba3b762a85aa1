// system_identities(): users and groups as the host's name service knows them. It may ask a directory server, so
// callers on the event loop keep what they got.
#include <fmt/core.h>
#include <grp.h>
#include <pwd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

#include "agent/translate/placeholder.h"

namespace berth {
namespace {

constexpr std::size_t kFirstBuffer = 4096;
constexpr std::size_t kLargestBuffer = 4 << 20;  // a group's list of members can be long

std::optional<std::uint32_t> as_number(const std::string &text) {
    std::uint32_t number = 0;
    const char *end = text.data() + text.size();
    const auto [rest, code] = std::from_chars(text.data(), end, number);
    // The highest value means "no user" to the kernel.
    if (text.empty() || code != std::errc() || rest != end || number == UINT32_MAX)
        return std::nullopt;
    return number;
}

// Calls one of the get..._r functions with a growing buffer. Gives its errno, 0 with a null result for "not known".
template <class Entry, class Call>
int look_up(Entry &entry, std::vector<char> &buffer, Entry *&found, Call call) {
    buffer.resize(kFirstBuffer);
    for (;;) {
        const int code = call(&entry, buffer.data(), buffer.size(), &found);
        if (code == ERANGE && buffer.size() < kLargestBuffer)
            buffer.resize(buffer.size() * 4);
        else if (code != EINTR)
            return code;
    }
}

// "Not known" comes as any of these, depending on the name service.
bool means_unknown(int code) { return code == 0 || code == ENOENT || code == ESRCH || code == EBADF || code == EPERM; }

Error lookup_failed(const char *what, const std::string &name, int code) {
    if (means_unknown(code))
        return Error{fmt::format("{} \"{}\" is not known to this host", what, name)};
    return Error{fmt::format("{} \"{}\" cannot be looked up: {}", what, name, std::strerror(code))};
}

Result<Identity> look_up_identity(const std::string &user, const std::string &group) {
    Identity identity{0, 0};
    passwd pw{}, *found_pw = nullptr;
    std::vector<char> buffer;
    const std::optional<std::uint32_t> uid = as_number(user);
    const int pw_code = look_up(pw, buffer, found_pw, [&](passwd *entry, char *at, std::size_t size, passwd **found) {
        return uid ? getpwuid_r(*uid, entry, at, size, found) : getpwnam_r(user.c_str(), entry, at, size, found);
    });
    if (found_pw != nullptr) {
        identity = {found_pw->pw_uid, found_pw->pw_gid};
    } else if (uid && means_unknown(pw_code) && !group.empty()) {
        identity.uid = *uid;
    } else if (uid && means_unknown(pw_code)) {
        return Error{fmt::format("user {} is not known to this host, so its group must be named", user)};
    } else {
        return lookup_failed("user", user, pw_code);
    }

    if (group.empty())
        return identity;
    if (const std::optional<std::uint32_t> gid = as_number(group)) {
        identity.gid = *gid;
        return identity;
    }
    struct group gr {}, *found_gr = nullptr;
    const int gr_code =
        look_up(gr, buffer, found_gr, [&](struct group *entry, char *at, std::size_t size, struct group **found) {
            return getgrnam_r(group.c_str(), entry, at, size, found);
        });
    if (found_gr == nullptr)
        return lookup_failed("group", group, gr_code);
    identity.gid = found_gr->gr_gid;
    return identity;
}

}  // namespace

IdentityLookup system_identities() { return look_up_identity; }

}  // namespace berth
