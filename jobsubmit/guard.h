// The decisions of job_submit_berth.so. Called under slurmctld's locks: no file, no lock that anybody holds for long,
// one datagram that never waits. Neither function throws anything but std::bad_alloc.
#pragma once

#include <cstdint>
#include <string>

#include "jobsubmit/rules_watch.h"
#include "jobsubmit/terms.h"
#include "proto/slurm_api.h"

namespace berth {

struct Verdict {
    int code = SLURM_SUCCESS;
    std::string message;  // for the submitter
};

// A placeholder from the bridge is checked, given to its tenant and sealed; from anyone else it is refused, and so is one of a
// controller that led before the newest that was heard of. Other jobs pass.
Verdict guard_submit(const RulesWatch &watch, job_desc_msg_t &job, std::uint32_t submit_uid, Terms *terms = nullptr);
// Whether slurmctld counts the user among its operators; asked only when it matters.
using IsOperator = bool (*)(std::uint32_t uid);
// Nobody but the bridge writes tickets, or over one; nobody but operators and the bridge changes the identity or size of a placeholder:
// neither its tenant nor a coordinator of its account, whom Slurm lets change others' jobs. A change to a placeholder rings the controller.
Verdict guard_modify(const RulesWatch &watch, const job_desc_msg_t &change, std::uint32_t submit_uid, IsOperator is_operator, int notify_fd);

}  // namespace berth
