// RulesWatch: keeps Rules current without a restart of slurmctld and without any file access under its locks. A thread
// of its own follows berth.conf, the key and the placeholder table by inotify; a mistake is logged once and the old
// rules stay. current() and table() may be called from any thread and take no lock that anybody holds while reading a
// file; owner_of() is one pread() from tmpfs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "jobsubmit/rules.h"

namespace berth {

// One open placeholder table: 4 bytes per job id, the owner's uid of a live placeholder, else 0. Written by berthd's
// controller (agent/controller/placeholder_table.h).
class TableFile {
  public:
    explicit TableFile(int fd) : fd_(fd) {}
    ~TableFile();
    TableFile(const TableFile &) = delete;
    TableFile &operator=(const TableFile &) = delete;
    std::uint32_t owner_of(std::uint32_t job) const;  // 0: no placeholder

  private:
    int fd_;
};

class RulesWatch {
  public:
    // Reads all once before it returns. `look_anyway`: how often files are compared where inotify is blind (a shared
    // file system written to by another host, a symlink's target).
    explicit RulesWatch(std::string conf_path, std::chrono::milliseconds look_anyway = std::chrono::seconds(30));
    ~RulesWatch();
    RulesWatch(const RulesWatch &) = delete;
    RulesWatch &operator=(const RulesWatch &) = delete;

    std::shared_ptr<const Rules> current() const;    // null while berth.conf was never good
    std::shared_ptr<const TableFile> table() const;  // null while there is none

  private:
    void load_rules();
    void load_table();
    void follow();

    const std::string conf_path_;
    const std::chrono::milliseconds look_anyway_;
    mutable std::mutex mutex_;  // of the two pointers, and held for no longer than it takes to copy one
    std::shared_ptr<const Rules> rules_;
    std::shared_ptr<const TableFile> table_;
    // The thread's own, once it runs.
    std::string last_complaint_, table_path_;
    std::string key_path_;  // as berth.conf names it, there or not
    int stop_fd_ = -1;
    std::thread thread_;
};

}  // namespace berth
