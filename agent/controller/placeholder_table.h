// PlaceholderTable: tells job_submit_berth.so which jobs are placeholders and whose: a sparse file on tmpfs with 4 bytes
// per job id, the owner's uid while the placeholder lives, else 0. A fresh file takes the old one's place at
// the first replace() that succeeds: until then the old one, of a controller before this, still guards what it knows. What finds no room,
// because the file system is full, is written by a later replace().
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "agent/result.h"

namespace berth {

class PlaceholderTable {
  public:
    explicit PlaceholderTable(std::string path) : path_(std::move(path)) {}
    ~PlaceholderTable();

    Result<void> open();
    void set(std::uint32_t job, std::uint32_t owner);
    // Makes the table say exactly this (job -> owner).
    void replace(const std::map<std::uint32_t, std::uint32_t> &live);

  private:
    bool write(std::uint32_t job, std::uint32_t owner);
    void publish();
    const std::string path_;
    int fd_ = -1;
    bool published_ = false, full_ = false;
    std::map<std::uint32_t, std::uint32_t> written_;  // what the file really says
};

}  // namespace berth
