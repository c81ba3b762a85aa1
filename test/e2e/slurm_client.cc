// slurm_client: the calls of agent/slurm/client.h one by one, for tests that need no controller.
//
//     slurm_client submit < REQUEST       prints the Submission; both as in agent/slurm/request.h
//     slurm_client load JOB               prints what it knows of the job, a line for each member
//     slurm_client complete JOB UID WAIT-STATUS
//     slurm_client cancel JOB UID
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "agent/slurm/client.h"
#include "agent/slurm/het_submit.h"
#include "agent/slurm/request.h"

using namespace berth;

namespace {

std::uint32_t number(const char *text) { return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10)); }

int failed(const std::string &why) {
    fmt::print(stderr, "slurm_client: {}\n", why);
    return 1;
}

int submit() {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    const auto request = slurm::parse_request(text);
    if (!request)
        return failed(request.error());
    std::vector<Ticket> tickets;
    for (const std::string &ticket : request->tickets) {
        std::string why;
        const auto parsed = parse_ticket(ticket, why);
        if (!parsed)
            return failed(why);
        tickets.push_back(*parsed);
    }
    fmt::print("{}\n", slurm::to_text(slurm::submit(request->parts, tickets, request->doorbell_port)));
    return 0;
}

int load(std::uint32_t id) {
    const auto found = slurm::load(id);
    if (!found)
        return failed(found.error());
    if (!*found)
        return failed("no such placeholder");
    const slurm::Job &job = **found;
    fmt::print("state={}\ncompleting={}\nnodes={}\ntasks={}\ncpus={}\ncpus_by_node={}\nmemory_per_node={}\nmemory_per_cpu={}\n"
               "gres_by_node={}\nhet_leader={}\nreason={}\nnonce={}\n",
               job.state_name, job.completing, fmt::join(slurm::expand_hosts(job.nodes), ","), job.tasks, job.cpus,
               fmt::join(job.cpus_by_node, ","), job.memory_mib_per_node, job.memory_mib_per_cpu, fmt::join(job.gres_by_node, ";"),
               job.het_leader, job.reason, job.ticket.nonce);
    return 0;
}

int ended(const Result<void> &result) { return result ? 0 : failed(result.error()); }

}  // namespace

int main(int argc, char **argv) {
    if (argc == 3 && argv[1] == slurm::submit_het_argument)
        return slurm::submit_het_child(argv[2]);
    const std::string_view verb = argc > 1 ? argv[1] : "";
    slurm::start();
    if (verb == "submit" && argc == 2)
        return submit();
    if (verb == "load" && argc == 3)
        return load(number(argv[2]));
    if (verb == "complete" && argc == 5)
        return ended(slurm::complete(number(argv[2]), argv[3], number(argv[4])));
    if (verb == "cancel" && argc == 4)
        return ended(slurm::cancel(number(argv[2]), argv[3]));
    fmt::print(stderr, "usage: slurm_client submit | load JOB | complete JOB UID WAIT-STATUS | cancel JOB UID\n");
    return 2;
}
