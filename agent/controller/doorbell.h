// Doorbell: how the controller learns at once that something happened to a job. slurmctld connects to a TCP port of ours (a
// placeholder's other_port) when a job is cancelled, suspended, resumed or ended; job_submit_berth.so sends a datagram
// when one is changed. Either means "look now" and nothing else: what is sent is thrown away unseen, yet read to its end,
// for slurmctld logs an error when the other side hangs up first. Loop's thread only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "agent/loop.h"
#include "agent/result.h"

namespace berth {

class Doorbell {
  public:
    Doorbell(Loop &loop, std::function<void()> ring) : loop_(loop), ring_(std::move(ring)) {}
    ~Doorbell();

    Result<void> open(std::uint16_t tcp_port, const std::string &notify_socket, uid_t slurm_user);
    std::uint16_t port() const { return port_; }

  private:
    void accept_all();
    void hear_out(int fd);
    void hang_up(int fd);
    void drain();

    Loop &loop_;
    std::function<void()> ring_;
    int tcp_ = -1, datagram_ = -1;
    std::uint16_t port_ = 0;
    SourcePtr tcp_source_, datagram_source_;
    std::map<int, SourcePtr> callers_;  // by fd
};

}  // namespace berth
