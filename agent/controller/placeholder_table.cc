#include "agent/controller/placeholder_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

void PlaceholderTable::write(std::uint32_t job, std::uint32_t owner) {
    [[maybe_unused]] const ssize_t n = pwrite(fd_, &owner, sizeof owner, static_cast<off_t>(job) * sizeof owner);
}

void PlaceholderTable::set(std::uint32_t job, std::uint32_t owner) {
    if (fd_ < 0)
        return;
    write(job, owner);
    if (owner != 0)
        written_[job] = owner;
    else
        written_.erase(job);
}

void PlaceholderTable::publish() {
    if (published_ || fd_ < 0)
        return;
    published_ = rename((path_ + ".new").c_str(), path_.c_str()) == 0;
    if (!published_)
        log::error("{}: {}; owners can change their placeholders until this is mended", path_, std::strerror(errno));
}

void PlaceholderTable::replace(const std::map<std::uint32_t, std::uint32_t> &live) {
    for (const auto &[job, owner] : written_)
        if (live.count(job) == 0)
            write(job, 0);
    for (const auto &[job, owner] : live)
        write(job, owner);
    written_ = live;
    publish();
}

}  // namespace berth
