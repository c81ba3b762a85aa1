#include "proto/trusted_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

namespace berth {

namespace {

bool ours(const struct stat &st) { return st.st_uid == 0 || st.st_uid == geteuid(); }

// All directories above `path`, as it is written.
bool chain_is_safe(const std::string &path, bool owners, std::string &why) {
    for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        const std::string directory = slash == 0 ? "/" : path.substr(0, slash);
        struct stat st {};
        if (stat(directory.c_str(), &st) != 0) {
            why = directory + ": " + std::strerror(errno);
            return false;
        }
        if ((st.st_mode & 022) != 0 && (st.st_mode & S_ISVTX) == 0) {
            why = path + ": others may write to the directory " + directory + ", and so put another file in its place; chmod go-w " + directory;
            return false;
        }
        if (owners && !ours(st)) {
            why = path + ": the directory " + directory + " belongs to uid " + std::to_string(st.st_uid) + ", who may put another file in its place";
            return false;
        }
    }
    return true;
}

bool both_chains_are_safe(const std::string &path, bool owners, std::string &why) {
    char real[PATH_MAX];
    if (realpath(path.c_str(), real) == nullptr) {
        why = path + ": " + std::strerror(errno);
        return false;
    }
    return chain_is_safe(path, owners, why) && (path == real || chain_is_safe(real, owners, why));
}

}  // namespace

bool trusted_directories(const std::string &path, std::string &why) { return both_chains_are_safe(path, false, why); }

bool trusted_file(const std::string &path, bool secret, std::string &why) {
    struct stat st {};
    if (stat(path.c_str(), &st) != 0)
        why = path + ": " + std::strerror(errno);
    else if (!S_ISREG(st.st_mode))
        why = path + ": not a plain file";
    else if (!ours(st))
        why = path + ": belongs to uid " + std::to_string(st.st_uid) + "; only a file of root's or of uid " + std::to_string(geteuid()) +
              "'s own is believed";
    else if ((st.st_mode & 022) != 0)
        why = path + ": others may write to it; chmod go-w " + path;
    else if (secret && (st.st_mode & 004) != 0)
        why = path + ": everybody may read the secret in it; chmod o-r " + path;
    else
        return both_chains_are_safe(path, true, why);
    return false;
}

}  // namespace berth
