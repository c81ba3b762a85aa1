// Request: what slurmctld is asked for, as text. A heterogeneous job is submitted by a short-lived child process (het_submit.h), which gets
// its Request on standard input and answers with a Submission on standard output; both are JSON on one line.
// Pure functions, safe in any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"
#include "agent/slurm/client.h"
#include "agent/translate/placeholder.h"

namespace berth::slurm {

struct Request {
    std::vector<Placeholder> parts;
    std::vector<std::string> tickets;  // to_json(), in the order of the parts: the admin_comment of each
    std::uint16_t doorbell_port = 0;
    std::int64_t not_after = 0;  // CLOCK_BOOTTIME, nanoseconds: when the fence closes; 0: none
};

// Empty when a string in it is not UTF-8: Slurm is never asked for half of what was meant.
std::string to_text(const Request &request);
Result<Request> parse_request(std::string_view text);

std::string to_text(const Submission &submission);
Result<Submission> parse_submission(std::string_view text);

}  // namespace berth::slurm
