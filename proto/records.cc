#include "proto/records.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>

namespace berth {

namespace {

constexpr const char *kind_names[] = {"/jobs", "/ended", "/held", "/begun", "/gate"};

// Names become file names: digits, letters, dot and dash only, and never a dot first (temporary files have one).
bool safe_name(std::string_view name) {
    return !name.empty() && name.size() <= 128 && name.front() != '.' &&
           name.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-") ==
               std::string_view::npos;
}

bool make_directory(const std::string &path, mode_t mode, std::string &why) {
    if (mkdir(path.c_str(), mode) == 0)
        return true;
    const int error = errno;
    struct stat st {};
    if (error != EEXIST)
        why = path + ": " + std::strerror(error);
    else if (lstat(path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
        why = path + ": is not a directory";
    else if ((st.st_mode & 022) != 0)
        why = path + ": others than its owner may write there";
    else if (st.st_uid != 0 && st.st_uid != geteuid())
        why = path + ": belongs to uid " + std::to_string(st.st_uid) + ", who could forge the records of pods; chown root " + path;
    else
        return true;
    return false;
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        text.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

}  // namespace

std::string RunDir::expand(std::string_view pattern, std::string_view node) {
    std::string out(pattern);
    for (std::size_t at = 0; (at = out.find("%n", at)) != std::string::npos; at += node.size())
        out.replace(at, 2, node);
    return out;
}

std::string RunDir::job_name(std::uint32_t job, std::string_view nonce) {
    return std::to_string(job) + "." + std::string(nonce);
}

std::string RunDir::path(Kind kind, const std::string &name) const { return root_ + kind_names[kind] + "/" + name; }

bool RunDir::make(std::string &why) const {
    for (std::size_t slash = root_.find('/', 1); slash != std::string::npos; slash = root_.find('/', slash + 1)) {
        const std::string parent = root_.substr(0, slash);
        if (mkdir(parent.c_str(), 0755) != 0 && errno != EEXIST) {
            why = parent + ": " + std::strerror(errno);
            return false;
        }
    }
    if (!make_directory(root_, 0755, why))
        return false;
    for (const char *kind : kind_names)
        if (!make_directory(root_ + kind, 0700, why))
            return false;
    return true;
}

bool RunDir::made() const { return access(path(held, "").c_str(), F_OK) == 0; }

bool RunDir::write(Kind kind, const std::string &name, const Message &message, std::string &why) const {
    const std::string text = encode(message);
    if (!safe_name(name) || text.empty()) {
        why = "a record with a name or value that cannot be written";
        return false;
    }
    const std::string target = path(kind, name);
    const std::string temporary = path(kind, "." + name + "." + std::to_string(getpid()));
    const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    const bool written = fd >= 0 && write_all(fd, text);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (written && rename(temporary.c_str(), target.c_str()) == 0)
        return true;
    why = target + ": " + std::strerror(written ? errno : error);
    unlink(temporary.c_str());
    return false;
}

std::optional<Message> RunDir::read(Kind kind, const std::string &name) const {
    if (!safe_name(name))
        return std::nullopt;
    const int fd = open(path(kind, name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return std::nullopt;
    std::string text(max_message + 1, '\0');
    std::size_t length = 0;
    ssize_t n = 0;
    while (length < text.size() && (n = ::read(fd, text.data() + length, text.size() - length)) > 0)
        length += static_cast<std::size_t>(n);
    close(fd);
    text.resize(length);
    std::string why;
    return decode(text, why);
}

bool RunDir::exists(Kind kind, const std::string &name) const {
    return safe_name(name) && (access(path(kind, name).c_str(), F_OK) == 0 || (errno != ENOENT && errno != ENOTDIR));
}

void RunDir::remove(Kind kind, const std::string &name) const {
    if (safe_name(name))
        unlink(path(kind, name).c_str());
}

bool RunDir::list(Kind kind, std::vector<std::string> &names) const {
    const std::unique_ptr<DIR, int (*)(DIR *)> dir(opendir((root_ + kind_names[kind]).c_str()), closedir);
    if (!dir)
        return errno == ENOENT;
    errno = 0;
    while (const dirent *entry = readdir(dir.get()))
        if (safe_name(entry->d_name))
            names.emplace_back(entry->d_name);
    return errno == 0;
}

std::optional<long> RunDir::age_seconds(Kind kind, const std::string &name) const {
    struct stat st {};
    if (!safe_name(name) || stat(path(kind, name).c_str(), &st) != 0)
        return std::nullopt;
    return static_cast<long>(time(nullptr) - st.st_mtime);
}

}  // namespace berth
