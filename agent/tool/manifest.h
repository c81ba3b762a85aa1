// Manifest: a YAML file as `kubectl apply` takes it, read as the API would give it back: the first workload in it, with its defaults filled
// in. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/pod.h"
#include "agent/result.h"
#include "agent/workload/grouping.h"

namespace berth::tool {

struct Manifest {
    std::string kind, ns, name;      // of the workload
    kube::Pod pod;                   // it, or one that its template makes
    Chain chain;                     // the workload, and a PodGroup that the file has for it
    std::vector<std::string> notes;  // what could not be taken into account: sentences
};

// Pod, Job, Deployment, ReplicaSet and StatefulSet, and PodGroup beside them; documents of other kinds are passed over. `ns` for those that
// name none. Errors name file, line and key.
Result<Manifest> read_manifest(std::string_view text, const std::string &file, const std::string &ns);

}  // namespace berth::tool
