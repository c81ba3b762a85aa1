#include "agent/node/adoption.h"

#include "agent/keys.h"
#include "test/unit/suite.h"

using namespace berth;
using namespace berth::node;

namespace {

constexpr const char *nonce = "0123456789abcdef";

kube::Pod claimant(const std::string &uid, const std::string &slot = "") {
    kube::Pod pod;
    pod.ns = "team-a";
    pod.name = "p";
    pod.uid = uid;
    pod.node_name = "n1";
    pod.annotations = {{keys::nonce, nonce}};  // sorted by key
    if (!slot.empty())
        pod.annotations.emplace_back(keys::slot, slot);
    pod.annotations.emplace_back(keys::job_id, "12");
    return pod;
}

slurm::Job placeholder(const std::string &uid, const std::string &kind = "Pod") {
    slurm::Job job;
    job.id = 12;
    job.state = slurm::JobState::running;
    job.nodes = "n[1-2]";
    job.ticket.ns = "team-a";
    job.ticket.kind = kind;
    job.ticket.uid = uid;
    job.ticket.nonce = nonce;
    job.ticket.selector = kind == "Pod" ? "" : "group=ring";
    return job;
}

Claim verdict(const kube::Pod &pod, const std::optional<slurm::Job> &job, const Config &config = {}) { return judge(pod, "n1", job, config); }

}  // namespace

START_TEST(pod_that_its_jobs_ticket_names_is_good) { ck_assert(verdict(claimant("mine"), placeholder("mine")) == Claim::good); }
END_TEST

START_TEST(pod_that_names_another_pods_job_is_forged) {
    ck_assert(verdict(claimant("other"), placeholder("mine")) == Claim::forged);
    ck_assert(verdict(claimant("other", "0.0"), placeholder("mine")) == Claim::forged);
    ck_assert(verdict(claimant("other"), placeholder("mine", "PodGroup")) == Claim::forged);
}
END_TEST

START_TEST(job_that_waits_has_bound_nothing) {
    slurm::Job job = placeholder("mine");
    job.state = slurm::JobState::pending;
    ck_assert(verdict(claimant("mine"), job) == Claim::forged);
}
END_TEST

START_TEST(job_that_ended_or_left_the_node_is_over) {
    slurm::Job job = placeholder("mine");
    job.completing = true;
    ck_assert(verdict(claimant("mine"), job) == Claim::over);
    job = placeholder("mine");
    job.nodes = "n2";
    ck_assert(verdict(claimant("mine"), job) == Claim::over);
}
END_TEST

START_TEST(job_that_slurmctld_does_not_know_by_id_and_nonce_is_unknown) {
    ck_assert(verdict(claimant("mine"), std::nullopt) == Claim::unknown);
    slurm::Job reused = placeholder("mine");
    reused.ticket.nonce = "fedcba9876543210";
    ck_assert(verdict(claimant("mine"), reused) == Claim::unknown);
}
END_TEST

START_TEST(members_place_is_in_its_namespace_part_and_tenant) {
    const slurm::Job gang = placeholder("ring", "PodGroup");
    ck_assert(verdict(claimant("a", "0.3"), gang) == Claim::good);
    ck_assert(verdict(claimant("a", "1.3"), gang) == Claim::forged);
    kube::Pod elsewhere = claimant("a", "0.3");
    elsewhere.ns = "team-b";
    ck_assert(verdict(elsewhere, gang) == Claim::forged);

    const auto config = parse_config("clusters: [{name: c}]\n"
                                     "tenants:\n"
                                     "  - {namespace: team-a, service_account: bob, user: bob}\n"
                                     "  - {namespace: team-a, user: alice}\n",
                                     "test");
    ck_assert(config.ok());
    slurm::Job alices = gang;
    alices.ticket.tenant = "alice";
    kube::Pod bobs = claimant("a", "0.3");
    ck_assert(verdict(bobs, alices, *config) == Claim::good);
    bobs.service_account = "bob";
    ck_assert(verdict(bobs, alices, *config) == Claim::forged);
}
END_TEST

START_TEST(claim_needs_a_job_and_a_nonce) {
    kube::Pod pod = claimant("mine");
    ck_assert(claimed_place(pod)->job == 12 && claimed_place(pod)->nonce == nonce);
    pod.annotations = {{keys::nonce, nonce}, {keys::job_id, "12x"}};
    ck_assert(!claimed_place(pod));
    pod.annotations = {{keys::job_id, "12"}};
    ck_assert(!claimed_place(pod));
}
END_TEST

int main() {
    return berth::test::run_suite("adoption", {pod_that_its_jobs_ticket_names_is_good,
                                               pod_that_names_another_pods_job_is_forged,
                                               job_that_waits_has_bound_nothing,
                                               job_that_ended_or_left_the_node_is_over,
                                               job_that_slurmctld_does_not_know_by_id_and_nonce_is_unknown,
                                               members_place_is_in_its_namespace_part_and_tenant,
                                               claim_needs_a_job_and_a_nonce});
}
