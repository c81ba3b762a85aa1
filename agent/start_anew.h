// start_anew(): this process begins again from main(), with the same arguments and process id. Threads, calls that wait for slurmctld and
// everything in memory are gone, as in a crash, which is the one way of stopping that is always tested. For a controller that has lost its
// lease: nothing of what it believed counts any more; and for a new configuration (agent/reload.h). Loop's thread.
#pragma once

namespace berth {

[[noreturn]] void start_anew();

}  // namespace berth
