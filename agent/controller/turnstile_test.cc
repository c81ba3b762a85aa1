#include "agent/controller/turnstile.h"

#include "agent/controller/workload.h"
#include "test/unit/suite.h"

using namespace berth;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Answer = Turnstile::Answer;
using Why = Turnstile::Why;

namespace {

const Turnstile::Time start{std::chrono::hours(1)};

struct Scene {
    Turnstile turnstile{8, 1};
    Turnstile::Time now = start;
    std::vector<WorkloadPtr> all;

    WorkloadPtr join(const std::string &ns, const std::string &name, std::time_t created = 0, const std::string &allowance = "",
                     unsigned refusals = 0) {
        auto workload = std::make_shared<Workload>();
        workload->who.ns = ns;
        workload->who.name = name;
        all.push_back(workload);
        turnstile.join(workload, {ns, allowance, refusals, created, 1});
        return workload;
    }
    // The names in the order of their turns, each answered before the next.
    std::string turns(Answer answer = Answer::taken, std::size_t most = 1000) {
        std::string out;
        for (std::size_t i = 0; i < most; ++i) {
            const WorkloadPtr next = turnstile.next(now);
            if (!next)
                break;
            out += (out.empty() ? "" : " ") + next->who.name;
            turnstile.answered(next, answer, now, "QOSMaxSubmitJobPerUserLimit");
        }
        return out;
    }
    void looked(std::map<std::string, std::uint32_t> placeholders, std::uint32_t records = 0, std::uint32_t max = 0) {
        turnstile.looked({std::move(placeholders), records, max});
    }
};

void check(const std::string &got, const std::string &expected) { ck_assert_str_eq(got.c_str(), expected.c_str()); }

}  // namespace

START_TEST(namespaces_take_turns_and_within_one_the_oldest_comes_first) {
    Scene s;
    for (const char *name : {"a3", "a1", "a2", "a4"})
        s.join("a", name, name[1]);
    s.join("b", "b1", 9);
    s.join("c", "c2", 2);
    s.join("c", "c1", 1);
    check(s.turns(), "a1 b1 c1 a2 c2 a3 a4");
    // Whoever comes later goes on where the round stands.
    s.join("a", "a5");
    s.join("b", "b2");
    check(s.turns(), "b2 a5");
}
END_TEST

START_TEST(one_pod_of_another_namespace_does_not_wait_for_a_flood) {
    Scene s;
    for (int i = 0; i < 20'000; ++i)
        s.join("flood", "f", i);
    s.turns(Answer::taken, 100);
    s.join("other", "other", 30'000);
    check(s.turns(Answer::taken, 2), "other f");
}
END_TEST

START_TEST(what_was_refused_before_comes_after_what_was_never_tried) {
    Scene s;
    s.join("a", "refused", 1, "", 3);
    s.join("a", "young", 100);
    s.join("a", "older", 50);
    check(s.turns(), "older young refused");
}
END_TEST

START_TEST(no_more_are_under_way_than_the_workers_can_carry) {
    Scene s;
    for (int i = 0; i < 20; ++i)
        s.join("a", "a");
    WorkloadPtr last;
    for (int i = 0; i < 8; ++i)
        ck_assert(last = s.turnstile.next(s.now));
    ck_assert(!s.turnstile.next(s.now) && !s.turnstile.opens());
    s.turnstile.answered(last, Answer::refused, s.now);
    ck_assert(s.turnstile.next(s.now) && !s.turnstile.next(s.now));
}
END_TEST

START_TEST(the_cap_is_never_exceeded_and_what_leaves_makes_room) {
    Scene s;
    s.turnstile.set_places(10);
    s.looked({{"a", 3}, {"b", 3}});
    for (int i = 0; i < 20; ++i)
        s.join(i % 2 == 0 ? "a" : "b", "x");
    int taken = 0;
    while (const WorkloadPtr next = s.turnstile.next(s.now)) {
        s.turnstile.answered(next, Answer::taken, s.now);
        ++taken;
    }
    ck_assert_int_le(taken, 4);
    ck_assert_int_ge(taken, 2);
    s.looked({{"a", 5}, {"b", 5}});
    ck_assert(!s.turnstile.next(s.now));
    ck_assert(s.turnstile.why(s.all.back()) == Why::places);
    s.looked({{"a", 4}, {"b", 4}});
    ck_assert(s.turnstile.next(s.now));
}
END_TEST

START_TEST(a_namespace_that_fills_the_queue_leaves_room_for_others) {
    Scene s;
    s.turnstile.set_places(100);
    for (int i = 0; i < 1000; ++i)
        s.join("flood", "f");
    int taken = 0;
    while (const WorkloadPtr next = s.turnstile.next(s.now)) {
        s.turnstile.answered(next, Answer::taken, s.now);
        ++taken;
    }
    ck_assert_int_eq(taken, 80);
    ck_assert(s.turnstile.why(s.all.back()) == Why::share);
    // Nothing of the flood ever ends: the others have their turns all the same.
    for (int i = 0; i < 5; ++i)
        s.join("other", "o");
    check(s.turns(), "o o o o o");
    // The smallest cap of all takes one.
    Scene tiny;
    tiny.turnstile.set_places(1);
    tiny.join("a", "a1");
    tiny.join("a", "a2");
    check(tiny.turns(), "a1");
}
END_TEST

START_TEST(slurmctlds_table_is_left_to_native_jobs_before_it_is_full) {
    Scene s;
    s.looked({}, 899, 1000);
    s.join("a", "a1");
    s.join("a", "a2");
    check(s.turns(), "a1");
    ck_assert(s.turnstile.why(s.all.back()) == Why::records);
    s.looked({{"a", 1}}, 850, 1000);
    check(s.turns(), "a2");
}
END_TEST

START_TEST(a_thousand_at_one_limit_ask_as_seldom_as_one) {
    Scene s;
    std::vector<WorkloadPtr> waiting;
    for (int i = 0; i < 1000; ++i)
        s.join("a", "a");
    int asked = 0;
    for (const auto end = start + std::chrono::minutes(10); s.now < end; s.now += milliseconds(10))
        while (const WorkloadPtr next = s.turnstile.next(s.now)) {
            s.turnstile.answered(next, Answer::limit, s.now, "QOSMaxSubmitJobPerUserLimit");
            s.turnstile.join(next, {"a", "", 1, 0, 1});
            ++asked;
        }
    ck_assert_int_lt(asked, 30);
    ck_assert_int_gt(asked, 15);
    ck_assert(s.turnstile.why(s.all.front()) == Why::limit);
    check(s.turnstile.said(s.all.front()), "QOSMaxSubmitJobPerUserLimit");
}
END_TEST

START_TEST(a_limit_holds_back_only_those_that_it_is_for) {
    Scene s;
    s.join("a", "a1", 1, "qos=small");
    s.join("a", "a2", 2, "qos=small");
    check(s.turns(Answer::limit, 1), "a1");
    s.join("a", "a3", 3, "qos=large");
    s.join("b", "b1", 4, "qos=small");
    check(s.turns(), "b1 a3");
    ck_assert(s.turnstile.opens() && *s.turnstile.opens() >= s.now + seconds(1));
    s.now = *s.turnstile.opens();
    check(s.turns(), "a2");
}
END_TEST

START_TEST(an_end_is_reason_to_ask_again_but_not_in_the_same_breath) {
    Scene s;
    s.looked({{"a", 5}});
    for (int i = 0; i < 20; ++i)
        s.join("a", "a");
    for (int i = 0; i < 6; ++i, s.now += std::chrono::minutes(1))
        s.turns(Answer::limit, 1);
    s.turns(Answer::limit, 1);
    ck_assert(*s.turnstile.opens() > s.now + seconds(20));
    s.looked({{"a", 4}});
    ck_assert(*s.turnstile.opens() == s.now + seconds(1));
    // Those that pass come one at a time until the limit is forgotten.
    s.now += seconds(1);
    const WorkloadPtr one = s.turnstile.next(s.now);
    ck_assert(one && !s.turnstile.next(s.now));
    s.turnstile.answered(one, Answer::taken, s.now);
    check(s.turns(), "a a a a a a a a a a a a");
}
END_TEST

START_TEST(a_full_slurmctld_is_asked_by_one_for_all) {
    Scene s;
    for (int i = 0; i < 10; ++i)
        s.join(i % 2 == 0 ? "a" : "b", "x");
    std::vector<WorkloadPtr> first;
    while (const WorkloadPtr next = s.turnstile.next(s.now))
        first.push_back(next);
    for (const WorkloadPtr &one : first)
        s.turnstile.answered(one, Answer::full, s.now, "busy");
    ck_assert(s.turnstile.why(s.all.back()) == Why::full);
    ck_assert(!s.turnstile.next(s.now) && *s.turnstile.opens() <= s.now + milliseconds(1250));
    s.now = *s.turnstile.opens();
    ck_assert(s.turnstile.next(s.now) && !s.turnstile.next(s.now));
}
END_TEST

START_TEST(at_a_limit_the_oldest_keeps_its_place) {
    Scene s;
    s.looked({{"a", 3}});
    const auto again = [&](const WorkloadPtr &one) { s.turnstile.join(one, {"a", "", 0, one->who.created, 1}); };
    const auto ask = [&](Answer answer) {
        s.now = std::max(s.now, s.turnstile.opens().value_or(s.now));
        const WorkloadPtr one = s.turnstile.next(s.now);
        s.turnstile.answered(one, answer, s.now, "AssocMaxSubmitJobLimit");
        if (answer == Answer::limit)
            again(one);
        return one->who.name;
    };
    for (int i = 0; i < 9; ++i)
        s.join("a", "a" + std::to_string(i), i)->who.created = i;
    // Younger ones are asked for now and then: what is said of one may not hold for all.
    std::map<std::string, int> asked;
    for (int i = 0; i < 41; ++i)
        ++asked[ask(Answer::limit)];
    ck_assert_int_eq(asked["a0"], 31);
    ck_assert_uint_eq(asked.size(), 9);
    // One that has ended makes room for the oldest, however often it was told to wait, and whoever came since.
    s.join("a", "late", 100)->who.created = 100;
    for (int i = 0; i < 4; ++i) {
        s.looked({{"a", 3}});
        ask(Answer::limit);
        s.looked({{"a", 2}});
        check(ask(Answer::taken), "a" + std::to_string(i));
    }
}
END_TEST

START_TEST(a_gate_whose_time_has_come_sets_no_timer_for_those_behind_another) {
    for (const Answer answer : {Answer::limit, Answer::refused, Answer::unasked}) {
        Scene s;
        s.join("a", "a1", 1);
        check(s.turns(Answer::full, 1), "a1");
        s.join("a", "a2", 2);
        s.join("a", "a3", 3);
        s.now = *s.turnstile.opens();
        check(s.turns(Answer::limit, 1), "a2");  // both gates have been shut, and the first one's time is over
        s.join("b", "b1", 4);
        check(s.turns(answer), "b1");
        ck_assert(!s.turnstile.next(s.now));
        ck_assert(s.turnstile.opens() && *s.turnstile.opens() > s.now);
        s.now = *s.turnstile.opens();
        check(s.turns(), "a3");
    }
}
END_TEST

START_TEST(a_slurmctld_that_has_answered_is_not_said_to_take_no_jobs) {
    Scene s;
    for (int i = 0; i < 5; ++i, s.now += std::chrono::minutes(1)) {
        s.join("a", "a");
        check(s.turns(Answer::full, 1), "a");
    }
    s.join("b", "b1");
    const WorkloadPtr a1 = s.join("a", "a1", 1);
    ck_assert(s.turnstile.why(a1) == Why::full);
    check(s.turns(Answer::limit, 1), "b1");
    ck_assert(s.turnstile.why(a1) == Why::turn);
    // What was not sent to slurmctld says nothing about it.
    check(s.turns(Answer::full, 1), "a1");
    s.join("a", "a2", 2);
    const WorkloadPtr a3 = s.join("a", "a3", 3);
    s.now = *s.turnstile.opens();
    check(s.turns(Answer::unasked, 1), "a2");
    ck_assert(s.turnstile.why(a3) == Why::full);
}
END_TEST

START_TEST(those_who_leave_are_forgotten) {
    Scene s;
    const WorkloadPtr gone = s.join("a", "gone");
    s.join("a", "here");
    s.turnstile.leave(gone);
    s.turnstile.leave(gone);
    check(s.turns(), "here");
    ck_assert_int_eq(static_cast<int>(s.turnstile.waiting()), 0);
}
END_TEST

int main() {
    return berth::test::run_suite(
        "turnstile", {namespaces_take_turns_and_within_one_the_oldest_comes_first, one_pod_of_another_namespace_does_not_wait_for_a_flood,
                      what_was_refused_before_comes_after_what_was_never_tried, no_more_are_under_way_than_the_workers_can_carry,
                      the_cap_is_never_exceeded_and_what_leaves_makes_room, a_namespace_that_fills_the_queue_leaves_room_for_others,
                      slurmctlds_table_is_left_to_native_jobs_before_it_is_full, a_thousand_at_one_limit_ask_as_seldom_as_one,
                      a_limit_holds_back_only_those_that_it_is_for, an_end_is_reason_to_ask_again_but_not_in_the_same_breath,
                      a_full_slurmctld_is_asked_by_one_for_all, at_a_limit_the_oldest_keeps_its_place,
                      a_gate_whose_time_has_come_sets_no_timer_for_those_behind_another,
                      a_slurmctld_that_has_answered_is_not_said_to_take_no_jobs, those_who_leave_are_forgotten});
}
