// berth status: queue and nodes, both systems in one picture. Blocks; one thread.
#pragma once

#include <cstdio>
#include <string>

#include "agent/tool/access.h"

namespace berth::tool {

// Empty `ns`: all namespaces. Exit status: 0 shown, 1 slurmctld could not be asked.
int status(const AccessOptions &options, const std::string &ns, std::FILE *out, std::FILE *err);

}  // namespace berth::tool
