#include "agent/tool/dry_run.h"

#include <fmt/format.h>
#include <grp.h>
#include <unistd.h>

#include <ctime>
#include <iostream>
#include <iterator>

#include "agent/slurm/queue.h"
#include "agent/tool/forecast.h"
#include "agent/tool/manifest.h"
#include "agent/tool/node_pairs.h"
#include "agent/yaml.h"

namespace berth::tool {

namespace {

constexpr std::size_t largest_file = 4 << 20;
constexpr std::uint32_t most_copies = 20'000;

Result<std::string> read_input(const std::string &file) {
    if (file != "-")
        return yaml::read_file(file, largest_file);
    return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

std::string group_name(std::uint32_t gid) {
    char room[8192];
    group entry{}, *found = nullptr;
    return getgrgid_r(gid, &entry, room, sizeof room, &found) == 0 && found != nullptr ? found->gr_name : std::to_string(gid);
}

// Without the site's mapping a person can still ask in their own name.
Config own_config() {
    Config config;
    config.clusters.emplace_back();
    TenantConfig self;
    self.ns = "*";
    self.user = std::to_string(geteuid());
    config.tenants.push_back(std::move(self));
    return config;
}

class DryRunner {
  public:
    DryRunner(const Access &access, Manifest manifest) : access_(access), manifest_(std::move(manifest)) {}

    DryRun run(const std::string &file) {
        run_.workload = fmt::format("{} {}/{}", manifest_.kind, manifest_.ns, manifest_.name);
        run_.file = file;
        run_.now = std::time(nullptr);
        run_.scheduler = manifest_.pod.scheduler_name;
        run_.berth_scheduler = access_.scheduler();
        run_.notes = manifest_.notes;
        const Config config = access_.site() != nullptr ? *access_.site() : own_config();
        if (access_.site() == nullptr && geteuid() != 0)
            run_.notes.push_back(fmt::format("The site's tenants are not known here ({}): asked in your own name, with Slurm's defaults.",
                                             access_.config_problem));
        if (access_.site() == nullptr && geteuid() == 0) {
            run_.refused = "who its namespace is in Slurm is not known here, and root is nobody's tenant; name berth.yaml with --config";
            return std::move(run_);
        }
        const auto membership = group_of(manifest_.pod, manifest_.chain, config);
        if (!membership) {
            run_.refused = membership.error();
            return std::move(run_);
        }
        translate_and_ask(*membership, config);
        return std::move(run_);
    }

  private:
    void translate_and_ask(const Membership &membership, const Config &config) {
        run_.pods = membership.gang ? membership.size : 1;
        if (run_.pods > most_copies) {
            run_.refused = fmt::format("a gang of {} pods is too large", run_.pods);
            return;
        }
        std::vector<kube::Pod> copies(run_.pods, manifest_.pod);
        std::vector<const kube::Pod *> members;
        for (std::size_t i = 0; i < copies.size(); ++i) {
            copies[i].uid += "-" + std::to_string(i);
            members.push_back(&copies[i]);
        }
        const auto slurm_nodes = slurm::load_queue_nodes();
        const auto queue = slurm::load_queue();
        const std::vector<SiteNode> nodes = slurm_nodes ? known_nodes(*slurm_nodes) : std::vector<SiteNode>();
        const auto jobs_of = [&queue](const std::string &ns, const std::string &kind,
                                      const std::string &name) -> Result<std::vector<std::uint32_t>> {
            std::vector<std::uint32_t> ids;
            if (queue)
                for (const slurm::QueuedJob &job : *queue)
                    if (job.ticket && job.ticket->ns == ns && job.ticket->kind == kind && job.ticket->name == name && job.lives())
                        ids.push_back(job.id);
            if (ids.empty())
                return Error{fmt::format("{} {}/{} has no Slurm job that lives", kind, ns, name)};
            return ids;
        };
        auto shapes = translate(membership, members, Site{config, system_identities(), nodes, jobs_of, run_.now});
        if (!shapes) {
            run_.refused = shapes.error();
            return;
        }
        if (shapes->size() > 1)
            run_.notes.emplace_back("Pods of several shapes start together; Slurm was asked for each shape alone.");
        for (const Shape &shape : *shapes)
            ask(shape);
    }

    // Labels and taints decide where a pod may be. Who may not read nodes gets an answer without them.
    std::vector<SiteNode> known_nodes(const std::vector<slurm::QueueNode> &slurm_nodes) {
        auto api = access_.kubernetes();
        auto nodes = api ? load_kube_nodes(**api) : Result<std::vector<kube::Node>>(Error{api.error()});
        if (!nodes) {
            run_.notes.push_back(fmt::format("Labels and taints of the Kubernetes nodes are not taken into account: {}.", nodes.error()));
            return {};
        }
        return site_nodes(pair_nodes(slurm_nodes, *nodes, access_.node_map()));
    }

    void ask(const Shape &shape) {
        ForecastPart part;
        part.asked = shape.placeholder;
        part.user = user_name(part.asked.uid);
        part.group = group_name(part.asked.gid);
        run_.notes.insert(run_.notes.end(), shape.notes.begin(), shape.notes.end());
        Placeholder question = part.asked;
        if (!slurm::may_ask_for_others() && question.uid != geteuid()) {
            // What the other user may choose says nothing about this one.
            question.account.clear();
            question.qos.clear();
            question.reservation.clear();
            question.wckey.clear();
            question.priority.reset();
            question.nice.reset();
        }
        if (!slurm::may_ask_for_others()) {
            question.uid = geteuid();
            question.gid = getegid();
        }
        run_.asked_as = user_name(question.uid);
        if (question.uid != part.asked.uid && run_.parts.empty())
            run_.notes.push_back(
                fmt::format("Slurm was asked as {}, not as {}: only SlurmUser and root may ask for others. Priority and limits may differ.",
                            run_.asked_as, part.user));
        auto answer = slurm::will_run(question);
        if (answer)
            part.answer = std::move(*answer);
        else
            part.problem = answer.error();
        run_.parts.push_back(std::move(part));
    }

    const Access &access_;
    const Manifest manifest_;
    DryRun run_;
};

}  // namespace

int dry_run(const AccessOptions &options, const std::string &file, std::FILE *out, std::FILE *err) {
    const auto access = open_access(options);
    if (!access)
        return complain(err, access.error());
    const auto text = read_input(file);
    if (!text)
        return complain(err, text.error());
    auto manifest = read_manifest(*text, file == "-" ? "standard input" : file, options.ns);
    if (!manifest)
        return complain(err, manifest.error());
    Progress progress(err);
    progress.say("asking slurmctld and the API server");
    start_slurm();
    const DryRun run = DryRunner(*access, std::move(*manifest)).run(file);
    progress.clear();
    fmt::print(out, "{}", options.json ? to_json(run).text() + "\n" : to_text(run, options.paint));
    return outlook(run).good() ? 0 : 1;
}

}  // namespace berth::tool
