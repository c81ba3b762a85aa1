#include "agent/node/slots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <random>

#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;

namespace {

Ticket gang(std::uint32_t size, std::uint32_t cpus, const std::string &gres = "") {
    Ticket t;
    t.kind = "Job";
    t.size = t.gang = size;
    t.cpus = cpus;
    t.gres = gres;
    return t;
}

std::vector<std::string> nodes(unsigned count) {
    std::vector<std::string> out;
    for (unsigned i = 1; i <= count; ++i)
        out.push_back(fmt::format("n{}", i));
    return out;
}

// "0+4 9+0": first and count of the slots, then of the spare ones; or the error.
std::string on(const std::string &node, const Ticket &ticket, const Allocation &allocation) {
    const auto slots = slots_here(ticket, allocation, node);
    if (!slots)
        return slots.error();
    return fmt::format("{}+{} {}+{}", slots->first, slots->count, slots->spare_first, slots->spare);
}

}  // namespace

START_TEST(cpus_per_node_are_read_as_slurm_writes_them) {
    const auto text = [](std::string_view list) {
        const auto cpus = parse_cpus_per_node(list);
        return cpus ? fmt::format("{}", fmt::join(*cpus, " ")) : "none";
    };
    ck_assert_text(text("8(x2),2"), "8 8 2");
    ck_assert_text(text("4"), "4");
    ck_assert_text(text("1,2,3(x3),4"), "1 2 3 3 3 4");
    ck_assert_text(text("0,1"), "0 1");
    for (const char *bad : {"", ",", "8,", ",8", "8(x", "8(x2", "8(x)", "8(2)", "8(x2)2", "x", "-1", "8 ", " 8", "8(x0)",
                            "4294967296", "1(x1000001)", "1(x1000000),1", "1(x99999999999999999999)"})
        ck_assert_msg(text(bad) == "none", "%s", bad);
}
END_TEST

START_TEST(tightly_filled_nodes_give_their_slots_in_order) {
    const Allocation a{nodes(3), "8(x2),2"};
    ck_assert_text(on("n1", gang(9, 2), a), "0+4 9+0");
    ck_assert_text(on("n2", gang(9, 2), a), "4+4 9+0");
    ck_assert_text(on("n3", gang(9, 2), a), "8+1 9+0");
}
END_TEST

START_TEST(the_order_is_slurms_and_not_the_alphabets) {
    const Allocation a{{"n10", "n2", "n1"}, "2,1,1"};
    ck_assert_text(on("n10", gang(4, 1), a), "0+2 4+0");
    ck_assert_text(on("n2", gang(4, 1), a), "2+1 4+0");
    ck_assert_text(on("n1", gang(4, 1), a), "3+1 4+0");
}
END_TEST

START_TEST(whole_nodes_get_one_each_and_then_fill_in_order) {
    const Allocation a{nodes(3), "8(x3)"};
    ck_assert_text(on("n1", gang(4, 1), a), "0+2 4+6");
    ck_assert_text(on("n2", gang(4, 1), a), "2+1 10+7");
    ck_assert_text(on("n3", gang(4, 1), a), "3+1 17+7");
    ck_assert_text(on("n1", gang(12, 1), a), "0+8 12+0");
    ck_assert_text(on("n2", gang(12, 1), a), "8+3 12+5");
    ck_assert_text(on("n3", gang(12, 1), a), "11+1 17+7");
}
END_TEST

START_TEST(fewer_pods_than_nodes_leave_the_last_nodes_empty) {
    const Allocation a{nodes(3), "4(x3)"};
    ck_assert_text(on("n2", gang(2, 4), a), "1+1 2+0");
    ck_assert_text(on("n3", gang(2, 4), a), "2+0 2+1");
}
END_TEST

START_TEST(hyperthreads_are_not_slots) {
    // Three pods of one CPU on cores of two threads: Slurm rounds up to whole cores.
    const Allocation a{nodes(2), "4,2"};
    ck_assert_text(on("n1", gang(3, 1), a), "0+2 3+2");
    ck_assert_text(on("n2", gang(3, 1), a), "2+1 5+1");
    // Three CPUs a pod on two cores: one pod, and a thread is left.
    ck_assert_text(on("n1", gang(1, 3), {nodes(1), "4"}), "0+1 1+0");
}
END_TEST

START_TEST(a_bound_per_node_holds) {
    Ticket t = gang(4, 1);
    t.per_node = 2;
    const Allocation a{nodes(2), "8(x2)"};
    ck_assert_text(on("n1", t, a), "0+2 4+0");
    ck_assert_text(on("n2", t, a), "2+2 4+0");
    t.per_node = 1;
    ck_assert_text(on("n1", t, a), "room for 2 pods instead of 4");
}
END_TEST

START_TEST(devices_bound_what_a_node_can_take) {
    const Allocation a{nodes(2), "8(x2)", {"gpu:a100:2(IDX:0-1)", "gpu:a100:4(IDX:0-3),shard:2(0/4,2/4)"}};
    ck_assert_text(on("n1", gang(3, 1, "gpu:a100:2"), a), "0+1 3+0");
    ck_assert_text(on("n2", gang(3, 1, "gpu:a100:2"), a), "1+2 3+0");
    ck_assert_text(on("n2", gang(6, 1, "gpu:1"), a), "2+4 6+0");
    ck_assert_text(on("n1", gang(1, 1, "gpu:1,shard:2"), a), "0+0 1+0");
    ck_assert_text(on("n2", gang(1, 1, "gpu:1,shard:2"), a), "0+1 1+0");
    ck_assert_text(on("n1", gang(1, 1, "gpu:h100:1"), a), "room for 0 pods instead of 1");
    ck_assert_text(on("n1", gang(2, 8, "gpu:1"), {nodes(2), "8(x2)", {"", ""}}), "0+1 2+0");  // Slurm does not say
}
END_TEST

START_TEST(memory_bounds_what_a_node_can_take) {
    Ticket t = gang(3, 1);
    t.memory_mib = 1000;
    Allocation a{nodes(2), "4,2"};
    a.memory_mib_per_cpu = 500;
    ck_assert_text(on("n1", t, a), "0+2 3+0");
    ck_assert_text(on("n2", t, a), "2+1 3+0");
    a.memory_mib_per_cpu = 499;
    ck_assert_text(on("n1", t, a), "room for 1 pods instead of 3");
    a.memory_mib_per_cpu = 0;
    a.memory_mib_per_node = 2000;
    ck_assert_text(on("n1", t, a), "0+2 3+0");
    ck_assert_text(on("n2", t, a), "2+1 3+1");
}
END_TEST

START_TEST(devices_are_counted_by_name_and_type) {
    const char *text = "gpu:a100:2(IDX:0-1),gpu:h100:1(IDX:2),gpux:9,net:3K(CNT:3)";
    ck_assert_uint_eq(devices_in(text, "gpu"), 3);
    ck_assert_uint_eq(devices_in(text, "gpu:a100"), 2);
    ck_assert_uint_eq(devices_in(text, "gpu:v100"), 0);
    ck_assert_uint_eq(devices_in(text, "net"), 3072);
    ck_assert_uint_eq(devices_in("gpu", "gpu"), 1);
    ck_assert_uint_eq(devices_in("gpu:a100", "gpu"), 1);
    ck_assert_uint_eq(devices_in("gpu:2M", "gpu"), 2 << 20);
    ck_assert_uint_eq(devices_in("", "gpu"), 0);
    ck_assert_text(device_shortage(gang(2, 1, "gpu:2"), {"gpu:2(IDX:0-1)", "gpu:1(IDX:0)"}), "3 gpu instead of 4");
    ck_assert_text(device_shortage(gang(2, 1, "gpu:2"), {"gpu:2(IDX:0-1)", "gpu:a100:2(IDX:0-1)"}), "");
    ck_assert_text(device_shortage(gang(2, 1, "gpu:2"), {}), "");
    ck_assert_text(device_shortage(gang(2, 1), {"gpu:2"}), "");
}
END_TEST

START_TEST(allocations_that_do_not_fit_are_refused) {
    ck_assert_text(on("n9", gang(1, 1), {nodes(3), "8(x3)"}), "node n9 has no part in it");
    ck_assert_text(on("n1", gang(1, 1), {nodes(3), "8(x2)"}), "CPUs per node \"8(x2)\" for 3 nodes");
    ck_assert_text(on("n1", gang(1, 1), {nodes(1), ""}), "CPUs per node \"\" for 1 nodes");
    ck_assert_text(on("n1", gang(9, 2), {nodes(2), "8(x2)"}), "room for 8 pods instead of 9");
    ck_assert_text(on("n1", gang(2, 1, "gpu:1"), {nodes(2), "8(x2)", {"gpu:1"}}), "devices of 1 nodes for 2");
}
END_TEST

START_TEST(slot_names_are_read_as_they_are_written) {
    ck_assert_text(to_text({1, 23}), "1.23");
    ck_assert(parse_slot("1.23") == SlotName({1, 23}));
    ck_assert(parse_slot("0.4294967295") == SlotName({0, 4294967295}));
    for (const char *bad : {"", ".", "1", "1.", ".1", "1.2.3", "1.x", "x.1", "-1.0", "1.-1", " 1.2", "1.2 ", "0.4294967296"})
        ck_assert_msg(!parse_slot(bad), "%s", bad);
}
END_TEST

// Whatever Slurm gives: each slot below the size lies on exactly one node, and so does each spare one.
START_TEST(every_slot_is_on_one_node) {
    std::mt19937 random(19700101);
    for (int round = 0; round < 2000; ++round) {
        const unsigned count = 1 + random() % 20, cpus = 1 + random() % 4;
        Allocation a{nodes(count), ""};
        std::uint32_t room = 0;
        for (unsigned i = 0; i < count; ++i) {
            const unsigned here = random() % 17;
            room += here / cpus;
            a.cpus_per_node += fmt::format("{}{}", i == 0 ? "" : ",", here);
        }
        if (room == 0)
            continue;
        const Ticket t = gang(1 + random() % room, cpus);
        std::uint32_t next = 0, spare = t.size;
        for (const std::string &node : a.nodes) {
            const auto slots = slots_here(t, a, node);
            ck_assert(slots.ok());
            ck_assert_uint_eq(slots->everywhere, room);
            ck_assert_uint_eq(slots->first, next);
            ck_assert_uint_eq(slots->spare_first, spare);
            next += slots->count;
            spare += slots->spare;
        }
        ck_assert_uint_eq(next, t.size);
        ck_assert_uint_eq(spare, room);
    }
}
END_TEST

int main() {
    return test::run_suite(
        "slots", {cpus_per_node_are_read_as_slurm_writes_them, tightly_filled_nodes_give_their_slots_in_order,
                  the_order_is_slurms_and_not_the_alphabets, whole_nodes_get_one_each_and_then_fill_in_order,
                  fewer_pods_than_nodes_leave_the_last_nodes_empty, hyperthreads_are_not_slots, a_bound_per_node_holds,
                  devices_bound_what_a_node_can_take,
                  memory_bounds_what_a_node_can_take, devices_are_counted_by_name_and_type,
                  allocations_that_do_not_fit_are_refused, slot_names_are_read_as_they_are_written, every_slot_is_on_one_node});
}
