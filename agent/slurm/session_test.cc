#include "agent/slurm/session.h"

#include "proto/slurm_api.h"
#include "test/unit/suite.h"

using namespace berth::slurm;
using Outcome = Submission::Outcome;

START_TEST(only_slurmctlds_own_no_is_a_refusal) {
    for (const int error : {static_cast<int>(ESLURM_INVALID_ACCOUNT), static_cast<int>(ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE),
                            static_cast<int>(ESLURM_MISSING_TIME_LIMIT)})
        ck_assert(failed_submission(error, "").outcome == Outcome::refused);
    // The request may have been carried out: another try without a look could make a second job.
    constexpr int socket_timeout = 5003, zero_bytes = 5004;  // not every version names them
    for (const int error : {EPIPE, ETIMEDOUT, static_cast<int>(SLURM_COMMUNICATIONS_RECEIVE_ERROR), socket_timeout, zero_bytes,
                            static_cast<int>(ESLURM_AUTH_CRED_INVALID)})
        ck_assert(failed_submission(error, "").outcome == Outcome::unsure);
}
END_TEST

int main() { return berth::test::run_suite("session", {only_slurmctlds_own_no_is_a_refusal}); }
