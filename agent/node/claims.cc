// The volumes that a pod needs here.
#include "agent/node/node_agent.h"

namespace berth::node {

bool NodeAgent::claims_ready(const BerthPtr &) { return true; }

}  // namespace berth::node
