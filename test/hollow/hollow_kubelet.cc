// hollow_kubelet: plays the kubelets of any number of Kubernetes nodes, for tests. It registers the nodes, takes the pods that
// are bound to them, and lets each live as its annotations say (pod_spec.h), as one real process in a pod<uid> cgroup.
// Pods outlive it; started again it takes them over.
#include <fmt/core.h>
#include <getopt.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "agent/kube/credentials.h"
#include "agent/kube/http.h"
#include "agent/log.h"
#include "agent/loop.h"
#include "test/hollow/kubelet.h"
#include "test/hollow/nodes.h"
#include "test/hollow/pod_feed.h"

namespace {

using namespace berth;
using namespace berth::hollow;

constexpr const char *usage =
    "usage: hollow_kubelet --kubeconfig FILE --nodes n[1-3] --state DIR [--cpus N] [--memory QUANTITY] [--gpus N]\n"
    "                      [--cgroup-root /ROOT/%n] [--cgroup-mount DIR]\n";

struct Options {
    std::string kubeconfig, nodes, state, cgroup_root = "/hollow/%n", cgroup_mount = "/sys/fs/cgroup";
    Capacity each{8000, 16LL << 30, 0};
};

bool parse(int argc, char **argv, Options &o) {
    const option known[] = {{"kubeconfig", 1, nullptr, 'k'}, {"nodes", 1, nullptr, 'n'},       {"state", 1, nullptr, 's'},
                            {"cpus", 1, nullptr, 'c'},       {"memory", 1, nullptr, 'm'},      {"gpus", 1, nullptr, 'g'},
                            {"cgroup-root", 1, nullptr, 'r'}, {"cgroup-mount", 1, nullptr, 't'}, {nullptr, 0, nullptr, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
        switch (c) {
        case 'k': o.kubeconfig = optarg; break;
        case 'n': o.nodes = optarg; break;
        case 's': o.state = optarg; break;
        case 'c': o.each.cpu_milli = parse_quantity(optarg, true); break;
        case 'm': o.each.memory_bytes = parse_quantity(optarg, false); break;
        case 'g': o.each.gpus = parse_quantity(optarg, false); break;
        case 'r': o.cgroup_root = optarg; break;
        case 't': o.cgroup_mount = optarg; break;
        default: return false;
        }
    }
    return optind == argc && !o.kubeconfig.empty() && !o.nodes.empty() && !o.state.empty();
}

int complain(const std::string &what) {
    std::fprintf(stderr, "hollow_kubelet: %s\n", what.c_str());
    return EXIT_FAILURE;
}

// A descriptor is open for each living pod.
void allow_many_files() {
    rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        std::fputs(usage, stderr);
        return EXIT_FAILURE;
    }
    auto names = expand_names(options.nodes);
    if (!names)
        return complain(names.error());
    auto credentials = kube::load_kubeconfig(options.kubeconfig);
    if (!credentials)
        return complain(credentials.error());
    std::error_code error;
    std::filesystem::create_directories(options.state, error);
    Places places = Places::find(options.cgroup_mount, options.cgroup_root, options.state);
    if (places.hierarchies.empty())
        return complain("no cgroups under " + options.cgroup_mount);
    allow_many_files();

    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    log::start(log::Level::info, "hollow-kubelet");
    int status;
    {
        Loop loop;
        SourcePtr term = loop.on_signal(SIGTERM, [&] { loop.quit(); });
        SourcePtr interrupt = loop.on_signal(SIGINT, [&] { loop.quit(); });
        kube::Http::Options http_options;
        http_options.user_agent = "hollow-kubelet";
        auto http = kube::Http::create(loop, std::move(*credentials), http_options);
        Nodes nodes(loop, *http, std::move(*names), options.each);
        Kubelet kubelet(loop, *http, nodes, places);
        PodFeed feed(loop, *http,
                     {[&](PodSpec &&pod) { kubelet.changed(std::move(pod)); },
                      [&](const std::string &uid) { kubelet.removed(uid); },
                      [&](const std::unordered_set<std::string> &uids) { kubelet.synced(uids); }});
        nodes.start();
        feed.start();
        status = loop.run();
    }
    log::stop();
    return status;
}
