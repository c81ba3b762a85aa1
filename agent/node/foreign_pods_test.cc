#include "agent/node/foreign_pods.h"

#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;

namespace {

kube::Pod pod(const char *uid, const char *scheduler = "default-scheduler", const char *owner = "") {
    kube::Pod out;
    out.ns = "default";
    out.name = std::string("pod-") + uid;
    out.uid = uid;
    out.scheduler_name = scheduler;
    out.owner.kind = owner;
    out.need.cpu_milli = 1250;
    out.need.memory_bytes = 256 << 20;
    return out;
}

}  // namespace

START_TEST(pods_that_belong_here_are_not_foreign) {
    ForeignPods foreign("berth");
    ck_assert(!foreign.saw(pod("a", "berth")));
    ck_assert(!foreign.saw(pod("b", "default-scheduler", "DaemonSet")));
    ck_assert(!foreign.saw(pod("c", "default-scheduler", "Node")));
    kube::Pod over = pod("d");
    over.phase = kube::Phase::succeeded;
    ck_assert(!foreign.saw(over));
    ck_assert(foreign.empty() && foreign.sentence().empty());
}
END_TEST

START_TEST(a_foreign_pod_is_news_once_and_counted_until_it_ends) {
    ForeignPods foreign("berth");
    ck_assert(foreign.saw(pod("a", "default-scheduler", "ReplicaSet")));
    ck_assert(!foreign.saw(pod("a", "default-scheduler", "ReplicaSet")));
    ck_assert_text(foreign.sentence(), "a pod on this node is not Slurm's (default/pod-a): it does not know of its 1.25 CPUs and 256 MiB");
    ck_assert(foreign.saw(pod("b")));
    ck_assert_text(foreign.sentence(),
                   "2 pods on this node are not Slurm's (default/pod-a and others): it does not know of their 2.5 CPUs and 512 MiB");
    kube::Pod over = pod("a");
    over.phase = kube::Phase::failed;
    ck_assert(!foreign.saw(over));
    foreign.forget("b");
    ck_assert(foreign.empty());
}
END_TEST

int main() {
    return berth::test::run_suite("foreign_pods", {pods_that_belong_here_are_not_foreign,
                                                   a_foreign_pod_is_news_once_and_counted_until_it_ends});
}
