// The election's rules, with the clock in the test's hand.
#include "agent/lifecycle/election.h"

#include "test/unit/suite.h"

using namespace berth;
using namespace std::chrono_literals;
using Step = Election::Step;

namespace {

constexpr ElectionTimes times{15s, 10s, 2s};
const Election::Time start{1h};
constexpr std::uint64_t wall = 1'700'000'000;

LeaseRecord held_by(const std::string &holder, const std::string &version = "1", std::uint64_t term = 7) {
    LeaseRecord record;
    record.holder = holder;
    record.term = term;
    record.transitions = 3;
    record.duration = 15s;
    record.version = version;
    return record;
}

// One server's lease, and who writes it: a write over another version than the newest is refused, as the API server does.
struct Server {
    std::optional<LeaseRecord> lease;
    int version = 1;

    bool write(Election &who, Election::Time now) {
        LeaseRecord next = who.next(wall);
        if (lease && next.version != lease->version)
            return false;
        next.version = std::to_string(++version);
        lease = next;
        return who.written(next, now);
    }
};

}  // namespace

START_TEST(a_lease_that_nobody_holds_is_taken_at_once) {
    Election absent("a", times), released("a", times), own("a", times);
    ck_assert(absent.read(std::nullopt, start) == Step::create);
    ck_assert(released.read(held_by(""), start) == Step::write);
    ck_assert(own.read(held_by("a"), start) == Step::write);
}
END_TEST

// Reads every second from one moment to another, as a standby does; what the last one says.
Step watch(Election &who, const LeaseRecord &record, Election::Time from, Election::Time to) {
    Step step = Step::wait;
    for (auto t = from; t < to && step == Step::wait; t += 1s)
        step = who.read(record, t);
    return step == Step::wait ? who.read(record, to) : step;
}

START_TEST(a_held_lease_is_taken_only_after_its_whole_duration_without_change) {
    Election b("b", times);
    ck_assert(watch(b, held_by("a", "1"), start, start + 14'999ms) == Step::wait);
    ck_assert(watch(b, held_by("a", "2"), start + 15s, start + 29'999ms) == Step::wait);  // renewed in the last moment
    ck_assert(b.read(held_by("a", "2"), start + 30s) == Step::write);
}
END_TEST

START_TEST(a_candidate_that_was_away_counts_from_when_it_is_back) {
    Election b("b", times);
    ck_assert(watch(b, held_by("a", "1"), start, start + 10s) == Step::wait);
    // Stopped for an hour, or the API server was away for both of them: no change means nothing.
    ck_assert(watch(b, held_by("a", "1"), start + 1h, start + 1h + 14s) == Step::wait);
    ck_assert(b.read(held_by("a", "1"), start + 1h + 15s) == Step::write);
}
END_TEST

START_TEST(a_holder_with_more_patience_is_given_it) {
    Election b("b", times);
    LeaseRecord slow = held_by("a");
    slow.duration = 60s;
    ck_assert(watch(b, slow, start, start + 59s) == Step::wait);
    ck_assert(b.read(slow, start + 60s) == Step::write);
}
END_TEST

START_TEST(an_absurd_promise_is_waited_for_no_longer_than_any_controller_may_hold) {
    const ElectionTimes slow{3600s, 1800s, 2s};  // so patient can another be
    for (const std::int64_t promise : {3601L, 2147483647L}) {
        Election b("b", slow);
        LeaseRecord absurd = held_by("a");
        absurd.duration = std::chrono::seconds(promise);
        ck_assert(watch(b, absurd, start, start + 1h - 1ms) == Step::wait);
        ck_assert(b.read(absurd, start + 1h) == Step::write);
        Election quick("c", times);  // it is not taken at once either
        ck_assert(watch(quick, absurd, start, start + 1h - 1ms) == Step::wait);
    }
    for (const std::int64_t promise : {0L, -1L}) {
        Election b("b", times);
        LeaseRecord none = held_by("a");
        none.duration = std::chrono::seconds(promise);
        ck_assert(watch(b, none, start, start + 14'999ms) == Step::wait);
    }
}
END_TEST

START_TEST(a_term_does_not_wrap) {
    for (const std::uint64_t last : {most_term - 1, most_term}) {
        Server server;
        server.lease = held_by("", "1", last);
        server.lease->transitions = most_transitions;
        Election a("a", times);
        ck_assert(a.read(server.lease, start) == Step::write);
        ck_assert(server.write(a, start));
        ck_assert(a.holds());
        ck_assert_uint_eq(a.term(), last == most_term ? wall : most_term);
        ck_assert_int_eq(server.lease->transitions, most_transitions);
    }
}
END_TEST

START_TEST(an_answer_that_is_not_what_was_written_makes_no_leader) {
    Election a("a", times);
    a.read(std::nullopt, start);
    ck_assert(!a.written(held_by("b", "2"), start));
    ck_assert(!a.written(held_by("", "2"), start));
    ck_assert(!a.written(held_by("a", "2", 0), start));
    ck_assert(!a.holds());
    ck_assert(a.written(held_by("a", "2", 7), start));
    ck_assert(!a.written(held_by("a", "3", 8), start + 2s));
    ck_assert(a.term() == 7 && a.valid_until() == start + 10s);
}
END_TEST

START_TEST(the_deadline_counts_from_the_sending_of_the_last_accepted_renewal) {
    Election a("a", times);
    Server server;
    ck_assert(a.read(server.lease, start) == Step::create);
    ck_assert(!a.holds());
    ck_assert(server.write(a, start));
    ck_assert(a.holds());
    ck_assert(a.valid_until() == start + 10s);
    ck_assert(server.write(a, start + 2s));
    ck_assert(a.valid_until() == start + 12s);
}
END_TEST

START_TEST(a_leader_has_stopped_before_anybody_follows_whatever_the_clocks_say) {
    // b sees a's last renewal at the earliest when a sends it; its own clock is an hour ahead.
    Election a("a", times), b("b", times);
    Server server;
    a.read(server.lease, start);
    server.write(a, start);
    const auto ahead = 1h;
    ck_assert(b.read(server.lease, start + ahead) == Step::wait);
    Election::Time taken{};
    for (auto t = start; taken == Election::Time{}; t += 1ms)
        if (b.read(server.lease, t + ahead) != Step::wait)
            taken = t;
    ck_assert(taken - a.valid_until() >= times.duration - times.renew_deadline);
}
END_TEST

START_TEST(every_taking_is_a_newer_term_also_by_the_same_host_and_after_the_lease_was_deleted) {
    Server server;
    std::uint64_t last = 0;
    for (const char *who : {"a", "b", "b", "a"}) {
        Election election(who, times);
        if (server.lease && server.lease->holder != who)
            server.lease->holder.clear();
        election.read(server.lease, start);
        ck_assert(server.write(election, start));
        ck_assert(election.term() > last);
        last = election.term();
        const auto transitions = server.lease->transitions;
        ck_assert(server.write(election, start + 2s));  // a renewal is none
        ck_assert(election.term() == last);
        ck_assert(server.lease->transitions == transitions);
    }
    server.lease.reset();
    Election later("a", times);
    ck_assert(later.read(server.lease, start) == Step::create);
    ck_assert(later.next(wall + 60).term > last);
}
END_TEST

START_TEST(a_holder_that_was_late_goes_on_when_nobody_has_led_meanwhile) {
    Election a("a", times);
    Server server;
    a.read(server.lease, start);
    server.write(a, start);
    ck_assert(a.read(server.lease, start + 1h) == Step::write);
    // Its own renewal whose answer was lost: another version, the same term.
    server.lease->version = "77";
    ck_assert(a.read(server.lease, start + 1h) == Step::write);
    ck_assert_text(a.next(wall).version, "77");
    ck_assert(a.next(wall).term == a.term());
}
END_TEST

START_TEST(a_holder_that_finds_another_one_or_none_has_lost) {
    Server server;
    Election a("a", times);
    a.read(server.lease, start);
    server.write(a, start);
    ck_assert(a.read(held_by("b", "9", a.term() + 1), start + 1s) == Step::lost);
    ck_assert(a.read(held_by("", "9", a.term()), start + 1s) == Step::lost);
    ck_assert(a.read(held_by("a", "9", a.term() + 1), start + 1s) == Step::lost);  // a second process of the same host
    ck_assert(a.read(std::nullopt, start + 1s) == Step::lost);
}
END_TEST

START_TEST(of_two_that_take_at_once_one_is_refused) {
    Server server;
    server.lease = held_by("");
    Election a("a", times), b("b", times);
    ck_assert(a.read(server.lease, start) == Step::write);
    ck_assert(b.read(server.lease, start) == Step::write);
    ck_assert(server.write(a, start));
    ck_assert(!server.write(b, start));
    ck_assert(b.read(server.lease, start) == Step::wait);
}
END_TEST

START_TEST(the_fence_closes_by_itself) {
    Fence fence;
    ck_assert(!fence.open());
    fence.open_until(BootClock::now() + 1h);
    ck_assert(fence.open());
    fence.open_until(BootClock::now() - 1ns);
    ck_assert(!fence.open());
    fence.open_until(BootClock::now() + 1h);
    fence.close();
    ck_assert(!fence.open());
}
END_TEST

int main() {
    return berth::test::run_suite(
        "election", {a_lease_that_nobody_holds_is_taken_at_once, a_held_lease_is_taken_only_after_its_whole_duration_without_change,
                     a_candidate_that_was_away_counts_from_when_it_is_back, a_holder_with_more_patience_is_given_it,
                     an_absurd_promise_is_waited_for_no_longer_than_any_controller_may_hold, a_term_does_not_wrap,
                     an_answer_that_is_not_what_was_written_makes_no_leader,
                     the_deadline_counts_from_the_sending_of_the_last_accepted_renewal,
                     a_leader_has_stopped_before_anybody_follows_whatever_the_clocks_say,
                     every_taking_is_a_newer_term_also_by_the_same_host_and_after_the_lease_was_deleted,
                     a_holder_that_was_late_goes_on_when_nobody_has_led_meanwhile, a_holder_that_finds_another_one_or_none_has_lost,
                     of_two_that_take_at_once_one_is_refused, the_fence_closes_by_itself});
}
