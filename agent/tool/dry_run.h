// berth explain -f FILE: what would become of a workload that is not created yet. Creates nothing on either side. Blocks; one thread.
#pragma once

#include <cstdio>
#include <string>

#include "agent/tool/access.h"

namespace berth::tool {

// `file` "-" is standard input. Exit status: 0 it would start now or later, 1 it would not, or that could not be found out.
int dry_run(const AccessOptions &options, const std::string &file, std::FILE *out, std::FILE *err);

}  // namespace berth::tool
