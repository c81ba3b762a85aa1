#include "agent/controller/pod_groups.h"

#include "test/unit/suite.h"

using namespace berth;

START_TEST(phase_follows_the_pods_through_the_groups_life) {
    struct Row {
        GroupView view;
        const char *before, *now;
    };
    const Row rows[] = {
        // pods, bound, running, succeeded, failed, min, submitted
        {{0, 0, 0, 0, 0, 3, false}, "", "Pending"},
        {{2, 0, 0, 0, 0, 3, false}, "Pending", "PreScheduling"},
        {{3, 0, 0, 0, 0, 3, false}, "PreScheduling", "PreScheduling"},
        {{3, 0, 0, 0, 0, 3, true}, "PreScheduling", "Scheduling"},
        {{2, 0, 0, 0, 0, 3, true}, "Scheduling", "Scheduling"},  // a member is being replaced while the gang waits
        {{3, 2, 1, 0, 0, 3, true}, "Scheduling", "Scheduling"},
        {{3, 3, 0, 0, 0, 3, true}, "Scheduling", "Scheduled"},
        {{3, 3, 2, 0, 0, 3, true}, "Scheduled", "Scheduled"},
        {{3, 3, 3, 0, 0, 3, true}, "Scheduled", "Running"},
        {{5, 3, 3, 0, 0, 3, true}, "Running", "Running"},  // late members
        {{3, 3, 1, 2, 0, 3, true}, "Running", "Running"},
        {{2, 2, 2, 0, 0, 3, true}, "Running", "Unknown"},
        {{3, 3, 3, 0, 0, 3, true}, "Unknown", "Running"},
        {{3, 3, 0, 3, 0, 3, true}, "Running", "Finished"},
        {{3, 3, 0, 3, 0, 3, false}, "Finished", "Finished"},
        {{0, 0, 0, 0, 0, 3, false}, "Finished", "Finished"},
        {{4, 4, 0, 3, 1, 3, true}, "Running", "Finished"},
        {{3, 3, 2, 0, 1, 3, true}, "Running", "Failed"},
        {{4, 4, 3, 0, 1, 3, true}, "Failed", "Running"},  // the failed one was replaced
        {{0, 0, 0, 0, 0, 3, false}, "Failed", "Failed"},
        {{0, 0, 0, 0, 0, 3, false}, "Running", "Pending"},
        {{3, 0, 0, 0, 0, 3, true}, "Finished", "Scheduling"},  // pods come to a group that was over
        {{3, 0, 0, 0, 0, 3, false}, "Scheduling", "PreScheduling"},  // rejected: its time to start was over
    };
    for (const Row &row : rows)
        ck_assert_str_eq(phase_of(row.view, row.before).c_str(), row.now);
}
END_TEST

int main() { return berth::test::run_suite("pod_groups", {phase_follows_the_pods_through_the_groups_life}); }
