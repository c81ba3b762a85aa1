#include "agent/node/capacity.h"

#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;

namespace {

constexpr std::int64_t mebibyte = 1 << 20;

kube::Resources asks(std::int64_t cpu_milli, std::int64_t mib, std::int64_t gpus = 0) {
    kube::Resources out{cpu_milli, mib * mebibyte, {}};
    if (gpus > 0)
        out.extended = {{"nvidia.com/gpu", gpus}};
    return out;
}

kube::Pod pod(const std::string &uid, const kube::Resources &need, kube::Phase phase = kube::Phase::running) {
    kube::Pod p;
    p.uid = uid;
    p.need = need;
    p.phase = phase;
    return p;
}

// 4 CPUs, 1000 MiB, 2 GPUs, 3 pods.
Capacity small_node() {
    kube::Node node;
    node.cpu_milli = 4000;
    node.memory_bytes = 1000 * mebibyte;
    node.extended = {{"nvidia.com/gpu", 2}};
    node.pods = 3;
    Capacity out;
    out.set_node(node);
    return out;
}

}  // namespace

START_TEST(pod_that_fits_lacks_nothing) {
    ck_assert(small_node().lack("a", asks(4000, 1000, 2)).empty());
}
END_TEST

START_TEST(what_is_lacking_is_told_with_numbers) {
    Capacity node = small_node();
    ck_assert_text(node.lack("a", asks(4500, 1)).sentence, "of cpu it asks for 4.5, and 4 of 4 are free");
    node.saw(pod("other", asks(2500, 300, 1)));
    ck_assert_text(node.lack("a", asks(2000, 1)).sentence, "of cpu it asks for 2, and 1.5 of 4 are free");
    ck_assert_text(node.lack("a", asks(1000, 800)).sentence, "of memory it asks for 800 MiB, and 700 MiB of 1000 MiB are free");
    ck_assert_text(node.lack("a", asks(1000, 100, 2)).sentence, "of nvidia.com/gpu it asks for 2, and 1 of 2 are free");
    ck_assert(node.lack("a", asks(1500, 700, 1)).empty());
}
END_TEST

START_TEST(pod_itself_and_pods_that_are_over_do_not_count) {
    Capacity node = small_node();
    node.saw(pod("a", asks(4000, 1000)));
    ck_assert(node.lack("a", asks(4000, 1000)).empty());
    ck_assert(!node.lack("b", asks(1000, 1)).empty());
    node.saw(pod("a", asks(4000, 1000), kube::Phase::succeeded));
    ck_assert(node.lack("b", asks(4000, 1)).empty());
    node.saw(pod("c", asks(4000, 1000)));
    node.forget("c");
    ck_assert(node.lack("b", asks(4000, 1)).empty());
}
END_TEST

START_TEST(number_of_pods_counts_and_what_asks_for_nothing_needs_nothing_else) {
    Capacity node = small_node();
    node.saw(pod("x", asks(4000, 1000)));
    node.reserve("y", asks(0, 0));
    ck_assert(node.lack("a", asks(0, 0)).empty());
    node.saw(pod("z", asks(0, 0)));
    ck_assert_text(node.lack("a", asks(0, 0)).resource, "pods");
}
END_TEST

START_TEST(requests_count_and_not_limits) {
    Capacity node = small_node();
    kube::Pod generous = pod("x", asks(4000, 1000));
    generous.requests = std::make_shared<const kube::Resources>(asks(500, 100));
    node.saw(generous);
    ck_assert(node.lack("a", asks(3500, 900)).empty());
}
END_TEST

START_TEST(unknown_nodes_and_unlisted_resources_refuse_nothing) {
    ck_assert(Capacity().lack("a", asks(100000, 100000)).empty());
    kube::Resources odd = asks(1000, 1);
    odd.extended = {{"example.com/thing", 7}};
    ck_assert(small_node().lack("a", odd).empty());
}
END_TEST

int main() {
    return berth::test::run_suite("capacity", {pod_that_fits_lacks_nothing, what_is_lacking_is_told_with_numbers,
                                               pod_itself_and_pods_that_are_over_do_not_count,
                                               number_of_pods_counts_and_what_asks_for_nothing_needs_nothing_else,
                                               requests_count_and_not_limits, unknown_nodes_and_unlisted_resources_refuse_nothing});
}
