#include "agent/workload/grouping.h"

#include <fmt/core.h>

#include <algorithm>

#include "agent/workload/kinds.h"
#include "test/unit/suite.h"

using namespace berth;
using kube::KeyValues;
using kube::Object;
using kube::Pod;

namespace {

Pod pod(KeyValues labels = {}, KeyValues annotations = {}) {
    Pod out;
    out.ns = "ml";
    out.name = "p";
    out.uid = "pod-uid";
    out.created = 50;
    std::sort(labels.begin(), labels.end());
    std::sort(annotations.begin(), annotations.end());
    out.labels = std::move(labels);
    out.annotations = std::move(annotations);
    return out;
}

Object object(std::string_view api_version, std::string_view kind, const std::string &name, KeyValues annotations = {}) {
    Object out;
    out.api_version = api_version;
    out.kind = kind;
    out.ns = "ml";
    out.name = name;
    out.uid = "uid-" + name;
    out.annotations = std::move(annotations);
    out.created = 7;
    return out;
}

Object job(KeyValues annotations = {}, std::int64_t parallelism = 4) {
    Object out = object("batch/v1", "Job", "train", std::move(annotations));
    out.parallelism = out.completions = parallelism;
    out.indexed = true;
    return out;
}

Object job_set(KeyValues annotations = {}) {
    Object out = object("jobset.x-k8s.io/v1alpha2", "JobSet", "set", std::move(annotations));
    out.pods = 6;
    return out;
}

Object x_group(KeyValues annotations = {}) {
    Object out = object("scheduling.x-k8s.io/v1alpha1", "PodGroup", "ring", std::move(annotations));
    out.min_member = 3;
    return out;
}

Object own_group(std::int64_t least) {
    Object out = object("scheduling.k8s.io/v1beta1", "PodGroup", "pg", {{"berth.dev/comment", "group"}});
    out.min_member = least;
    return out;
}

Object lws() {
    Object out = object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "serve");
    out.size = 2;
    return out;
}

ObjectPtr ptr(Object from) { return std::make_shared<const Object>(std::move(from)); }

Chain owned(std::initializer_list<Object> owners) {
    Chain out;
    for (const Object &one : owners)
        out.owners.push_back(ptr(one));
    return out;
}

Membership good(const Pod &of, const Chain &chain, bool indexed_is_gang = false) {
    Config config;
    config.defaults.indexed_job_is_gang = indexed_is_gang;
    auto out = group_of(of, chain, config);
    ck_assert_msg(out.ok(), "%s", out.ok() ? "" : out.error().c_str());
    return *out;
}

std::string bad(const Pod &of, const Chain &chain) {
    const auto out = group_of(of, chain, Config());
    ck_assert_msg(!out.ok(), "taken as %s", out.ok() ? out->key.c_str() : "");
    return out.error();
}

const KeyValues yes = {{"berth.dev/gang", "true"}}, no = {{"berth.dev/gang", "false"}};
const KeyValues in_set = {{"jobset.sigs.k8s.io/jobset-name", "set"}, {"jobset.sigs.k8s.io/restart-attempt", "2"}};
const KeyValues in_lws = {{"leaderworkerset.sigs.k8s.io/group-index", "1"}, {"leaderworkerset.sigs.k8s.io/name", "serve"}};

START_TEST(a_pod_alone_or_of_an_unknown_owner_is_by_itself) {
    Membership one = good(pod(), {});
    ck_assert(one.key == "pod-uid" && one.kind == "Pod" && one.name == "p" && one.ns == "ml" && one.owner_uid == "pod-uid");
    ck_assert(!one.gang && one.size == 1 && one.created == 50 && one.layers.size() == 1 && one.selector.empty());
    const Object set = object("apps/v1", "ReplicaSet", "rs", {{"berth.dev/nice", "1"}});
    const Object deployment = object("apps/v1", "Deployment", "d", {{"berth.dev/nice", "2"}});
    one = good(pod({}, {{"berth.dev/nice", "0"}}), owned({set, deployment}));
    ck_assert(one.kind == "Pod" && one.layers.size() == 3);
    ck_assert(one.layers[0] == deployment.annotations && one.layers[1] == set.annotations && one.layers[2][0].second == "0");
}
END_TEST

struct JobCase {
    KeyValues on_pod, on_job;
    std::int64_t parallelism;
    bool indexed, site, gang;
};

START_TEST(a_job_is_a_gang_when_asked_or_when_the_site_says_so) {
    const JobCase cases[] = {
        {{}, {}, 4, true, false, false}, {{}, yes, 4, true, false, true},  {yes, {}, 4, false, false, true},
        {{}, {}, 4, true, true, true},   {{}, {}, 4, false, true, false}, {{}, {}, 3, true, true, false},
        {{}, no, 4, true, true, false},  {no, {}, 4, true, true, false},  {no, yes, 4, true, false, true},
        {yes, no, 4, true, true, false},
    };
    for (const JobCase &c : cases) {
        Object of = job(c.on_job, c.parallelism);
        of.completions = 4;
        of.indexed = c.indexed;
        const Membership got = good(pod({}, c.on_pod), owned({of}), c.site);
        ck_assert_int_eq(got.gang, c.gang);
        ck_assert_text(got.kind, c.gang ? "Job" : "Pod");
        if (c.gang) {
            ck_assert_uint_eq(got.size, 4);
            ck_assert(got.key == "uid-train" && got.name == "train" && got.selector == "controller-uid=uid-train" && got.created == 7);
        }
    }
    Object wide = job(yes);
    wide.completions = 2;
    ck_assert_uint_eq(good(pod(), owned({wide})).size, 2);
    wide.completions.reset();
    ck_assert_uint_eq(good(pod(), owned({wide})).size, 4);
    // Begun again after some have succeeded.
    wide.completions = 4;
    wide.succeeded = 3;
    ck_assert_uint_eq(good(pod(), owned({wide})).size, 1);
}
END_TEST

START_TEST(deadlines_and_states_of_the_job_count) {
    Object of = job();
    of.active_deadline_seconds = 60;
    of.suspended = true;
    Pod one = pod();
    one.active_deadline_seconds = 90;
    Membership got = good(one, owned({of}));
    ck_assert(got.active_deadline_seconds == 60 && got.suspended && !got.finished);
    of.active_deadline_seconds = 0;
    of.deleting = true;
    got = good(one, owned({of}));
    ck_assert(got.active_deadline_seconds == 90 && got.finished);
    Object set = job_set();
    set.suspended = true;
    ck_assert(good(one, owned({job(), set})).suspended);
}
END_TEST

START_TEST(a_job_set_is_per_pod_until_asked_and_each_attempt_is_another_gang) {
    ck_assert_text(good(pod(in_set), owned({job(), job_set()})).kind, "Pod");
    const Membership got = good(pod(in_set), owned({job(), job_set(yes)}));
    ck_assert(got.kind == "JobSet" && got.key == "uid-set/2" && got.owner_uid == "uid-set" && got.size == 6 && got.gang);
    ck_assert_text(got.selector, "jobset.sigs.k8s.io/jobset-name=set,jobset.sigs.k8s.io/restart-attempt=2");
    ck_assert_text(good(pod(in_set), owned({job(yes), job_set()})).kind, "JobSet");
    ck_assert_text(good(pod(in_set), owned({job(), job_set()}), true).kind, "Job");
    ck_assert_text(good(pod(in_set), owned({job(), job_set(no)}), true).kind, "Pod");
    Object again = job_set(yes);
    again.restarts = 2;
    ck_assert(!good(pod(in_set), owned({job(), again})).finished);
    again.restarts = 3;
    ck_assert(good(pod(in_set), owned({job(), again})).finished);
    Object slow = job_set(yes);
    slow.in_order = true;
    ck_assert(bad(pod(in_set), owned({job(), slow})).find("one after the other") != std::string::npos);
    // By its label alone, when its Job may not be read.
    Chain chain;
    chain.set = ptr(job_set(yes));
    ck_assert_text(good(pod(in_set), chain).kind, "JobSet");
}
END_TEST

START_TEST(a_pod_group_goes_before_every_owner) {
    Chain chain = owned({job(yes), job_set(yes)});
    Object group = x_group({{"berth.dev/comment", "group"}});
    group.schedule_timeout_seconds = 60;
    group.min_resources = kube::Resources{6000, 0, {}};
    chain.pod_group = ptr(group);
    KeyValues labels = in_set;
    labels.emplace_back("scheduling.x-k8s.io/pod-group", "ring");
    const Membership got = good(pod(labels), chain);
    ck_assert(got.kind == "PodGroup" && got.key == "uid-ring" && got.name == "ring" && got.size == 3 && got.gang);
    ck_assert_text(got.selector, "scheduling.x-k8s.io/pod-group=ring");
    ck_assert(got.schedule_timeout_seconds == 60 && got.min_resources->cpu_milli == 6000 && got.created == 7);
    ck_assert(got.layers[0] == group.annotations);
    group.min_member = 0;
    chain.pod_group = ptr(group);
    ck_assert_uint_eq(good(pod(labels, no), chain).size, 1);
    group.problem = "minResources: cpu";
    chain.pod_group = ptr(group);
    ck_assert(bad(pod(labels), chain).find("PodGroup ml/ring: minResources") == 0);
}
END_TEST

START_TEST(the_servers_own_pod_group_is_a_gang_by_its_policy) {
    Chain chain = owned({job({{"berth.dev/comment", "job"}})});
    chain.pod_group = ptr(own_group(2));
    chain.workload = ptr(object("scheduling.k8s.io/v1beta1", "Workload", "w", {{"berth.dev/comment", "workload"}}));
    const Membership got = good(pod({}, {{"berth.dev/comment", "pod"}}), chain);
    ck_assert(got.kind == "PodGroup" && got.size == 2 && got.selector.empty() && got.scheduling_group == "pg");
    std::string order;
    for (const auto &layer : got.layers)
        order += layer[0].second + " ";
    ck_assert_text(order, "workload job group pod ");
    chain.pod_group = ptr(own_group(0));
    ck_assert_text(good(pod(), chain, true).kind, "Pod");
}
END_TEST

START_TEST(each_group_of_a_leader_worker_set_is_a_gang) {
    Chain chain = owned({lws()});
    chain.set = chain.owners[0];
    Membership got = good(pod(in_lws), chain);
    ck_assert(got.kind == "LeaderWorkerSet" && got.name == "serve-1" && got.key == "uid-serve/1" && got.size == 2 && got.gang);
    ck_assert_text(got.selector, "leaderworkerset.sigs.k8s.io/name=serve,leaderworkerset.sigs.k8s.io/group-index=1");
    got = good(pod(in_lws, {{"leaderworkerset.sigs.k8s.io/size", "5"}}), chain);
    ck_assert_uint_eq(got.size, 5);
    ck_assert(bad(pod(in_lws, {{"leaderworkerset.sigs.k8s.io/size", "0"}}), chain).find("at least 1") != std::string::npos);
    ck_assert(bad(pod(in_lws, {{"leaderworkerset.sigs.k8s.io/size", "-3"}}), chain).find("\"-3\"") != std::string::npos);
    ck_assert(bad(pod({{"leaderworkerset.sigs.k8s.io/name", "serve"}}), chain).find("group-index") != std::string::npos);
    // What is said of the leader, which owns the workers, is not said of them.
    chain.owners.insert(chain.owners.begin(), ptr(object("v1", "Pod", "serve-1", {{"berth.dev/nice", "5"}})));
    ck_assert_uint_eq(good(pod(in_lws), chain).layers.size(), 1);
}
END_TEST

START_TEST(a_bad_wish_is_refused_in_words) {
    const std::string odd = bad(pod({}, {{"berth.dev/gang", "maybe"}}), {});
    ck_assert(odd.find("berth.dev/gang") != std::string::npos && odd.find("\"maybe\"") != std::string::npos &&
              odd.find("\"true\" or \"false\"") != std::string::npos);
    const std::string elsewhere = bad(pod({}, yes), {});
    ck_assert(elsewhere.find("berth.dev/gang: \"true\"") != std::string::npos && elsewhere.find("PodGroup") != std::string::npos);
    ck_assert_text(good(pod({}, no), {}).kind, "Pod");
    ck_assert_text(good(pod({}, {{"berth.dev/gang", ""}}), {}).kind, "Pod");
    ck_assert(bad(pod(), owned({job(yes, 0)})).find("at least 1") != std::string::npos);
    Chain missing;
    missing.missing = "PodGroup ml/ring";
    ck_assert(bad(pod(), missing).find("PodGroup ml/ring") != std::string::npos);
}
END_TEST

std::string ranked(std::vector<Pod> pods) {
    std::sort(pods.begin(), pods.end(), [](const Pod &a, const Pod &b) { return rank_key(a) < rank_key(b); });
    std::string out;
    for (const Pod &one : pods)
        out += one.name + " ";
    return out;
}

Pod named(const char *name, KeyValues labels = {}, KeyValues annotations = {}) {
    Pod out = pod(std::move(labels), std::move(annotations));
    out.name = name;
    return out;
}

START_TEST(ranks_follow_indices_and_then_names) {
    ck_assert_text(ranked({named("ring-10"), named("ring-2"), named("driver"), named("ring-1")}), "driver ring-1 ring-2 ring-10 ");
    const auto completion = [](const char *name, const char *index, bool label) {
        const KeyValues it = {{"batch.kubernetes.io/job-completion-index", index}};
        return named(name, label ? it : KeyValues{}, label ? KeyValues{} : it);
    };
    ck_assert_text(ranked({completion("x", "11", true), completion("z", "2", true), completion("y", "3", true)}), "z y x ");
    ck_assert_text(ranked({completion("x", "11", false), completion("z", "2", false)}), "z x ");
    const auto worker = [](const char *name, const char *index) {
        return named(name, {{"leaderworkerset.sigs.k8s.io/worker-index", index}});
    };
    ck_assert_text(ranked({worker("a", "10"), worker("b", "2"), worker("lead", "0")}), "lead b a ");
    const auto part = [](const char *name, const char *job_name, const char *job_index, const char *index, const char *global) {
        KeyValues labels = {{"jobset.sigs.k8s.io/jobset-name", "s"},
                            {"jobset.sigs.k8s.io/replicatedjob-name", job_name},
                            {"jobset.sigs.k8s.io/job-index", job_index},
                            {"batch.kubernetes.io/job-completion-index", index}};
        if (*global)
            labels.emplace_back("jobset.sigs.k8s.io/job-global-index", global);
        return named(name, std::move(labels));
    };
    ck_assert_text(ranked({part("a", "work", "1", "0", ""), part("b", "work", "0", "1", ""), part("c", "drive", "0", "0", "")}),
                   "c b a ");
    ck_assert_text(ranked({part("a", "alpha", "0", "0", "1"), part("b", "zeta", "0", "0", "0")}), "b a ");
}
END_TEST

START_TEST(a_pod_knows_its_rank_only_where_it_is_alone_with_its_index) {
    const KeyValues third = {{"batch.kubernetes.io/job-completion-index", "3"}};
    ck_assert(own_rank(pod(third)) == 3u);
    ck_assert(own_rank(pod({}, third)) == 3u);
    ck_assert(own_rank(pod({{"leaderworkerset.sigs.k8s.io/worker-index", "1"}})) == 1u);
    ck_assert(!own_rank(pod()) && !own_rank(pod({{"batch.kubernetes.io/job-completion-index", "x"}})));
    KeyValues labels = third;
    labels.emplace_back("jobset.sigs.k8s.io/jobset-name", "s");
    ck_assert(!own_rank(pod(labels)));
    labels = third;
    labels.emplace_back("scheduling.x-k8s.io/pod-group", "g");
    ck_assert(!own_rank(pod(labels)));
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "grouping",
        {a_pod_alone_or_of_an_unknown_owner_is_by_itself, a_job_is_a_gang_when_asked_or_when_the_site_says_so,
         deadlines_and_states_of_the_job_count, a_job_set_is_per_pod_until_asked_and_each_attempt_is_another_gang,
         a_pod_group_goes_before_every_owner, the_servers_own_pod_group_is_a_gang_by_its_policy,
         each_group_of_a_leader_worker_set_is_a_gang, a_bad_wish_is_refused_in_words, ranks_follow_indices_and_then_names,
         a_pod_knows_its_rank_only_where_it_is_alone_with_its_index});
}
