#include "agent/cluster.h"

#include <cstdlib>

namespace berth {

namespace {

std::string environment(const char *name) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : "";
}

}  // namespace

Result<std::unique_ptr<kube::Http>> connect(Loop &loop, const ClusterConfig &cluster) {
    auto credentials = cluster.kubeconfig.empty()
                           ? kube::load_in_cluster("/var/run/secrets/kubernetes.io/serviceaccount",
                                                   environment("KUBERNETES_SERVICE_HOST"), environment("KUBERNETES_SERVICE_PORT"))
                           : kube::load_kubeconfig(cluster.kubeconfig, cluster.context);
    if (!credentials)
        return Error{credentials.error()};
    return kube::Http::create(loop, std::move(*credentials), {});
}

}  // namespace berth
