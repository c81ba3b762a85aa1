#include "jobsubmit/guard.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "proto/seal.h"
#include "proto/ticket.h"

namespace berth {

namespace {

bool is_ticket_variable(const char *entry) {
    const std::string_view text = entry != nullptr ? entry : "";
    return text.starts_with(ticket_variable) &&
           (text.size() == ticket_variable.size() || text[ticket_variable.size()] == '=');
}

bool claims_to_be_placeholder(const job_desc_msg_t &job) {
    if (job.admin_comment != nullptr && looks_like_ticket(job.admin_comment))
        return true;
    for (std::uint32_t i = 0; job.spank_job_env != nullptr && i < job.spank_job_env_size; ++i)
        if (is_ticket_variable(job.spank_job_env[i]))
            return true;
    return false;
}

Verdict refuse(int code, std::string message) { return {code, "berth: " + std::move(message)}; }

Verdict not_the_bridge(const Rules *rules) {
    if (rules == nullptr)
        return refuse(ESLURM_ACCESS_DENIED,
                      "berth.conf is missing or wrong, so no placeholder is accepted; see slurmctld's log");
    return refuse(ESLURM_ACCESS_DENIED, "placeholders for pods come from the bridge (" + rules->bridge_user +
                                            ") alone; create the pod in Kubernetes instead");
}

// All job ids in "12", "12,14", "12_3", "12_[1-4],15", read as slurmctld reads them: blanks and a sign in front, and what is too
// large for an id cut to 32 bits. "12+1" is a part of the heterogeneous job 12, with an id of its own that normally is
// the sum: both count, for all parts are placeholders of one tenant or none is. So "12+*" is guarded by the first part's id.
std::vector<std::uint32_t> job_ids(const char *text) {
    std::vector<std::uint32_t> ids;
    int depth = 0;
    bool at_start = true;
    for (const char *p = text; *p != '\0'; ++p) {
        if (at_start && depth == 0) {
            char *end = nullptr;
            const long id = std::strtol(p, &end, 10);
            if (end != p)
                ids.push_back(static_cast<std::uint32_t>(id));
            if (end != p && *end == '+')
                if (const long part = std::strtol(end + 1, nullptr, 10); part > 0)
                    ids.push_back(static_cast<std::uint32_t>(id) + static_cast<std::uint32_t>(part));
        }
        at_start = *p == ',';
        depth += (*p == '[') - (*p == ']');
    }
    return ids;
}

// From 25.11 a job may also be named by its SLUID, "s" and letters, of which a plugin learns no more than that.
bool is_sluid(const char *text) { return text[0] == 's'; }

// The first thing in the change that would alter what a placeholder is, nullptr when there is none.
const char *identity_or_size(const job_desc_msg_t &c) {
    const struct {
        bool changed;
        const char *what;
    } checks[] = {
        {c.num_tasks != NO_VAL, "NumTasks"},
        {c.min_cpus != NO_VAL || c.max_cpus != NO_VAL, "NumCPUs"},
        {c.cpus_per_task != NO_VAL16, "CPUsPerTask"},
        {c.pn_min_cpus != NO_VAL16, "MinCPUsNode"},
        {c.core_spec != NO_VAL16, "CoreSpec"},
        {c.sockets_per_node != NO_VAL16 || c.cores_per_socket != NO_VAL16 || c.threads_per_core != NO_VAL16,
         "ReqB:S:C:T"},
        {c.pn_min_tmp_disk != NO_VAL, "MinTmpDiskNode"},
        {c.pn_min_memory != NO_VAL64, "MinMemory"},
        {c.min_nodes != NO_VAL || c.max_nodes != NO_VAL, "NumNodes"},
        {c.ntasks_per_node != NO_VAL16 || c.ntasks_per_socket != NO_VAL16 || c.ntasks_per_core != NO_VAL16 ||
             c.ntasks_per_tres != NO_VAL16,
         "NtasksPerN:B:S:C"},
        {c.shared != NO_VAL16, "OverSubscribe"},
        {c.req_nodes != nullptr, "NodeList"},
        {c.exc_nodes != nullptr, "ExcNodeList"},
        {c.features != nullptr || c.cluster_features != nullptr, "Features"},
        {c.tres_per_job != nullptr || c.tres_per_node != nullptr || c.tres_per_socket != nullptr ||
             c.tres_per_task != nullptr || c.cpus_per_tres != nullptr || c.mem_per_tres != nullptr,
         "Gres"},
        {c.licenses != nullptr, "Licenses"},
        {c.partition != nullptr, "Partition"},
        {c.account != nullptr, "Account"},
        {c.qos != nullptr, "QOS"},
        {c.reservation != nullptr, "Reservation"},
        {c.name != nullptr, "JobName"},
    };
    for (const auto &check : checks)
        if (check.changed)
            return check.what;
    return nullptr;
}

void ring(const Rules &rules, int notify_fd) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    if (notify_fd < 0 || rules.notify_socket.size() >= sizeof to.sun_path)
        return;
    rules.notify_socket.copy(to.sun_path, sizeof to.sun_path - 1);
    static constexpr char look = '!';
    sendto(notify_fd, &look, sizeof look, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr *>(&to),
           sizeof to);
}

}  // namespace

Verdict guard_submit(const RulesWatch &watch, job_desc_msg_t &job, std::uint32_t submit_uid, Terms *terms) {
    if (!claims_to_be_placeholder(job))
        return {};
    const auto rules = watch.current();
    if (!rules || submit_uid != rules->bridge_uid)
        return not_the_bridge(rules.get());
    std::string why;
    const auto ticket = parse_ticket(job.admin_comment != nullptr ? job.admin_comment : "", why);
    if (!ticket)
        return refuse(ESLURM_NOT_SUPPORTED, why);
    // Before all else, so that a new leader can tell its term by a ticket that nothing comes of: see slurm::announce_term().
    if (const std::uint64_t newer = terms != nullptr ? terms->newer_than(ticket->cluster, ticket->term) : 0; newer != 0)
        return refuse(ESLURM_ACCESS_DENIED, "this controller led in term " + std::to_string(ticket->term) + "; since term " +
                                                std::to_string(newer) + " another leads the cluster " + ticket->cluster);
    if (!may_be_tenant(*rules, ticket->user, ticket->group, why) || !may_be_user_of(*rules, ticket->ns, ticket->user, why))
        return refuse(ESLURM_USER_ID_MISSING, why);
    if (job.script != nullptr || job.array_inx != nullptr || job.spank_job_env == nullptr ||
        job.spank_job_env_size != 1 || !is_ticket_variable(job.spank_job_env[0]))
        return refuse(ESLURM_NOT_SUPPORTED, "a placeholder has no script, is no array and carries its ticket once");
    const std::string sealed = seal(rules->key, job.admin_comment);
    job.user_id = ticket->user;
    job.group_id = ticket->group;
    // slurmctld tells a client on this port that the job starts, and kills the job when none is there. A placeholder's client never waits;
    // libslurm's call for heterogeneous jobs sets the port all the same.
    job.alloc_resp_port = 0;
    slurm_xfree(reinterpret_cast<void **>(&job.spank_job_env[0]));
    job.spank_job_env[0] = slurm_xstrdup((std::string(ticket_variable) + "=" + sealed).c_str());
    return {};
}

Verdict guard_modify(const RulesWatch &watch, const job_desc_msg_t &change, std::uint32_t submit_uid, IsOperator is_operator, int notify_fd) {
    const auto rules = watch.current();
    const bool bridge = rules && submit_uid == rules->bridge_uid;
    const auto may_alter = [&] { return submit_uid == 0 || is_operator(submit_uid); };
    if (claims_to_be_placeholder(change) && !bridge)
        return not_the_bridge(rules.get());
    if (!rules || change.job_id_str == nullptr)
        return {};
    const char *const what = identity_or_size(change);
    if (is_sluid(change.job_id_str) && !bridge &&
        (change.admin_comment != nullptr || (what != nullptr && !may_alter())))
        return refuse(ESLURM_ACCESS_DENIED,
                      std::string(what != nullptr ? what : "AdminComment") +
                          " can be changed only by the job's number: a SLUID does not say whether "
                          "the job holds the place of a Kubernetes pod");
    const auto table = watch.table();
    if (!table)
        return {};
    bool placeholder = false;
    for (const std::uint32_t job : job_ids(change.job_id_str)) {
        if (table->owner_of(job) == 0)
            continue;
        placeholder = true;
        if (bridge)
            continue;
        if (change.admin_comment != nullptr)
            return refuse(ESLURM_ACCESS_DENIED,
                          "AdminComment of job " + std::to_string(job) +
                              " cannot be changed: it says for which Kubernetes pod the job holds a "
                              "place; use Comment instead");
        if (what != nullptr && !may_alter())
            return refuse(ESLURM_ACCESS_DENIED,
                          std::string(what) + " of job " + std::to_string(job) +
                              " cannot be changed: it holds the place of a Kubernetes pod; change the pod "
                              "instead, or ask an operator");
    }
    if (placeholder)
        ring(*rules, notify_fd);
    return {};
}

}  // namespace berth
