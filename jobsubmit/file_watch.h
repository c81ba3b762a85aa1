// FileWatch: says which of a few files may have changed. inotify on their directories wakes whoever polls fd(), also
// when a file is replaced by rename, appears later, or its directory is moved away or removed and comes back; and each
// take() compares the files themselves, for what inotify cannot see. For one thread.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace berth {

class FileWatch {
  public:
    FileWatch();
    ~FileWatch();
    FileWatch(const FileWatch &) = delete;
    FileWatch &operator=(const FileWatch &) = delete;

    int fd() const { return fd_; }  // -1 without inotify; take() works all the same
    // The files to follow from now on, in place of those before. False while a directory of theirs cannot be followed:
    // call it again some time later.
    bool follow(const std::vector<std::string> &files);
    // Whether there is something to take without waiting: a file or a directory is followed anew.
    bool fresh() const { return !touched_.empty(); }
    // Files that were written, replaced or given other rights since the last call, or that are new to this watch. One
    // named although nothing changed costs a needless look; none is ever left out.
    std::set<std::string> take();

  private:
    struct Stamp {
        dev_t device = 0;
        ino_t inode = 0;
        off_t size = -1;
        timespec changed{};
        bool operator==(const Stamp &other) const;
    };
    static Stamp stamp_of(const std::string &file);
    void touch(const std::string &directory);
    void read_events();

    const int fd_;
    std::map<std::string, Stamp> files_;
    std::map<std::string, int> directories_;  // followed, with inotify's number
    std::set<std::string> touched_;
};

}  // namespace berth
