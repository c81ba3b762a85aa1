// Standby: what a controller does while another one leads. It keeps the placeholder table of its own host as slurmctld's jobs are, by a slow
// look, so that job_submit_berth.so guards them there from the first moment when slurmctld itself fails over to this host. It writes nothing
// else, to nobody. Loop's thread.
#pragma once

#include <memory>
#include <string>

#include "agent/config.h"
#include "agent/controller/placeholder_table.h"
#include "agent/loop.h"
#include "agent/slurm/workers.h"

namespace berth {

class Standby {
  public:
    Standby(Loop &loop, const Config &config, std::string cluster);

    Result<void> start();
    // The table is the leader's from now on. A look that is under way is not waited for.
    void retire();

  private:
    void look();

    Loop &loop_;
    const Config &config_;
    const std::string cluster_;
    PlaceholderTable table_;
    SourcePtr timer_;
    bool retired_ = false;
    Workers lookers_;
};

}  // namespace berth
