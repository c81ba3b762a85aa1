#include "agent/node/gang.h"

#include <fmt/format.h>

#include "agent/keys.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;

namespace {

constexpr const char *scheduler = "slurm-bridge-scheduler";
constexpr const char *nonce = "0123456789abcdef";

Gang gang(const std::string &kind, std::uint32_t size, std::uint32_t everywhere) {
    Gang g;
    g.job = 12;
    g.ticket.ns = "team-a";
    g.ticket.kind = kind;
    g.ticket.nonce = nonce;
    g.ticket.size = g.ticket.gang = size;
    g.ticket.selector = "group=ring";
    g.slots = Slots{.first = 0, .count = size, .spare_first = size, .spare = everywhere - size, .everywhere = everywhere};
    return g;
}

kube::Pod pod(const std::string &name) {
    kube::Pod p;
    p.ns = "team-a";
    p.name = name;
    p.uid = "uid-" + name;
    p.scheduler_name = scheduler;
    return p;
}

kube::Pod indexed(const std::string &name, unsigned index) {
    kube::Pod p = pod(name);
    p.labels = {{"batch.kubernetes.io/job-completion-index", std::to_string(index)}};
    p.annotations = p.labels;
    return p;
}

kube::Pod bound(kube::Pod p, const std::string &slot, const std::string &by = nonce) {
    p.node_name = "n1";
    p.annotations.insert(p.annotations.end(), {{keys::nonce, by}, {keys::slot, slot}});
    return p;
}

void see(Gang &g, kube::Pod p) { g.saw(std::move(p), scheduler, Config{}); }

// "a:0 b:1", by slot.
std::string seats(const Gang &g, const std::set<std::uint32_t> &taken = {}, const std::set<std::string> &settled = {}) {
    std::map<std::uint32_t, std::string> by_slot;
    for (const Gang::Seat &seat : g.seats(taken, settled)) {
        ck_assert(by_slot.count(seat.slot) == 0);
        by_slot[seat.slot] = seat.pod->name;
    }
    std::string out;
    for (const auto &[slot, name] : by_slot)
        out += fmt::format("{}{}:{}", out.empty() ? "" : " ", name, slot);
    return out;
}

}  // namespace

START_TEST(a_gang_is_whole_when_all_its_pods_wait) {
    Gang g = gang("PodGroup", 3, 3);
    see(g, pod("a"));
    see(g, pod("b"));
    ck_assert(!g.whole());
    kube::Pod gated = pod("c");
    gated.gated = true;
    see(g, gated);
    ck_assert(!g.whole());
    kube::Pod going = pod("d");
    going.deleting = true;
    see(g, going);
    ck_assert(!g.whole());
    see(g, bound(pod("e"), "0.0", "fedcba9876543210"));  // an earlier gang's
    ck_assert(!g.whole());
    see(g, pod("c"));
    ck_assert(g.whole());
}
END_TEST

START_TEST(a_gang_that_some_node_has_begun_goes_on) {
    Gang g = gang("PodGroup", 3, 3);
    see(g, pod("a"));
    see(g, bound(pod("b"), "0.1"));
    ck_assert(g.whole());
    ck_assert_text(seats(g), "a:0");
}
END_TEST

START_TEST(pods_take_slots_in_the_order_of_their_names) {
    Gang g = gang("PodGroup", 3, 3);
    for (const char *name : {"c", "a", "b"})
        see(g, pod(name));
    ck_assert_text(seats(g), "a:0 b:1 c:2");
}
END_TEST

START_TEST(bound_pods_keep_their_slots) {
    Gang g = gang("PodGroup", 3, 3);
    see(g, bound(pod("b"), "0.0"));
    see(g, pod("a"));
    see(g, pod("c"));
    ck_assert_text(seats(g), "a:1 c:2");
    see(g, bound(pod("d"), "1.1"));  // another part's slot
    ck_assert_text(seats(g), "a:1 c:2");
}
END_TEST

START_TEST(a_freed_slot_is_taken_again_once_the_old_pod_is_gone) {
    Gang g = gang("PodGroup", 2, 2);
    kube::Pod old = bound(pod("a"), "0.0");
    see(g, old);
    see(g, bound(pod("b"), "0.1"));
    see(g, pod("c"));
    ck_assert_text(seats(g), "");
    old.phase = kube::Phase::failed;
    see(g, old);
    ck_assert_text(seats(g, {0}), "");  // this node is not done with it
    ck_assert_text(seats(g), "c:0");
}
END_TEST

START_TEST(a_jobs_index_is_its_slot) {
    Gang g = gang("Job", 3, 3);
    see(g, indexed("ring-2-a", 2));
    see(g, indexed("ring-0-z", 0));
    ck_assert_text(seats(g), "ring-0-z:0 ring-2-a:2");
    see(g, indexed("ring-0-y", 0));
    ck_assert_uint_eq(g.seats({}, {}).size(), 2);  // one of the two waits
    ck_assert_text(seats(g, {0}), "ring-2-a:2");
}
END_TEST

START_TEST(equal_indexes_of_several_jobs_in_a_group_do_not_meet) {
    Gang g = gang("PodGroup", 4, 4);
    for (unsigned i : {0, 1}) {
        see(g, indexed(fmt::format("x-{}", i), i));
        see(g, indexed(fmt::format("y-{}", i), i));
    }
    ck_assert_uint_eq(g.seats({}, {}).size(), 4);
}
END_TEST

START_TEST(late_members_take_spare_slots_while_there_are_some) {
    Gang g = gang("PodGroup", 2, 3);
    for (const char *name : {"a", "b", "c", "d"})
        see(g, pod(name));
    ck_assert_text(seats(g), "a:0 b:1 c:2");
}
END_TEST

// Begun again after indexes 0 and 1 have succeeded; or with fewer slots than indexes, one after the other.
START_TEST(indexes_beyond_the_slots_take_what_is_free) {
    Gang job = gang("Job", 2, 2);
    see(job, indexed("r-2", 2));
    see(job, indexed("r-3", 3));
    ck_assert_text(seats(job), "r-2:0 r-3:1");
    see(job, indexed("r-1", 1));  // its own slot goes first
    ck_assert_text(seats(job), "r-2:0 r-1:1");
    // A pod whose slot a stranger has takes another one; one whose slot its predecessor has waits for it.
    Gang begun = gang("Job", 3, 3);
    see(begun, bound(indexed("r-5", 5), "0.1"));
    see(begun, indexed("r-1", 1));
    ck_assert_text(seats(begun), "r-1:0");
    Gang dying = gang("Job", 3, 3);
    see(dying, bound(indexed("old", 1), "0.1"));
    see(dying, indexed("new", 1));
    ck_assert_text(seats(dying), "");
}
END_TEST

START_TEST(a_pod_that_is_larger_than_its_place_is_not_seated) {
    Gang g = gang("PodGroup", 2, 2);
    g.ticket.cpus = 2;
    g.ticket.memory_mib = 100;
    kube::Pod large = pod("a");
    large.need.cpu_milli = 2001;
    see(g, large);
    see(g, pod("b"));
    ck_assert(!g.whole());
    ck_assert_text(seats(g), "b:0");
    large.need = {2000, 101 << 20, {}};
    see(g, large);
    ck_assert_text(seats(g), "b:0");
    large.need = {2000, 100 << 20, {{"nvidia.com/gpu", 1}}};
    see(g, large);
    ck_assert_text(seats(g), "b:0");
    g.ticket.gres = "gpu:a100:1";
    see(g, large);
    ck_assert_text(seats(g), "a:0 b:1");
}
END_TEST

START_TEST(settled_pods_are_not_seated_twice) {
    Gang g = gang("PodGroup", 2, 2);
    see(g, pod("a"));
    see(g, pod("b"));
    ck_assert_text(seats(g, {0}, {"uid-a"}), "b:1");
}
END_TEST

START_TEST(strangers_are_no_members) {
    Gang g = gang("PodGroup", 1, 1);
    kube::Pod p = pod("a");
    p.ns = "team-b";
    see(g, p);
    p = pod("b");
    p.scheduler_name = "default-scheduler";
    see(g, p);
    ck_assert(g.members.empty());
    g.ticket.selector.clear();
    g.ticket.scheduling_group = "ring";
    see(g, pod("c"));
    ck_assert(g.members.empty());
    p = pod("d");
    p.scheduling_group = "ring";
    see(g, p);
    ck_assert_text(seats(g), "d:0");
    // A label does not make a pod of somebody else's service account a member.
    g.ticket.tenant = "alice";
    see(g, p);
    ck_assert(g.members.empty());
}
END_TEST

START_TEST(members_are_asked_for_by_label_and_scheduler) {
    Gang g = gang("Job", 1, 1);
    g.ticket.selector = "job-name=ring";
    ck_assert_text(g.query("s"), "fieldSelector=spec.schedulerName%3Ds&labelSelector=job-name%3Dring");
    g.ticket.selector.clear();
    ck_assert_text(g.query("s"), "fieldSelector=spec.schedulerName%3Ds");
}
END_TEST

START_TEST(only_a_group_waits_for_late_members) {
    Gang g = gang("Job", 2, 4);
    ck_assert(!g.full({0}));
    ck_assert(g.full({0, 1}));
    g.ticket.kind = "PodGroup";
    ck_assert(!g.full({0, 1}));
    ck_assert(g.full({0, 1, 2, 3}));
    g.slots = Slots{.first = 2, .count = 0, .spare_first = 2, .spare = 0, .everywhere = 2};
    ck_assert(g.full({}));
}
END_TEST

int main() {
    return test::run_suite("gang", {a_gang_is_whole_when_all_its_pods_wait, a_gang_that_some_node_has_begun_goes_on,
                                    pods_take_slots_in_the_order_of_their_names, bound_pods_keep_their_slots,
                                    a_freed_slot_is_taken_again_once_the_old_pod_is_gone, a_jobs_index_is_its_slot,
                                    equal_indexes_of_several_jobs_in_a_group_do_not_meet,
                                    late_members_take_spare_slots_while_there_are_some,
                                    indexes_beyond_the_slots_take_what_is_free, a_pod_that_is_larger_than_its_place_is_not_seated, settled_pods_are_not_seated_twice,
                                    strangers_are_no_members, members_are_asked_for_by_label_and_scheduler,
                                    only_a_group_waits_for_late_members});
}
