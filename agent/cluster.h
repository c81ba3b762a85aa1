// connect(): the way to one configured Kubernetes cluster, by its kubeconfig or as the pod that we run in.
#pragma once

#include <memory>

#include "agent/config.h"
#include "agent/kube/http.h"
#include "agent/kube/kubeconfig.h"
#include "agent/loop.h"

namespace berth {

Result<std::unique_ptr<kube::Http>> connect(Loop &loop, const ClusterConfig &cluster, const kube::FileCheck &check = {},
                                            kube::Http::Options options = {});

// For daemons: believes files and credential programs only where nobody else can have changed them (proto/trusted_path.h). What the kubelet
// mounts into a pod is as it should be, but readable by everybody there.
Result<void> only_trusted(const std::string &path, bool secret);

}  // namespace berth
