// The decisions of job_submit_berth.so, on requests as slurmctld hands them over.
#include "jobsubmit/guard.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdarg>
#include <functional>

#include "proto/seal.h"
#include "proto/ticket.h"
#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using berth::test::Scratch;

extern "C" {
// In place of slurmctld's.
void slurm_error(const char *, ...) {}
void slurm_info(const char *, ...) {}
}

namespace {

constexpr std::uint32_t alice = 1001, bob = 1002, someone = 1003, carol = 1004;

// Carol is an operator by sacctmgr; who else is asked for is not.
bool is_operator(std::uint32_t uid) { return uid == carol; }

// The bridge owns the table, which the test writes; root (uid 0) is an operator without being asked for.
const std::uint32_t bridge = geteuid() == 0 ? 64030 : geteuid();
constexpr std::uint32_t operator_uid = 0;

struct Site : Scratch {
    const std::string key = std::string(32, 'k');
    int notify_fd = -1, ear = -1;
    std::unique_ptr<RulesWatch> watch;

    explicit Site(const std::string &more = "") {
        write("key", key);
        write("berth.conf", "BridgeUser=" + std::to_string(bridge) + "\nKeyFile=" + path("key") +
                                "\nPlaceholderTable=" + path("placeholders") + "\nNotifySocket=" + path("notify") +
                                "\n" + more);
        std::uint32_t table[20] = {};
        table[12] = alice;
        table[15] = bob;
        write("placeholders", {reinterpret_cast<const char *>(table), sizeof table});
        watch = std::make_unique<RulesWatch>(path("berth.conf"));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path("notify").copy(address.sun_path, sizeof address.sun_path - 1);
        ear = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(ear, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
        notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    ~Site() {
        close(ear);
        close(notify_fd);
    }
    bool rang() const {
        char byte = 0;
        return recv(ear, &byte, 1, 0) == 1;
    }
};

// A request with strings of its own, freed as slurmctld frees them.
struct Job : job_desc_msg_t {
    char *variables[3] = {};
    Job() : job_desc_msg_t() { slurm_init_job_desc_msg(this); }
    ~Job() {
        for (char *&variable : variables)
            slurm_xfree(reinterpret_cast<void **>(&variable));
        for (char **text : {&admin_comment, &job_id_str, &name})
            slurm_xfree(reinterpret_cast<void **>(text));
    }
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    Job &ticket(const std::string &text) {
        admin_comment = slurm_xstrdup(text.c_str());
        return *this;
    }
    Job &variable(const char *text) {
        spank_job_env = variables;
        variables[spank_job_env_size++] = slurm_xstrdup(text);
        return *this;
    }
    Job &id(const char *text) {
        slurm_xfree(reinterpret_cast<void **>(&job_id_str));
        job_id_str = slurm_xstrdup(text);
        return *this;
    }
};

Ticket ticket_for(std::uint32_t user, std::uint32_t group = 2001) {
    return {.cluster = "c",
            .ns = "ns",
            .kind = "Pod",
            .name = "p",
            .uid = "u",
            .nonce = "0123456789abcdef",
            .user = user,
            .group = group};
}

Verdict submit_for(const Site &site, std::uint32_t user, std::uint32_t group = 2001) {
    Job job;
    job.ticket(to_json(ticket_for(user, group))).variable("SPANK_BERTH=unsealed");
    return guard_submit(*site.watch, job, bridge);
}

Verdict modify(const Site &site, std::uint32_t uid, const char *id, const std::function<void(Job &)> &change) {
    Job job;
    job.id(id);
    change(job);
    return guard_modify(*site.watch, job, uid, is_operator, site.notify_fd);
}

void more_tasks(Job &job) { job.num_tasks = 64; }
void longer(Job &job) { job.time_limit = 600; }

bool passes(const Verdict &verdict) {
    ck_assert((verdict.code == SLURM_SUCCESS) == verdict.message.empty());
    ck_assert(verdict.message.empty() || verdict.message.starts_with("berth: "));
    return verdict.code == SLURM_SUCCESS;
}

}  // namespace

START_TEST(ordinary_job_passes_untouched) {
    const Site site;
    Job job;
    job.user_id = alice;
    job.ticket("a note {\"berth\":1").variable("SPANK_BERTHS=1").variable("SPANK_OTHER=SPANK_BERTH=1");
    ck_assert(passes(guard_submit(*site.watch, job, alice)));
    ck_assert_uint_eq(job.user_id, alice);
    ck_assert_str_eq(job.admin_comment, "a note {\"berth\":1");
    ck_assert_str_eq(job.variables[0], "SPANK_BERTHS=1");
    Job bare;
    ck_assert(passes(guard_submit(*site.watch, bare, alice)));
    ck_assert(passes(guard_submit(*site.watch, bare, bridge)));
}
END_TEST

START_TEST(placeholder_of_the_bridge_goes_to_its_tenant_sealed) {
    const Site site;
    Job job;
    const std::string json = to_json(ticket_for(alice));
    job.user_id = bridge;
    job.ticket(json).variable("SPANK_BERTH=unsealed");
    job.alloc_resp_port = 40000;
    job.other_port = 40001;
    ck_assert(passes(guard_submit(*site.watch, job, bridge)));
    ck_assert_uint_eq(job.alloc_resp_port, 0);
    ck_assert_uint_eq(job.other_port, 40001);
    ck_assert_uint_eq(job.user_id, alice);
    ck_assert_uint_eq(job.group_id, 2001);
    ck_assert_uint_eq(job.spank_job_env_size, 1);
    ck_assert_text(job.spank_job_env[0], "SPANK_BERTH=" + seal(site.key, json));
    ck_assert_text(job.admin_comment, json);
}
END_TEST

START_TEST(every_part_of_a_heterogeneous_job_is_taken_and_sealed) {
    const Site site;
    for (const std::uint32_t part : {0U, 1U, 2U}) {  // slurmctld asks for each, with the parts' common nonce
        Job job;
        const std::string json = to_json(ticket_for(alice));
        job.ticket(json).variable("SPANK_BERTH=unsealed");
        job.het_job_offset = part;
        job.alloc_resp_port = 40000;
        ck_assert(passes(guard_submit(*site.watch, job, bridge)));
        ck_assert_uint_eq(job.alloc_resp_port, 0);
        ck_assert_uint_eq(job.het_job_offset, part);
        ck_assert_text(job.spank_job_env[0], "SPANK_BERTH=" + seal(site.key, json));
    }
}
END_TEST

START_TEST(native_job_keeps_its_port) {
    const Site site;
    Job job;
    job.alloc_resp_port = 40000;
    ck_assert(passes(guard_submit(*site.watch, job, alice)));
    ck_assert_uint_eq(job.alloc_resp_port, 40000);
}
END_TEST

START_TEST(forged_placeholders_are_refused_whoever_asks) {
    const Site site;
    for (const std::uint32_t uid : {alice, operator_uid}) {
        Job comment, blanks, variable, bare_variable;
        ck_assert(!passes(guard_submit(*site.watch, comment.ticket(to_json(ticket_for(alice))), uid)));
        ck_assert(!passes(guard_submit(*site.watch, blanks.ticket(" { \"berth\" : 2 }"), uid)));
        ck_assert(
            !passes(guard_submit(*site.watch, variable.variable("SPANK_OTHER=1").variable("SPANK_BERTH=x"), uid)));
        ck_assert(!passes(guard_submit(*site.watch, bare_variable.variable("SPANK_BERTH"), uid)));
        ck_assert_str_eq(variable.variables[1], "SPANK_BERTH=x");
    }
}
END_TEST

START_TEST(nobody_is_the_bridge_without_rules) {
    const Scratch empty;
    const RulesWatch watch(empty.path("berth.conf"));
    Job job, ordinary;
    job.ticket(to_json(ticket_for(alice))).variable("SPANK_BERTH=unsealed");
    for (const std::uint32_t uid : {bridge, operator_uid, alice})
        ck_assert(!passes(guard_submit(watch, job, uid)));
    ck_assert(passes(guard_submit(watch, ordinary, alice)));
    ordinary.id("12");
    ordinary.num_tasks = 64;
    ck_assert(passes(guard_modify(watch, ordinary, alice, is_operator, -1)));
    ck_assert(!passes(guard_modify(watch, job, operator_uid, is_operator, -1)));
}
END_TEST

START_TEST(a_leader_before_the_newest_submits_nothing) {
    const Site site;
    Terms terms;
    const auto submit = [&](const char *cluster, std::uint64_t term, std::uint32_t user = alice) {
        Ticket ticket = ticket_for(user);
        ticket.cluster = cluster;
        ticket.term = term;
        Job job;
        job.ticket(to_json(ticket)).variable("SPANK_BERTH=unsealed");
        return guard_submit(*site.watch, job, bridge, &terms);
    };
    ck_assert(passes(submit("main", 7)));
    ck_assert(passes(submit("main", 7)));
    ck_assert(passes(submit("main", 9)));
    const Verdict late = submit("main", 7);
    ck_assert_int_eq(late.code, ESLURM_ACCESS_DENIED);
    ck_assert_text(late.message, "berth: this controller led in term 7; since term 9 another leads the cluster main");
    ck_assert(passes(submit("other", 1)));  // each cluster has its own
    ck_assert(passes(submit("main", 0)));   // a controller before there were terms
    // How a new leader tells of itself: refused for its tenant, and heard all the same.
    ck_assert(!passes(submit("main", 12, 0)));
    ck_assert(!passes(submit("main", 9)));
    ck_assert(passes(submit("main", 12)));
    // A stranger's ticket is not heard.
    Job forged;
    Ticket ticket = ticket_for(alice);
    ticket.cluster = "main";
    ticket.term = 99;
    ck_assert(!passes(guard_submit(*site.watch, forged.ticket(to_json(ticket)).variable("SPANK_BERTH=unsealed"), alice, &terms)));
    ck_assert(passes(submit("main", 12)));
}
END_TEST

START_TEST(tenants_outside_the_rules_are_refused) {
    const Site open, closed("AllowUsers=1001\n"), high("MinUid=5000\n");
    ck_assert(passes(submit_for(open, alice)));
    ck_assert(passes(submit_for(open, someone)));
    for (const std::uint32_t uid : {0U, 99U, 999U, NO_VAL, INFINITE})
        ck_assert_msg(!passes(submit_for(open, uid)), "uid %u", uid);
    for (const std::uint32_t gid : {0U, 99U, NO_VAL, INFINITE})
        ck_assert_msg(!passes(submit_for(open, alice, gid)), "gid %u", gid);
    ck_assert(passes(submit_for(closed, alice)));
    ck_assert(!passes(submit_for(closed, bob)));
    ck_assert(!passes(submit_for(high, alice)));
    ck_assert(passes(submit_for(high, 5000)));
}
END_TEST

START_TEST(wrongly_mapped_namespace_is_refused) {
    const Site site("Namespace=ns Users=1001\n"), other("Namespace=team-a Users=1001\n");
    ck_assert(passes(submit_for(site, alice)));
    const Verdict wrong_user = submit_for(site, bob), unlisted = submit_for(other, alice);
    ck_assert_int_eq(wrong_user.code, ESLURM_USER_ID_MISSING);
    ck_assert_msg(wrong_user.message.starts_with("berth: namespace ns must not be uid 1002 in Slurm"), "%s", wrong_user.message.c_str());
    ck_assert_int_eq(unlisted.code, ESLURM_USER_ID_MISSING);
    ck_assert_msg(unlisted.message.starts_with("berth: namespace ns is not in berth.conf"), "%s", unlisted.message.c_str());
    // The rules before it count as ever, and ordinary jobs have no namespace.
    ck_assert(!passes(submit_for(site, alice, 0)));
    Job native;
    ck_assert(passes(guard_submit(*other.watch, native, alice)));
}
END_TEST

START_TEST(placeholder_out_of_shape_is_refused_and_left_alone) {
    const Site site;
    const std::string json = to_json(ticket_for(alice));
    char text[] = "x";
    Job no_ticket, bad_ticket, no_variable, two, scripted, array;
    no_ticket.variable("SPANK_BERTH=x");
    bad_ticket.ticket("{\"berth\":1}").variable("SPANK_BERTH=x");
    no_variable.ticket(json);
    two.ticket(json).variable("SPANK_BERTH=x").variable("SPANK_BERTH=y");
    scripted.ticket(json).variable("SPANK_BERTH=x").script = text;
    array.ticket(json).variable("SPANK_BERTH=x").array_inx = text;
    for (Job *job : {&no_ticket, &bad_ticket, &no_variable, &two, &scripted, &array}) {
        const std::uint32_t before = job->user_id;
        ck_assert(!passes(guard_submit(*site.watch, *job, bridge)));
        ck_assert_uint_eq(job->user_id, before);
        ck_assert(job->variables[0] == nullptr || std::string(job->variables[0]) == "SPANK_BERTH=x");
    }
}
END_TEST

START_TEST(owner_changes_neither_size_nor_identity) {
    const Site site;
    char text[] = "x";
    const std::pair<const char *, std::function<void(Job &)>> changes[] = {
        {"NumTasks", more_tasks},
        {"NumCPUs", [](Job &j) { j.min_cpus = 1; }},
        {"NumCPUs", [](Job &j) { j.max_cpus = 1; }},
        {"CPUsPerTask", [](Job &j) { j.cpus_per_task = 1; }},
        {"MinMemory", [](Job &j) { j.pn_min_memory = 1; }},
        {"NumNodes", [](Job &j) { j.min_nodes = 1; }},
        {"NumNodes", [](Job &j) { j.max_nodes = 1; }},
        {"OverSubscribe", [](Job &j) { j.shared = 1; }},
        {"ReqB:S:C:T", [](Job &j) { j.threads_per_core = 1; }},
        {"NodeList", [&](Job &j) { j.req_nodes = text; }},
        {"ExcNodeList", [&](Job &j) { j.exc_nodes = text; }},
        {"Features", [&](Job &j) { j.features = text; }},
        {"Gres", [&](Job &j) { j.tres_per_node = text; }},
        {"Gres", [&](Job &j) { j.mem_per_tres = text; }},
        {"Licenses", [&](Job &j) { j.licenses = text; }},
        {"Partition", [&](Job &j) { j.partition = text; }},
        {"Account", [&](Job &j) { j.account = text; }},
        {"QOS", [&](Job &j) { j.qos = text; }},
        {"Reservation", [&](Job &j) { j.reservation = text; }},
        {"JobName", [](Job &j) { j.name = slurm_xstrdup("x"); }},
    };
    for (const auto &[what, change] : changes) {
        const Verdict verdict = modify(site, alice, "12", change);
        ck_assert_int_eq(verdict.code, ESLURM_ACCESS_DENIED);
        ck_assert_msg(verdict.message.starts_with("berth: " + std::string(what) + " of job 12 cannot be changed"),
                      "%s: %s", what, verdict.message.c_str());
        ck_assert(!site.rang());
        ck_assert(passes(modify(site, alice, "14", change)));  // an ordinary job of hers
        ck_assert(!site.rang());
        ck_assert(passes(modify(site, operator_uid, "12", change)));
        ck_assert(site.rang());
        ck_assert(passes(modify(site, bridge, "12", change)));
        ck_assert(site.rang());
    }
}
END_TEST

START_TEST(owner_may_change_the_rest_and_the_controller_hears_of_it) {
    const Site site;
    char text[] = "x";
    ck_assert(passes(modify(site, alice, "12", longer)));
    ck_assert(site.rang());
    ck_assert(passes(modify(site, alice, "12", [&](Job &j) { j.comment = text; })));
    ck_assert(passes(modify(site, alice, "12", [](Job &j) { j.priority = 0; })));
    ck_assert(passes(modify(site, alice, "12", [](Job &j) { j.user_id = alice; })));  // as slurmctld fills it in
}
END_TEST

START_TEST(coordinator_of_the_account_is_no_operator) {
    const Site site;
    // Bob is one to Slurm, which lets him change alice's jobs.
    ck_assert(!passes(modify(site, bob, "12", more_tasks)));
    ck_assert(!passes(modify(site, bob, "12,15", more_tasks)));
    ck_assert(!site.rang());
    ck_assert(passes(modify(site, bob, "12", longer)));
    ck_assert(site.rang());
    ck_assert(passes(modify(site, bob, "14", more_tasks)));
    ck_assert(passes(modify(site, carol, "12", more_tasks)));
    ck_assert(site.rang());
    ck_assert(!passes(modify(site, carol, "12", [](Job &j) { j.ticket("note"); })));
}
END_TEST

START_TEST(placeholders_are_found_in_every_form_of_job_id) {
    const Site site;
    // The last two as slurmctld's own strtol() and its cast to 32 bits understand them.
    for (const char *id : {"12", "12,14", "14,12", "12_3", "12_[1-4],14", "14_[1-4],12", "14_[1,3-4%2],12_7", "12+0",
                           "12+1", "12+*", "12+", "11+1", "10+2", "14,11+1", "12+4294967295", "012+01",
                           "012", " 12", "+12", "\t12", "4294967308"})
        ck_assert_msg(!passes(modify(site, alice, id, more_tasks)), "%s", id);
    for (const char *id : {"14", "14_12", "14_[12]", "14_[1,12]", "14+12", "14+0", "14+*", "112", "120", "", ",", "x12", "-1",
                           "99999999999999999999"})
        ck_assert_msg(passes(modify(site, alice, id, more_tasks)), "%s", id);
    ck_assert(!passes(modify(site, bob, "12,15", more_tasks)));
    ck_assert(!passes(modify(site, bob, "12+3", more_tasks)));    // 15 is his
    ck_assert(!passes(modify(site, alice, "12+3", more_tasks)));  // whatever 15 is: a part of 12 is hers
    Job none;
    none.num_tasks = 64;
    ck_assert(passes(guard_modify(*site.watch, none, alice, is_operator, site.notify_fd)));
}
END_TEST

START_TEST(sluid_is_no_way_around) {
    const Site site;
    ck_assert(!passes(modify(site, alice, "s3F8QZ0K1M2N3P", more_tasks)));
    ck_assert(passes(modify(site, alice, "s3F8QZ0K1M2N3P", longer)));
    ck_assert(passes(modify(site, operator_uid, "s3F8QZ0K1M2N3P", more_tasks)));
    ck_assert(passes(modify(site, carol, "s3F8QZ0K1M2N3P", more_tasks)));
    ck_assert(passes(modify(site, bridge, "s3F8QZ0K1M2N3P", more_tasks)));
    ck_assert(!passes(modify(site, operator_uid, "s3F8QZ0K1M2N3P", [](Job &j) { j.ticket("note"); })));
}
END_TEST

START_TEST(tickets_are_written_and_overwritten_by_the_bridge_alone) {
    const Site site;
    const auto forge = [](Job &j) { j.ticket(to_json(ticket_for(alice))); };
    const auto variable = [](Job &j) { j.variable("SPANK_BERTH=x"); };
    const auto note = [](Job &j) { j.ticket("drained on Monday"); };
    for (const std::uint32_t uid : {alice, operator_uid}) {
        ck_assert(!passes(modify(site, uid, "14", forge)));
        ck_assert(!passes(modify(site, uid, "14", variable)));
        ck_assert(!passes(modify(site, uid, "12", note)));
    }
    ck_assert(passes(modify(site, operator_uid, "14", note)));
    ck_assert(passes(modify(site, bridge, "12", forge)));
}
END_TEST

START_TEST(absent_or_deaf_controller_delays_nothing) {
    const Site site;
    for (int i = 0; i < 2000; ++i)  // far more than the socket's queue holds
        ck_assert(passes(modify(site, alice, "12", longer)));
    ck_assert(site.rang());
    unlink(site.path("notify").c_str());
    ck_assert(passes(modify(site, alice, "12", longer)));
    Job job;
    longer(job.id("12"));
    ck_assert(passes(guard_modify(*site.watch, job, alice, is_operator, -1)));
}
END_TEST

int main() {
    return test::run_suite(
        "guard", {ordinary_job_passes_untouched, placeholder_of_the_bridge_goes_to_its_tenant_sealed,
                  every_part_of_a_heterogeneous_job_is_taken_and_sealed, native_job_keeps_its_port,
                  forged_placeholders_are_refused_whoever_asks, nobody_is_the_bridge_without_rules,
                  a_leader_before_the_newest_submits_nothing,
                  tenants_outside_the_rules_are_refused, wrongly_mapped_namespace_is_refused, placeholder_out_of_shape_is_refused_and_left_alone,
                  owner_changes_neither_size_nor_identity, owner_may_change_the_rest_and_the_controller_hears_of_it,
                  coordinator_of_the_account_is_no_operator,
                  placeholders_are_found_in_every_form_of_job_id, sluid_is_no_way_around,
                  tickets_are_written_and_overwritten_by_the_bridge_alone, absent_or_deaf_controller_delays_nothing});
}
