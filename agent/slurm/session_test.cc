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

START_TEST(what_a_site_s_own_plugin_refuses_is_refused_and_in_its_words) {
    // slurm.ERROR and slurm.FAILURE of a job_submit.lua, and other numbers that no failure to talk has.
    for (const int error : {SLURM_ERROR, -2, 10'001, 20'000}) {
        const Submission answer = failed_submission(error, "give a time limit");
        ck_assert(answer.outcome == Outcome::refused && answer.problem.find("give a time limit") != std::string::npos);
    }
    ck_assert(failed_submission(SLURM_ERROR, "give a time limit").problem == "give a time limit");
    const Submission silent = failed_submission(SLURM_ERROR, "");
    ck_assert(silent.outcome == Outcome::refused && silent.problem.find("JobSubmitPlugins") != std::string::npos);
    constexpr int tls_required = 13'000;
    ck_assert(failed_submission(tls_required, "").outcome == Outcome::unsure);
}
END_TEST

START_TEST(a_slurmctld_that_takes_nobodys_job_refuses_nobody) {
    for (const int error : {static_cast<int>(ESLURM_IN_STANDBY_MODE), static_cast<int>(ESLURM_IN_STANDBY_USE_BACKUP),
                            static_cast<int>(ESLURM_SUBMISSIONS_DISABLED)})
        ck_assert(failed_submission(error, "").outcome == Outcome::full);
    constexpr int max_job_count = 2007;  // of 26.05.2; before it, a request that slurmctld cannot copy
    const Submission answer = failed_submission(max_job_count, "");
#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(26, 5, 2)
    ck_assert(answer.outcome == Outcome::full && answer.problem.find("MaxJobCount") != std::string::npos);
#else
    ck_assert(answer.outcome == Outcome::refused);
#endif
}
END_TEST

START_TEST(only_our_plugin_s_own_words_show_that_it_has_heard_the_term) {
    ck_assert(said_by_berth("berth: uid 0 may not be a tenant"));
    ck_assert(said_by_berth("lua: how do you do; berth: uid 0 may not be a tenant"));
    for (const char *said : {"", "give a time limit", "namespace berth: no account", "Access/permission denied"})
        ck_assert_msg(!said_by_berth(said), "%s", said);
}
END_TEST

START_TEST(a_limit_that_passes_is_told_from_one_that_does_not) {
    ck_assert(failed_submission(EAGAIN, "").outcome == Outcome::full);
    for (const char *limit : {"QOSMaxSubmitJobPerUserLimit", "AssocMaxSubmitJobLimit", "QOSGrpSubmitJobsLimit", "MaxSubmitJobsPerAccount"}) {
        const Submission answer = failed_submission(ESLURM_ACCOUNTING_POLICY, limit);
        ck_assert(answer.outcome == Outcome::limit && answer.problem.find(limit) != std::string::npos);
    }
    ck_assert(failed_submission(ESLURM_ACCOUNTING_POLICY, "QOSMaxCpuPerJobLimit").outcome == Outcome::refused);
    ck_assert(failed_submission(ESLURM_ACCOUNTING_POLICY, "").outcome == Outcome::refused);
}
END_TEST

START_TEST(the_tasks_of_an_array_are_counted) {
    for (const auto &[text, count] : std::initializer_list<std::pair<const char *, unsigned>>{
             {"7", 1}, {"0-9", 10}, {"0-9:3", 4}, {"0-9:3,17%4", 5}, {"1,3,5-7", 5}, {"0-99999%2", 100000}, {"", 0}, {"0-31,...", 33}, {"9-1", 1}})
        ck_assert_msg(array_tasks(text) == count, "%s: %u", text, array_tasks(text));
}
END_TEST

int main() {
    return berth::test::run_suite("session", {only_slurmctlds_own_no_is_a_refusal, what_a_site_s_own_plugin_refuses_is_refused_and_in_its_words,
                                              a_slurmctld_that_takes_nobodys_job_refuses_nobody,
                                              only_our_plugin_s_own_words_show_that_it_has_heard_the_term, a_limit_that_passes_is_told_from_one_that_does_not,
                                              the_tasks_of_an_array_are_counted});
}
