// connect(): the way to one configured Kubernetes cluster, by its kubeconfig or as the pod that we run in.
#pragma once

#include <memory>

#include "agent/config.h"
#include "agent/kube/http.h"
#include "agent/loop.h"

namespace berth {

Result<std::unique_ptr<kube::Http>> connect(Loop &loop, const ClusterConfig &cluster);

}  // namespace berth
