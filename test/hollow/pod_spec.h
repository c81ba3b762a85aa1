// PodSpec: what the hollow kubelet reads of a pod, and how the pod is to behave, from its annotations:
//   hollow.berth.dev/run-for      ends by itself after this time ("1.5s", "200ms", "2m"); without it runs for ever, unless the first
//                                 container's command is [sleep, N]: then for N seconds, as it says
//   hollow.berth.dev/exit-code    with this code (0)
//   hollow.berth.dev/oom          "true": ends as killed for its memory (OOMKilled, 137)
//   hollow.berth.dev/start-delay  how long the pod stays Pending on the node before it has a cgroup or process
//   hollow.berth.dev/die-after    how long it lives on after SIGTERM; it then exits with 143
//   hollow.berth.dev/ignore-term  "true": SIGTERM does nothing
//   hollow.berth.dev/beat         "true": it works, by adding a byte to STATE/<uid>.beat every 20 ms
//   hollow.berth.dev/stuck        "true": a broken kubelet. It never signals the pod and reports nothing of its end; the
//                                 process dies when someone else kills what is in its cgroup
//   hollow.berth.dev/unkillable   "true": as stuck, and SIGKILL does not end the process either: it is frozen in a cgroup
//                                 apart from the pod's (needs the v1 freezer). Thaw ROOT/unkillable to let it die
// Values only.
#pragma once

#include <simdjson.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"

namespace berth::hollow {

using std::chrono::milliseconds;

struct Behaviour {
    std::optional<milliseconds> run_for;
    int exit_code = 0;
    bool oom = false;
    milliseconds start_delay{0};
    milliseconds die_after{0};
    bool ignore_term = false;
    bool beat = false;
    bool stuck = false;
    bool unkillable = false;
};

enum class RestartPolicy : std::uint8_t { always, on_failure, never };

struct PodSpec {
    std::string ns, name, uid, node, resource_version;
    std::string phase;                     // as the API has it
    std::vector<std::string> containers;   // names
    RestartPolicy restart_policy = RestartPolicy::always;
    std::int64_t cpu_milli = 0, memory_bytes = 0, gpus = 0;  // requests of all containers
    bool guaranteed = false;               // QOS class, which decides where the cgroup lies
    bool burstable = false;
    bool deleting = false;
    std::int64_t deletion_grace = 30;
    Behaviour behaviour;
    std::string problem;                   // an annotation that cannot be read; such a pod fails
};

PodSpec decode_pod(simdjson::dom::element pod);

// "90", "1.5s", "200ms", "2m", "1h".
Result<milliseconds> parse_duration(std::string_view text);
// Whole units of the base (milli when asked) out of a Kubernetes quantity; 0 for what is none.
std::int64_t parse_quantity(std::string_view text, bool milli);

}  // namespace berth::hollow
