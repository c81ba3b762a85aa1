#include "agent/slurm/reason.h"

#include "test/unit/suite.h"

using namespace berth;
using namespace berth::slurm;

namespace {

constexpr std::time_t now = 1'800'000'000;
constexpr std::time_t minute = 60, hour = 60 * minute, day = 24 * hour;

bool says(const std::string &text, const char *words) { return text.find(words) != std::string::npos; }

}  // namespace

START_TEST(held_job_names_the_command_that_releases_it) {
    ck_assert_text(pending_sentence(12, "JobHeldAdmin", 0),
                   "Slurm job 12 is pending: JobHeldAdmin; an operator lets it go on with: scontrol release 12");
    ck_assert(says(reason_advice("JobHeldUser", 7), "owner") && says(reason_advice("JobHeldUser", 7), "scontrol release 7"));
}
END_TEST

START_TEST(common_reasons_have_advice) {
    for (const char *reason :
         {"BeginTime", "Dependency", "DependencyNeverSatisfied", "PartitionTimeLimit", "PartitionDown", "ReqNodeNotAvail", "Reservation",
          "Resources", "Priority", "QOSMaxCpuPerUserLimit", "QOSGrpNodeLimit", "AssocGrpCpuLimit", "AssocMaxWallDurationPerJobLimit"})
        ck_assert_msg(!reason_advice(reason, 1).empty(), "%s", reason);
}
END_TEST

START_TEST(limits_of_one_job_are_told_from_those_of_all) {
    ck_assert(says(reason_advice("QOSMaxCpuPerJobLimit", 1), "ask for less"));
    ck_assert(says(reason_advice("QOSMaxJobsPerUserLimit", 1), "other jobs"));
    ck_assert(says(reason_advice("AssocMaxGRESPerJob", 1), "ask for less"));
    ck_assert(says(reason_advice("AssocMaxJobsLimit", 1), "other jobs"));
}
END_TEST

START_TEST(slurms_detail_does_not_hide_the_reason) {
    ck_assert(says(reason_advice("ReqNodeNotAvail (ReqNodeNotAvail, UnavailableNodes:n1)", 1), "sinfo -R"));
    ck_assert(says(reason_advice("ReqNodeNotAvail, Reserved for maintenance", 1), "reservation"));
}
END_TEST

START_TEST(unknown_reason_is_told_as_it_is) {
    ck_assert(reason_advice("SomethingNew", 1).empty());
    ck_assert(reason_advice("", 1).empty());
    ck_assert_text(pending_sentence(3, "SomethingNew", 0), "Slurm job 3 is pending: SomethingNew");
}
END_TEST

START_TEST(what_can_never_start_says_so) {
    ck_assert(can_never_start("PartitionTimeLimit") && can_never_start("PartitionConfig (x)") && can_never_start("BadConstraints"));
    ck_assert(!can_never_start("Resources") && !can_never_start("JobHeldAdmin") && !can_never_start("None"));
    ck_assert_text(pending_sentence(3, "PartitionTimeLimit", 0),
                   "Slurm job 3 cannot start as it is: PartitionTimeLimit; ask for less time, or for another partition");
}
END_TEST

START_TEST(expected_start_is_told_coarsely) {
    ck_assert_int_eq(start_to_tell(0, now + hour + 1, now), now + hour + 5 * minute);
    ck_assert_int_eq(start_to_tell(0, now + hour, now) % (5 * minute), 0);
    ck_assert(says(pending_sentence(1, "Resources", now), "; expected to start about 2027-01-15 08:00 UTC"));
}
END_TEST

START_TEST(start_that_slurm_does_not_know_is_not_told) {
    ck_assert_int_eq(start_to_tell(0, 0, now), 0);
    ck_assert_int_eq(start_to_tell(0, now + 1, now), 0);          // a guess in the past is reported as now
    ck_assert_int_eq(start_to_tell(0, now + 365 * day, now), 0);  // behind a job without a limit
}
END_TEST

START_TEST(start_is_told_again_only_after_a_big_shift) {
    const std::time_t told = now + 2 * hour;
    ck_assert_int_eq(start_to_tell(told, told + 20 * minute, now), told);
    ck_assert_int_eq(start_to_tell(told, told - 20 * minute, now), told);
    ck_assert_int_eq(start_to_tell(told, now + 4 * hour, now), now + 4 * hour);
    ck_assert_int_eq(start_to_tell(told, now + 30 * minute, now), now + 30 * minute);
    ck_assert_int_eq(start_to_tell(told, 0, now), told);  // Slurm forgets its guess between two cycles
    ck_assert_int_eq(start_to_tell(now - 1, 0, now), 0);
    ck_assert_int_eq(start_to_tell(now - 1, now + hour, now), now + hour);
}
END_TEST

START_TEST(job_is_found_again_in_what_a_pod_was_told) {
    ck_assert_uint_eq(job_of_sentence(pending_sentence(12, "Resources", now + hour)), 12);
    ck_assert_uint_eq(job_of_sentence(pending_sentence(4'000'000'000, "PartitionTimeLimit", 0)), 4'000'000'000);
    for (const char *other : {"", "Slurm job ", "Slurm job x is pending: Resources", "Slurm job 12", "Slurm job 12 is preempted and ends soon",
                              "Slurm job 99999999999 is pending: Resources", "PodGroup a/b waits for its pods: 1 of 2 are there"})
        ck_assert_uint_eq(job_of_sentence(other), 0);
}
END_TEST

int main() {
    return test::run_suite("reason", {held_job_names_the_command_that_releases_it, common_reasons_have_advice,
                                      limits_of_one_job_are_told_from_those_of_all, slurms_detail_does_not_hide_the_reason,
                                      unknown_reason_is_told_as_it_is, what_can_never_start_says_so, expected_start_is_told_coarsely,
                                      start_that_slurm_does_not_know_is_not_told, start_is_told_again_only_after_a_big_shift,
                                      job_is_found_again_in_what_a_pod_was_told});
}
