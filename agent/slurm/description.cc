#include "agent/slurm/description.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "proto/ticket.h"

namespace berth::slurm {

namespace {

char *text(std::string &s) { return s.empty() ? nullptr : s.data(); }

std::uint32_t clipped(std::uint64_t number) { return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, NO_VAL - 1)); }

}  // namespace

Description::Description(const Placeholder &placeholder, std::string ticket, std::uint16_t doorbell_port)
    : placeholder_(placeholder), ticket_(std::move(ticket)), variable_(std::string(ticket_variable) + "=unsealed") {
    Placeholder &p = placeholder_;
    job_desc_msg_t &d = message_;
    slurm_init_job_desc_msg(&d);
    gethostname(host_, sizeof host_ - 1);
    variables_[0] = variable_.data();

    d.name = text(p.job_name);
    d.comment = text(p.comment);
    d.admin_comment = text(ticket_);
    d.spank_job_env = variables_;
    d.spank_job_env_size = 1;
    d.user_id = p.uid;
    d.group_id = p.gid;
    d.account = text(p.account);
    d.partition = text(p.partition);
    d.qos = text(p.qos);
    d.reservation = text(p.reservation);
    d.wckey = text(p.wckey);
    d.features = text(p.constraints);
    d.prefer = text(p.prefer);
    d.exc_nodes = text(p.excluded_nodes);
    d.licenses = text(p.licenses);
    d.dependency = text(p.dependency);
    if (p.begin != 0)
        d.begin_time = p.begin;
    if (p.deadline != 0)
        d.deadline = p.deadline;
    if (p.time_limit_minutes != 0)
        d.time_limit = p.time_limit_minutes;
    if (p.priority)
        d.priority = *p.priority;
    if (p.nice)
        d.nice = static_cast<std::uint32_t>(NICE_OFFSET + *p.nice);
    if (p.switches != 0) {
        d.req_switch = p.switches;
        if (p.switches_wait_seconds != 0)
            d.wait4switch = p.switches_wait_seconds;
    }
    ask_for_room();
    ask_for_memory();

    d.requeue = 0;
    d.kill_on_node_fail = 1;
    d.alloc_node = host_;
    d.alloc_sid = static_cast<std::uint32_t>(getsid(0));
    d.alloc_resp_port = 0;
    d.other_port = doorbell_port;
    d.work_dir = work_dir_;
}

void Description::ask_for_room() {
    const Placeholder &p = placeholder_;
    job_desc_msg_t &d = message_;
    const bool gang = p.tasks > 1;
    d.num_tasks = p.tasks;
    d.cpus_per_task = p.cpus_per_task;
    d.min_cpus = clipped(std::uint64_t{p.tasks} * p.cpus_per_task);
    d.min_nodes = std::max<std::uint32_t>(p.min_nodes, 1);
    // A bound is also a wish: given a range, Slurm takes as many nodes as the upper end allows. Without one it takes what the tasks need.
    if (p.max_nodes != 0)
        d.max_nodes = p.max_nodes;
    // Slurm gives each node but the last exactly so many, and the last one room for as many.
    if (gang && p.tasks_per_node != 0)
        d.ntasks_per_node = static_cast<std::uint16_t>(std::min<std::uint32_t>(p.tasks_per_node, p.tasks));
    for (const auto &[name, count] : p.gres)
        gres_ += fmt::format("{}{}{}:{}", gres_.empty() ? "" : ",", slurm_api::gres_prefix, name, count);
    (gang ? d.tres_per_task : d.tres_per_node) = text(gres_);
    // A filter on nodes: Slurm allots no disk.
    if (p.tmp_disk_mib != 0)
        d.pn_min_tmp_disk = clipped(p.tmp_disk_mib * (d.ntasks_per_node == NO_VAL16 ? 1 : d.ntasks_per_node));
    if (p.exclusive)
        d.shared = 0;
    if (p.spread)
        d.bitflags |= SPREAD_JOB;
    if (p.pack)
        d.bitflags |= USE_MIN_NODES;
}

// Slurm 22.05 has no memory per task. Per CPU serves a gang: a node's memory follows its CPUs, and those are at least tasks x CPUs per
// task, for whole cores only round them up; so whatever fits there by CPUs fits by memory. (The price: with hyperthreads an odd
// task takes the memory of the other thread, too.)
// For whole nodes it does not: Slurm multiplies by all CPUs of the node and calls 4 pods of 1 CPU and 4 GB impossible on a node of 8 CPUs
// and 16 GB; and "all of the node's memory" would let it put 12 such pods on two nodes, by CPUs alone. There a fixed number of pods per
// node and the memory for them is what Slurm understands.
void Description::ask_for_memory() {
    const Placeholder &p = placeholder_;
    job_desc_msg_t &d = message_;
    if (p.tasks <= 1)
        d.pn_min_memory = p.memory_mib;
    else if (p.exclusive && p.tasks_per_node != 0)
        d.pn_min_memory = p.memory_mib * d.ntasks_per_node;
    else
        d.pn_min_memory = MEM_PER_CPU | ((p.memory_mib + p.cpus_per_task - 1) / std::max<std::uint16_t>(p.cpus_per_task, 1));
}

}  // namespace berth::slurm
