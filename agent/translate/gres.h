// GresList: generic resources of Slurm by name and count, and how they are written. Pure values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/result.h"

namespace berth {

using GresList = std::vector<std::pair<std::string, std::uint64_t>>;  // ("gpu:a100", 2); a name occurs once

// "gpu:2,shard:a100:4", also with Slurm's "gres/" or "gres:" before a name; a count may end in K, M, G, T or P (of
// 1024).
Result<GresList> parse_gres(std::string_view text);

// Sums that stop at the largest number: a pod may ask for absurd amounts, and they must not wrap into small ones.
std::uint64_t sum_of(std::uint64_t a, std::uint64_t b);
// Adds to the entry of that name, or makes one.
void add_gres(GresList &list, std::string_view name, std::uint64_t count);
// Raises the entry of that name to at least `count`, or makes one.
void raise_gres(GresList &list, std::string_view name, std::uint64_t count);

// "gpu" of "gpu:a100".
std::string_view gres_kind(std::string_view name);
// All of one kind, whatever the type.
std::uint64_t total_of_kind(const GresList &list, std::string_view kind);
std::uint64_t count_of(const GresList &list, std::string_view name);

}  // namespace berth
