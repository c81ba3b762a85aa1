#include "agent/controller/placeholder_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "agent/log.h"

namespace berth {

PlaceholderTable::~PlaceholderTable() {
    if (fd_ >= 0)
        close(fd_);
}

Result<void> PlaceholderTable::open() {
    const std::string fresh = path_ + ".new";
    unlink(fresh.c_str());
    fd_ = ::open(fresh.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644);
    // slurmctld may be another user than the controller, and who owns a job is no secret.
    if (fd_ < 0 || fchmod(fd_, 0644) != 0)
        return Error{path_ + ": " + std::strerror(errno) + "; its directory must be writable for the controller's user"};
    return {};
}

bool PlaceholderTable::write(std::uint32_t job, std::uint32_t owner) {
    const bool done = pwrite(fd_, &owner, sizeof owner, static_cast<off_t>(job) * sizeof owner) == sizeof owner;
    if (done && owner != 0)
        written_[job] = owner;
    else if (done)
        written_.erase(job);
    else if (!std::exchange(full_, true))
        log::error("{}: {}; owners can change placeholders that are not in it yet, until this is mended", path_, std::strerror(errno));
    return done;
}

void PlaceholderTable::set(std::uint32_t job, std::uint32_t owner) {
    if (fd_ >= 0)
        write(job, owner);
}

void PlaceholderTable::publish() {
    published_ = rename((path_ + ".new").c_str(), path_.c_str()) == 0;
    if (!published_)
        log::error("{}: {}; owners can change their placeholders until this is mended", path_, std::strerror(errno));
}

void PlaceholderTable::replace(const std::map<std::uint32_t, std::uint32_t> &live) {
    if (fd_ < 0)
        return;
    std::vector<std::uint32_t> over;
    for (const auto &[job, owner] : written_)
        if (live.count(job) == 0)
            over.push_back(job);
    bool whole = true;
    for (const std::uint32_t job : over)
        whole = write(job, 0) && whole;
    for (const auto &[job, owner] : live)
        if (const auto known = written_.find(job); known == written_.end() || known->second != owner)
            whole = write(job, owner) && whole;  // each is a system call, and there may be ten thousand
    if (whole && std::exchange(full_, false))
        log::info("{}: all placeholders are in it again", path_);
    // One with gaps must not take the place of one that guards more. It is better than none.
    if (!published_ && (whole || access(path_.c_str(), F_OK) != 0))
        publish();
}

}  // namespace berth
