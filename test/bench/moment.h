// Moment: the one clock of the benchmark, CLOCK_REALTIME in seconds: the API server's audit log and Slurm's log have it too.
#pragma once

#include <chrono>

namespace berth::bench {

inline double moment() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace berth::bench
