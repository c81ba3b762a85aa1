// Why a placeholder waits, in words that tell a person what to do: Slurm's reason, some advice, and when it is expected to start. Pure.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

namespace berth::slurm {

// What can be done about a reason that squeue shows ("JobHeldAdmin", also with Slurm's detail behind it); empty for one that has no
// common answer. The end of a sentence.
std::string reason_advice(std::string_view reason, std::uint32_t job);

// Slurm keeps such a job in its queue, but no other job's end will ever make room for it.
bool can_never_start(std::string_view reason);

// The start to tell people, 0 for none. Slurm's guess moves with every job that ends; what was `told` stays until the guess has moved by
// ten minutes or a quarter of the wait, or is past. A guess for far away is none: Slurm takes jobs without a limit to last a year.
std::time_t start_to_tell(std::time_t told, std::time_t expected, std::time_t now);

// "Slurm job 12 is pending: JobHeldAdmin; an operator lets it go on with: scontrol release 12".
std::string pending_sentence(std::uint32_t job, std::string_view reason, std::time_t start);

// The job that such a sentence speaks of, 0 for any other text: what a controller before this one has told a pod.
std::uint32_t job_of_sentence(std::string_view text);

// "2026-11-16 18:00:00 UTC", without seconds where they say nothing.
std::string utc_text(std::time_t when);

}  // namespace berth::slurm
