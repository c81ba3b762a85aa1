#include "agent/lifecycle/ending.h"

#include "test/unit/suite.h"

using namespace berth;
using std::chrono::seconds;

namespace {

constexpr std::time_t start = 1'000'000, hour = 3600;
constexpr seconds warn{300};

// So many replicas that began together and end after an hour.
std::vector<Replica> service(int count) {
    std::vector<Replica> out;
    for (int i = 0; i < count; ++i)
        out.push_back({"p" + std::to_string(i), start, start + hour, true});
    return out;
}

}  // namespace

START_TEST(warning_comes_so_long_before_the_end) {
    ck_assert_int_eq(warn_at(start, start + hour, warn), start + hour - 300);
    ck_assert_int_eq(warn_at(start, start + 301, warn), start + 1);
}
END_TEST

START_TEST(short_job_is_warned_half_way) {
    ck_assert_int_eq(warn_at(start, start + 300, warn), start + 150);
    ck_assert_int_eq(warn_at(start, start + 60, warn), start + 30);
}
END_TEST

START_TEST(no_warning_without_an_end_or_when_it_is_off) {
    ck_assert_int_eq(warn_at(start, 0, warn), 0);
    ck_assert_int_eq(warn_at(start, start + hour, seconds(0)), 0);
}
END_TEST

START_TEST(pods_are_stopped_a_grace_before_the_end) { ck_assert_int_eq(stop_at(start + hour, seconds(30)), start + hour - 30); }
END_TEST

START_TEST(renewal_adds_the_step_within_both_bounds) {
    ck_assert_uint_eq(renewed_limit(60, 60, 0, 0), 120);
    ck_assert_uint_eq(renewed_limit(60, 60, 100, 0), 100);
    ck_assert_uint_eq(renewed_limit(60, 60, 0, 90), 90);
    ck_assert_uint_eq(renewed_limit(60, 60, 100, 90), 90);
}
END_TEST

START_TEST(renewal_never_shortens) {
    ck_assert_uint_eq(renewed_limit(100, 60, 100, 0), 100);
    ck_assert_uint_eq(renewed_limit(100, 60, 50, 0), 100);
    ck_assert_uint_eq(renewed_limit(0x7fffffff, 60, 0, 0), 0x7fffffff);
}
END_TEST

START_TEST(nobody_is_replaced_before_the_warning) {
    const auto three = service(3);
    ck_assert(next_turn(three, 0, warn, start) == (Turn{"", start + hour - 300}));
    ck_assert(next_turn(three, 0, warn, start + hour - 301) == (Turn{"", start + hour - 300}));
}
END_TEST

START_TEST(turns_are_spread_evenly_until_the_end) {
    auto three = service(3);
    const std::time_t end = start + hour;
    ck_assert(next_turn(three, 0, warn, end - 300) == (Turn{"p0", 0}));
    three[0] = {"p0b", end - 290, end - 290 + hour, true};  // its replacement runs
    ck_assert(next_turn(three, 0, warn, end - 280) == (Turn{"", end - 200}));
    ck_assert(next_turn(three, 0, warn, end - 200) == (Turn{"p1", 0}));
    three[1] = {"p1b", end - 190, end - 190 + hour, true};
    ck_assert(next_turn(three, 0, warn, end - 180) == (Turn{"", end - 100}));
    ck_assert(next_turn(three, 0, warn, end - 100) == (Turn{"p2", 0}));
    three[2] = {"p2b", end - 90, end - 90 + hour, true};
    ck_assert(next_turn(three, 0, warn, end - 90) == (Turn{"", end - 290 + hour - 300}));
}
END_TEST

START_TEST(one_that_is_gone_is_missed_before_its_replacement_is_heard_of) {
    auto two = service(3);
    two.pop_back();
    ck_assert(next_turn(two, 3, warn, start + hour - 150) == Turn{});
    ck_assert_text(next_turn(two, 2, warn, start + hour - 150).uid, "p0");
}
END_TEST

START_TEST(next_turn_waits_for_the_replacement) {
    auto three = service(3);
    three[0].runs = false;
    ck_assert(next_turn(three, 0, warn, start + hour - 150) == Turn{});
    three[0].runs = true;
    ck_assert(next_turn(three, 0, warn, start + hour - 150) == (Turn{"p0", 0}));
}
END_TEST

START_TEST(whoever_ends_first_goes_first) {
    auto three = service(3);
    three[2].end -= 60;
    ck_assert_text(next_turn(three, 0, warn, start + hour - 350).uid, "p2");
}
END_TEST

START_TEST(replicas_without_an_end_are_left_alone) {
    auto three = service(3);
    for (Replica &replica : three)
        replica.end = 0;
    ck_assert(next_turn(three, 0, warn, start + hour) == Turn{});
    ck_assert(next_turn({}, 0, warn, start) == Turn{});
}
END_TEST

START_TEST(short_limits_spread_over_half_of_the_time) {
    auto two = service(2);
    for (Replica &replica : two)
        replica.end = start + 60;
    ck_assert(next_turn(two, 0, warn, start + 29) == (Turn{"", start + 30}));
    ck_assert(next_turn(two, 0, warn, start + 30) == (Turn{"p0", 0}));
    two[0] = {"p0b", start + 33, start + 83, true};  // so short that it ends inside the other's window, too
    ck_assert(next_turn(two, 0, warn, start + 34) == (Turn{"", start + 45}));
}
END_TEST

int main() {
    return test::run_suite("ending", {warning_comes_so_long_before_the_end, short_job_is_warned_half_way,
                                      no_warning_without_an_end_or_when_it_is_off, pods_are_stopped_a_grace_before_the_end,
                                      renewal_adds_the_step_within_both_bounds, renewal_never_shortens,
                                      nobody_is_replaced_before_the_warning, turns_are_spread_evenly_until_the_end, next_turn_waits_for_the_replacement,
                                      one_that_is_gone_is_missed_before_its_replacement_is_heard_of,
                                      whoever_ends_first_goes_first, replicas_without_an_end_are_left_alone,
                                      short_limits_spread_over_half_of_the_time});
}
