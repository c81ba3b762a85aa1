#include "agent/tool/status.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "agent/kube/discovery.h"
#include "agent/tool/overview.h"

namespace berth::tool {

namespace {

Result<std::vector<kube::Pod>> load_pods(KubeSession &api, const std::string &ns, const std::string &scheduler) {
    return list_all<kube::Pod>(api, kube::resource_path("v1", "pods", ns) + "?fieldSelector=" + kube::url_escape("spec.schedulerName=" + scheduler),
                               "pods");
}

}  // namespace

int status(const AccessOptions &options, const std::string &ns, std::FILE *out, std::FILE *err) {
    const auto access = open_access(options);
    if (!access)
        return complain(err, access.error());
    Progress progress(err);
    progress.say("asking slurmctld for nodes and jobs");
    start_slurm();
    const auto slurm_nodes = slurm::load_queue_nodes();
    if (!slurm_nodes)
        return complain(err, slurm_nodes.error());
    const auto queue = slurm::load_queue();
    if (!queue)
        return complain(err, queue.error());

    progress.say("asking the API server for nodes and pods");
    // Whoever may see less of Kubernetes gets Slurm's half and is told what is missing.
    std::vector<std::string> notes;
    std::vector<kube::Node> kube_nodes;
    std::vector<kube::Pod> pods;
    bool nodes_known = false, pods_known = false;
    if (auto api = access->kubernetes(); !api) {
        notes.push_back(fmt::format("Kubernetes was not asked: {}", api.error()));
    } else {
        auto nodes = load_kube_nodes(**api);
        if ((nodes_known = nodes.ok()))
            kube_nodes = std::move(*nodes);
        else
            notes.push_back(fmt::format("the Kubernetes nodes are not shown: {}", nodes.error()));
        auto found = load_pods(**api, ns, access->scheduler());
        if ((pods_known = found.ok()))
            pods = std::move(*found);
        else
            notes.push_back(fmt::format("pods are not counted: {}{}", found.error(), ns.empty() ? "; name a namespace with -n" : ""));
    }
    Overview overview = make_overview(pair_nodes(*slurm_nodes, kube_nodes, access->node_map()), *queue, pods, access->cluster(), ns);
    overview.kube_nodes_known = nodes_known;
    overview.pods_known = pods_known;
    overview.notes = std::move(notes);
    progress.clear();
    fmt::print(out, "{}", options.json ? to_json(overview) + "\n" : to_text(overview, std::time(nullptr), options.paint));
    return 0;
}

}  // namespace berth::tool
