// The calls to slurmctld that the benchmark makes itself: allocations as Berth's, but of nobody's pod. Any thread, after slurm::start().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace berth::bench {

struct Size {
    std::uint32_t tasks = 1, cpus_per_task = 1, nodes = 1, memory_mib = 16, user = 0, minutes = 60;
    std::string name = "bench";
    bool held = false;  // a batch job that waits until somebody releases it
};

struct Call {
    double sent = 0, answered = 0;
    std::uint32_t job = 0;  // 0: refused
    bool started = false;
    std::string problem;
};

Call allocate(const Size &size);      // slurm_allocate_resources()
Call submit_batch(const Size &size);  // slurm_submit_batch_job(), a script that does nothing
Call kill(std::uint32_t job);         // as scancel does

}  // namespace berth::bench
