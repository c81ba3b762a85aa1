// The Slurm version that a plugin was compiled for, read from its file. The plugin is not loaded: it would not find slurmctld around it.
#pragma once

#include <cstdint>
#include <string>

#include "agent/result.h"

namespace berth::tool {

// The value of its symbol plugin_version: SLURM_VERSION_NUMBER.
Result<std::uint32_t> plugin_version(const std::string &path);

}  // namespace berth::tool
