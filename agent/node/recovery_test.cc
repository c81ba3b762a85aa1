#include "agent/node/recovery.h"

#include <utime.h>

#include <algorithm>

#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;
using berth::test::Scratch;

namespace {

const std::string nonce = "0123456789abcdef", other_nonce = "fedcba9876543210";

struct Run : Scratch {
    RunDir dir{path("run")};
    std::string why;
    Run() { ck_assert(dir.make(why)); }

    void hold(const std::string &uid, std::uint32_t job, const std::string &slot = "") {
        Message record{"held", {}};
        record.set("job", job).set("nonce", nonce).set("ns", "team-a").set("name", "p-" + uid).set("uid", uid);
        if (!slot.empty())
            record.set("slot", slot);
        ck_assert(dir.write(RunDir::held, uid, record, why));
    }
    void mark(RunDir::Kind kind, std::uint32_t job, const std::string &with_nonce = nonce) {
        Message record{kind == RunDir::jobs ? "allocated" : "ended", {}};
        ck_assert(dir.write(kind, RunDir::job_name(job, with_nonce), record.set("job", job), why));
    }
};

bool nobody(const std::string &) { return false; }

std::vector<unsigned long> jobs_in(const std::vector<Message> &records) {
    std::vector<unsigned long> out;
    for (const Message &record : records)
        out.push_back(record.number("job").value_or(0));
    std::sort(out.begin(), out.end());
    return out;
}

}  // namespace

START_TEST(every_held_pod_is_taken_up_with_what_is_known_of_its_job) {
    Run run;
    run.hold("a", 7);          // runs
    run.mark(RunDir::jobs, 7);
    run.hold("b", 8);          // its epilog came while nobody was there
    run.mark(RunDir::jobs, 8);
    run.mark(RunDir::ended, 8);
    run.hold("c", 9, "1.3");   // of a gang whose record is lost
    run.mark(RunDir::ended, 9, other_nonce);  // the end of another job with that id
    Held held = read_held(run.dir);
    ck_assert_uint_eq(held.pods.size(), 3);
    ck_assert(held.unreadable.empty());
    std::sort(held.pods.begin(), held.pods.end(), [](const auto &x, const auto &y) { return x.job < y.job; });
    ck_assert(held.pods[0].allocation && !held.pods[0].ended && !held.pods[0].slot);
    ck_assert_text(held.pods[0].pod.ns + "/" + held.pods[0].pod.name + " " + held.pods[0].pod.uid, "team-a/p-a a");
    ck_assert(held.pods[1].allocation && held.pods[1].ended);
    ck_assert(!held.pods[2].allocation && !held.pods[2].ended && held.pods[2].slot == (SlotName{1, 3}));
}
END_TEST

START_TEST(records_of_another_version_stay_and_are_named) {
    Run run;
    run.hold("a", 7);
    run.write("run/held/b", "berth 9 held\njob=8\n");
    run.write("run/held/c", "berth 1 held\nnonce=0123456789abcdef\n");  // without a job
    Held held = read_held(run.dir);
    ck_assert_uint_eq(held.pods.size(), 1);
    std::sort(held.unreadable.begin(), held.unreadable.end());
    ck_assert(held.unreadable == (std::vector<std::string>{"b", "c"}));
    ck_assert(run.dir.exists(RunDir::held, "b") && run.dir.exists(RunDir::held, "c"));
}
END_TEST

START_TEST(allocations_that_came_while_nobody_was_there_are_taken_up_unless_they_ended) {
    Run run;
    run.mark(RunDir::jobs, 7);
    run.mark(RunDir::jobs, 8);
    run.mark(RunDir::ended, 8);
    run.mark(RunDir::jobs, 9);
    run.write("run/jobs/10." + nonce, "berth 9 allocated\n");
    const auto known = [](const std::string &key) { return key == RunDir::job_name(9, nonce); };
    ck_assert(jobs_in(untaken_allocations(run.dir, known)) == std::vector<unsigned long>{7});
    ck_assert(run.dir.exists(RunDir::jobs, RunDir::job_name(7, nonce)) && run.dir.exists(RunDir::jobs, RunDir::job_name(9, nonce)));
    ck_assert(!run.dir.exists(RunDir::jobs, RunDir::job_name(8, nonce)));  // nothing is ever bound for it
    ck_assert(run.dir.exists(RunDir::jobs, RunDir::job_name(10, nonce)));  // of a newer plugin: for the agent that can read it
}
END_TEST

START_TEST(ends_are_remembered_for_a_day_and_while_their_pods_live) {
    Run run;
    constexpr long day = 24 * 60 * 60;
    for (const std::uint32_t job : {7, 8, 9})
        run.mark(RunDir::ended, job);
    const utimbuf before{time(nullptr) - day - 10, time(nullptr) - day - 10};
    for (const std::uint32_t job : {8, 9})
        ck_assert_int_eq(utime(run.path("run/ended/" + RunDir::job_name(job, nonce)).c_str(), &before), 0);
    drop_old_ends(run.dir, [](const std::string &key) { return key == RunDir::job_name(9, nonce); }, day);
    ck_assert(run.dir.exists(RunDir::ended, RunDir::job_name(7, nonce)));
    ck_assert(!run.dir.exists(RunDir::ended, RunDir::job_name(8, nonce)));
    ck_assert(run.dir.exists(RunDir::ended, RunDir::job_name(9, nonce)));
    ck_assert(untaken_allocations(run.dir, nobody).empty());
}
END_TEST

int main() {
    return berth::test::run_suite("recovery", {every_held_pod_is_taken_up_with_what_is_known_of_its_job,
                                               records_of_another_version_stay_and_are_named,
                                               allocations_that_came_while_nobody_was_there_are_taken_up_unless_they_ended,
                                               ends_are_remembered_for_a_day_and_while_their_pods_live});
}
