// What texts may look like that come from anybody who can create a pod, and how they are shown. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

// True for names that are safe to hand to Slurm and to show: [A-Za-z0-9_.-]+, bounded.
inline constexpr std::size_t kLongestName = 64;
bool is_safe_name(std::string_view name);

bool is_printable(std::string_view text);  // ASCII
bool is_digits(std::string_view text);     // also of an empty text

// Whether the text is what the pattern says, in which each '*' stands for any run of characters, also an empty one.
bool matches(std::string_view pattern, std::string_view text);

// Decimal digits only, at most 18; false also for none.
bool parse_number(std::string_view text, std::uint64_t &value);

// Bounded and printable: what is not becomes '?', what is longer ends in "...".
std::string shown(std::string_view value);
// The same for text that goes into a Slurm job: cut at `longest` bytes, nothing but printable ASCII.
std::string plain(std::string_view text, std::size_t longest);

// Comma and blank between the words.
std::string joined(const std::vector<std::string> &words);
// The parts between the separators, empty ones included; one empty part for an empty text.
std::vector<std::string_view> split(std::string_view text, char separator);

}  // namespace berth
