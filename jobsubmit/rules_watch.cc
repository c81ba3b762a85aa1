#include "jobsubmit/rules_watch.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "jobsubmit/file_watch.h"
#include "proto/seal.h"
#include "proto/trusted_path.h"

extern "C" {
#include <slurm/spank.h>  // slurm_info(), slurm_error()
}

namespace berth {

namespace {

constexpr std::size_t max_conf = 64 * 1024;
constexpr std::chrono::milliseconds retry{2000};  // while a directory to follow does not exist
constexpr std::chrono::milliseconds settle{50};   // changes that come together are read once

bool read_small(const std::string &path, std::string &out, std::string &why) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        why = path + ": " + std::strerror(errno);
        return false;
    }
    struct stat st {};
    out.resize(max_conf + 1);
    const ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, out.data(), out.size()) : -1;
    close(fd);
    if (n < 0 || static_cast<std::size_t>(n) > max_conf) {
        why = path + ": not a plain file of at most 64 KiB";
        return false;
    }
    if ((st.st_mode & 022) != 0 || (st.st_uid != 0 && st.st_uid != geteuid())) {
        why = path + ": must belong to root or SlurmUser and be writable by its owner alone";
        return false;
    }
    out.resize(static_cast<std::size_t>(n));
    return trusted_directories(path, why);
}

// Waits for stop_fd, and fd if it is one; true when it is time to stop.
bool wait_for(int stop_fd, int fd, std::chrono::milliseconds time, bool &readable) {
    std::array<pollfd, 2> fds{{{stop_fd, POLLIN, 0}, {fd, POLLIN, 0}}};
    readable = poll(fds.data(), fds.size(), static_cast<int>(time.count())) > 0 && fds[1].revents != 0;
    return fds[0].revents != 0;
}

}  // namespace

TableFile::~TableFile() { close(fd_); }

std::uint32_t TableFile::owner_of(std::uint32_t job) const {
    std::uint32_t owner = 0;
    if (pread(fd_, &owner, sizeof owner, static_cast<off_t>(job) * sizeof owner) != sizeof owner)
        return 0;
    return owner;
}

RulesWatch::RulesWatch(std::string conf_path, std::chrono::milliseconds look_anyway)
    : conf_path_(std::move(conf_path)), look_anyway_(look_anyway) {
    load_rules();
    load_table();
    stop_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd_ < 0) {
        slurm_error("berth: eventfd: %s; changes of berth.conf need a restart of slurmctld", std::strerror(errno));
        return;
    }
    // slurmctld handles its signals in a thread of its own: ours must take none.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        thread_ = std::thread([this] {
            try {
                follow();
            } catch (...) {  // must not end slurmctld
                slurm_error("berth: out of memory; changes of berth.conf need a restart of slurmctld from here on");
            }
        });
    } catch (const std::system_error &error) {
        slurm_error("berth: %s; changes of berth.conf need a restart of slurmctld", error.what());
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RulesWatch::~RulesWatch() {
    if (stop_fd_ < 0)
        return;
    eventfd_write(stop_fd_, 1);
    if (thread_.joinable())
        thread_.join();
    close(stop_fd_);
}

std::shared_ptr<const Rules> RulesWatch::current() const {
    const std::lock_guard lock(mutex_);
    return rules_;
}

std::shared_ptr<const TableFile> RulesWatch::table() const {
    const std::lock_guard lock(mutex_);
    return table_;
}

void RulesWatch::load_rules() {
    const auto before = current();
    std::string text, why;
    std::optional<Rules> rules;
    if (read_small(conf_path_, text, why))
        rules = parse_rules(text, conf_path_, system_user, why);
    std::optional<std::string> key;
    if (rules) {
        key_path_ = rules->key_file;
        key = read_key(key_path_, why);
    }
    if (!key) {
        if (why != last_complaint_)
            slurm_error("berth: %s; %s", why.c_str(),
                        before ? "the rules stay as they were" : "placeholders are refused until this is mended");
        last_complaint_ = why;
        return;
    }
    rules->key = std::move(*key);
    const bool news = !before || *rules != *before;
    if (news || !last_complaint_.empty())
        slurm_info("berth: rules read from %s: placeholders come from %s (uid %u)", conf_path_.c_str(),
                   rules->bridge_user.c_str(), rules->bridge_uid);
    last_complaint_.clear();
    if (!news)
        return;
    const auto fresh = std::make_shared<const Rules>(std::move(*rules));
    const std::lock_guard lock(mutex_);
    rules_ = fresh;
}

void RulesWatch::load_table() {
    const auto rules = current();
    if (!rules)
        return;
    const std::string &path = rules->placeholder_table;
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    // While the controller makes it anew the one before still tells, unless berth.conf names another file now.
    if (fd < 0 && path == table_path_)
        return;
    std::shared_ptr<const TableFile> fresh;
    struct stat st {};
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & 022) == 0 &&
        (st.st_uid == 0 || st.st_uid == rules->bridge_uid)) {
        fresh = std::make_shared<const TableFile>(fd);
    } else if (fd >= 0) {
        slurm_error("berth: %s: not a plain file that only root or %s may write; ignored", path.c_str(),
                    rules->bridge_user.c_str());
        close(fd);
    }
    table_path_ = path;
    const std::lock_guard lock(mutex_);
    table_.swap(fresh);
}

void RulesWatch::follow() {
    FileWatch files;
    if (files.fd() < 0)
        slurm_error("berth: inotify: %s; changes of berth.conf are seen within %ld s", std::strerror(errno),
                    static_cast<long>(look_anyway_.count() / 1000));
    for (;;) {
        std::vector<std::string> paths{conf_path_};
        if (!key_path_.empty())
            paths.push_back(key_path_);
        if (const auto rules = current())
            paths.push_back(rules->placeholder_table);
        const bool all = files.follow(paths);
        const auto time = files.fresh() ? std::chrono::milliseconds(0)
                          : all         ? look_anyway_
                                        : std::min(retry, look_anyway_);
        bool changes = false, more = false;
        if (wait_for(stop_fd_, files.fd(), time, changes) || (changes && wait_for(stop_fd_, -1, settle, more)))
            return;
        const auto changed = files.take();
        // After a mistake also without a change: a user directory that was away may be back.
        if (changed.count(conf_path_) != 0 || changed.count(key_path_) != 0 || !last_complaint_.empty())
            load_rules();
        if (const auto rules = current();
            rules && (rules->placeholder_table != table_path_ || changed.count(rules->placeholder_table) != 0))
            load_table();
    }
}

}  // namespace berth
