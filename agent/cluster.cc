#include "agent/cluster.h"

#include <cstdlib>

#include "proto/trusted_path.h"

namespace berth {

namespace {

std::string environment(const char *name) {
    const char *value = std::getenv(name);
    return value != nullptr ? value : "";
}

}  // namespace

Result<std::unique_ptr<kube::Http>> connect(Loop &loop, const ClusterConfig &cluster, const kube::FileCheck &check,
                                            kube::Http::Options options) {
    auto credentials = cluster.kubeconfig.empty()
                           ? kube::load_in_cluster("/var/run/secrets/kubernetes.io/serviceaccount",
                                                   environment("KUBERNETES_SERVICE_HOST"), environment("KUBERNETES_SERVICE_PORT"))
                           : kube::load_kubeconfig(cluster.kubeconfig, cluster.context, check);
    if (!credentials)
        return Error{credentials.error()};
    return kube::Http::create(loop, std::move(*credentials), std::move(options));
}

Result<void> only_trusted(const std::string &path, bool secret) {
    std::string why;
    if (trusted_file(path, secret && !path.starts_with("/var/run/secrets/kubernetes.io/"), why))
        return {};
    return Error{why};
}

}  // namespace berth
