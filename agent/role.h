// Role: what berthd does on a host, the controller's part or a node's. One process may have both. All calls happen on
// the loop's thread; the loop and the config outlive every role.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "agent/config.h"
#include "agent/loop.h"
#include "agent/metrics.h"
#include "agent/result.h"

namespace berth {

class Role {
  public:
    virtual ~Role() = default;

    // Registers everything with the loop and returns without waiting for either server: an API server or slurmctld that
    // is away is no error here. An error is something that only a person can mend, and berthd exits with it.
    virtual Result<void> start() = 0;
    // Takes no new work, ends what is under way, and calls `done` once, perhaps before it returns. The role may be
    // destroyed afterwards, and also without stop(): all state lives in Slurm and Kubernetes.
    virtual void stop(std::function<void()> done) = 0;

    // For agent/web/: what it still waits for before it can do its work, "" when it does it or stands by; what is so now; and for the
    // controller's role the picture of web::Status.
    virtual std::string waits_for() const { return {}; }
    virtual void measure(metrics::Gauges &) {}
    virtual std::string status_json() { return {}; }
};

std::unique_ptr<Role> make_controller(Loop &loop, const Config &config);
std::unique_ptr<Role> make_node(Loop &loop, const Config &config, const std::string &node_name);

}  // namespace berth
