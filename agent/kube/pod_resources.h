// What a pod asks for, summed as the Kubernetes scheduler does it. Pure; simdjson elements must outlive the call.
#pragma once

#include <simdjson.h>

#include "agent/kube/pod.h"
#include "agent/result.h"

namespace berth::kube {

// What counts of each container: the larger of request and limit, or what kubelets go by, the request (a limit where there is none).
enum class Counted { larger, requests };
// `spec` of a pod. Errors name the container and the resource.
Result<Resources> pod_resources(simdjson::dom::object spec, Counted counted);
// Whether each container, or the pod as a whole, has a limit of memory.
bool memory_limited(simdjson::dom::object spec);
// Whether some container that runs as long as the pod has neither a request nor a limit of memory, and the pod as a whole has none.
bool memory_open(simdjson::dom::object spec);

// A map of quantities by itself, such as a PodGroup's minResources.
Result<Resources> resource_list(simdjson::dom::object quantities);

// An init container that runs beside the others for the pod's whole life (restartPolicy Always).
bool is_sidecar(simdjson::dom::object init_container);

}  // namespace berth::kube
