// Hostlists: names of nodes as Slurm writes them, "n[1-3,7],gpu-02". Pure; libslurm is not asked.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"

namespace berth {

// The names of a hostlist, in its order, doubled ones once. Several brackets in one name count through, the last one fastest. Numbers are
// as wide as the first of their range ("[08-10]": 08, 09, 10). Refused: other characters than those of host names, ranges that fall, and
// more than 65,536 names.
Result<std::vector<std::string>> expand_hostlist(std::string_view text);

// The shortest list of ranges over the last number of each name; sorted, doubled ones once. expand_hostlist() gives the same names back.
std::string compress_hostlist(const std::vector<std::string> &names);

}  // namespace berth
