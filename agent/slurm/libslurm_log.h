// What libslurm says beside its error numbers. slurmctld sends the sentence of a job_submit plugin (ours, or the site's own job_submit.lua)
// with a refusal; libslurm hands it to nobody but its log, which would be our standard error. Here it reaches the thread that asked.
#pragma once

#include <string>

namespace berth::slurm {

// Takes over libslurm's log for the life of the process; once, after slurm_init(). What no one collects goes to our log, at debug.
void take_over_log();

// Collects what libslurm says to this thread while it lives; one at a time in a thread.
class Sayings {
  public:
    Sayings();
    ~Sayings();
    Sayings(const Sayings &) = delete;
    Sayings &operator=(const Sayings &) = delete;

    // Lines joined by "; ", without times.
    std::string text() const;

  private:
    std::string raw_;
};

}  // namespace berth::slurm
