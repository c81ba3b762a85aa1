#include "jobsubmit/file_watch.h"

#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

namespace berth {

namespace {

// IN_CREATE: a file that its writer keeps open is there before it is ever closed. IN_ATTRIB: the wrong mode is mended.
constexpr std::uint32_t events = IN_CREATE | IN_CLOSE_WRITE | IN_MOVED_TO | IN_ATTRIB | IN_MOVE_SELF | IN_ONLYDIR;

std::string directory_of(const std::string &file) {
    const std::size_t slash = file.rfind('/');
    if (slash == std::string::npos)
        return ".";
    return slash == 0 ? "/" : file.substr(0, slash);
}

std::string name_of(const std::string &file) { return file.substr(file.rfind('/') + 1); }

}  // namespace

bool FileWatch::Stamp::operator==(const Stamp &other) const {
    return device == other.device && inode == other.inode && size == other.size &&
           changed.tv_sec == other.changed.tv_sec && changed.tv_nsec == other.changed.tv_nsec;
}

FileWatch::Stamp FileWatch::stamp_of(const std::string &file) {
    struct stat st {};
    if (stat(file.c_str(), &st) != 0)
        return {};
    return {st.st_dev, st.st_ino, st.st_size, st.st_ctim};
}

FileWatch::FileWatch() : fd_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

FileWatch::~FileWatch() {
    if (fd_ >= 0)
        close(fd_);
}

void FileWatch::touch(const std::string &directory) {
    for (const auto &[file, stamp] : files_)
        if (directory_of(file) == directory)
            touched_.insert(file);
}

bool FileWatch::follow(const std::vector<std::string> &files) {
    std::map<std::string, Stamp> wanted;
    for (const std::string &file : files) {
        const auto known = files_.find(file);
        wanted[file] = known != files_.end() ? known->second : Stamp{};
        if (known == files_.end())
            touched_.insert(file);
    }
    files_ = std::move(wanted);
    bool all = true;
    for (const auto &[file, stamp] : files_) {
        const std::string directory = directory_of(file);
        if (directories_.count(directory) != 0)
            continue;
        const int number = fd_ >= 0 ? inotify_add_watch(fd_, directory.c_str(), events) : -1;
        all = all && number >= 0;
        if (number >= 0) {
            directories_[directory] = number;
            touch(directory);  // what happened before the watch stood must not be missed
        }
    }
    return all;
}

void FileWatch::read_events() {
    alignas(inotify_event) char buffer[8192];
    for (ssize_t n; fd_ >= 0 && (n = read(fd_, buffer, sizeof buffer)) > 0;)
        for (const char *at = buffer; at < buffer + n;) {
            const auto *event = reinterpret_cast<const inotify_event *>(at);
            at += sizeof(inotify_event) + event->len;
            if ((event->mask & (IN_IGNORED | IN_MOVE_SELF | IN_Q_OVERFLOW)) != 0) {
                // A directory went away or events were lost: forget and look at all again.
                if ((event->mask & IN_MOVE_SELF) != 0)
                    inotify_rm_watch(fd_, event->wd);
                directories_.clear();
                for (const auto &[file, stamp] : files_)
                    touched_.insert(file);
            }
            // Two names may lead to one directory, so the name alone must do.
            const std::string name = event->len > 0 ? event->name : "";
            for (const auto &[file, stamp] : files_)
                if (!name.empty() && name_of(file) == name)
                    touched_.insert(file);
        }
}

std::set<std::string> FileWatch::take() {
    read_events();
    for (auto &[file, stamp] : files_) {
        const Stamp now = stamp_of(file);
        if (!(now == stamp))
            touched_.insert(file);
        stamp = now;
    }
    std::set<std::string> changed;
    changed.swap(touched_);
    return changed;
}

}  // namespace berth
