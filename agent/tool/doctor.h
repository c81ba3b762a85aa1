// berth doctor: looks at both systems and at this host, and says what does not fit together. Changes nothing. Blocks; one thread.
#pragma once

#include <cstdio>

#include "agent/tool/access.h"

namespace berth::tool {

// Exit status: 0 nothing is wrong (warnings aside), 1 there are problems.
int doctor(const AccessOptions &options, std::FILE *out, std::FILE *err);

}  // namespace berth::tool
