#include "agent/tool/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "agent/kube/decode.h"
#include "agent/kube/discovery.h"
#include "agent/kube/exec_plugin.h"
#include "agent/kube/json_fields.h"
#include "agent/tool/placeholder_search.h"
#include "agent/translate/placeholder.h"

namespace berth::tool {

namespace {

constexpr int told = 0;

std::time_t time_of(std::string_view rfc3339) {
    const auto when = kube::parse_rfc3339(rfc3339);
    return when ? std::chrono::system_clock::to_time_t(*when) : 0;
}

Result<void> read_pod(KubeSession &api, Case &facts) {
    kube::Response answer = api.get(kube::resource_path("v1", "pods", facts.ns, facts.name));
    if (answer.status == 404)
        return {};
    if (!answer.ok())
        return Error{answer.error};
    kube::Decoder decoder;
    auto pod = decoder.pod(kube::padded(answer.body));
    if (!pod)
        return Error{fmt::format("the pod could not be understood: {}", pod.error())};
    facts.pod = std::move(*pod);
    read_status(answer.body, facts);
    return {};
}

// Events say more, but nothing depends on them: whoever may not read them gets the story without.
void ask_for_events(KubeSession &api, Case &facts) {
    const std::string name = "involvedObject.name=" + facts.name;
    kube::Response answer = api.get(kube::resource_path("v1", "events", facts.ns) + "?fieldSelector=" + kube::url_escape(name));
    if (answer.ok())
        read_events(answer.body, facts);
}

void ask_slurm(const Access &access, Case &facts) {
    const auto queue = slurm::load_queue();
    if (!queue) {
        facts.slurm_problem = queue.error();
        return;
    }
    kube::Pod nameless;
    nameless.ns = facts.ns;
    nameless.name = facts.name;
    facts.jobs = placeholder_of(facts.pod ? *facts.pod : nameless, access.cluster(), *queue);
    if (facts.jobs.empty())
        return;
    facts.user = user_name(facts.jobs.front().uid);
    for (const slurm::QueuedJob &job : facts.jobs)
        if (job.pending())
            facts.ahead = std::max(facts.ahead, slurm::ahead_of(job, *queue));
}

}  // namespace

void read_status(std::string &pod_json, Case &facts) {
    simdjson::dom::parser parser;
    kube::Json pod;
    if (parser.parse(kube::padded(pod_json)).get(pod) != simdjson::SUCCESS)
        return;
    kube::inside(pod, "status", [&facts](kube::Json status) {
        kube::each(status, "conditions", [&facts](kube::Json condition) {
            if (kube::text(condition, "type") == "DisruptionTarget" && kube::text(condition, "status") == "True" &&
                kube::text(condition, "reason").starts_with("Slurm"))
                facts.disruption = kube::text(condition, "message");
        });
        for (const char *const list : {"initContainerStatuses", "containerStatuses"})
            kube::each(status, list, [&facts](kube::Json container) {
                kube::inside(container, "state", [&facts, container](kube::Json state) {
                    kube::inside(state, "waiting", [&facts, container](kube::Json waiting) {
                        const std::string_view message = kube::text(waiting, "message");
                        if (facts.container_waits.empty())
                            facts.container_waits = fmt::format("{} ({}){}{}", kube::text(waiting, "reason"), kube::text(container, "name"),
                                                                message.empty() ? "" : ": ", message);
                    });
                });
            });
    });
}

void read_events(std::string &list_json, Case &facts) {
    simdjson::dom::parser parser;
    kube::Json list;
    if (parser.parse(kube::padded(list_json)).get(list) != simdjson::SUCCESS)
        return;
    kube::each(list, "items", [&facts](kube::Json item) {
        // Of an earlier pod of the name nothing is told, while there is one.
        bool about = true;
        kube::inside(item, "involvedObject", [&](kube::Json object) {
            about = kube::text(object, "kind") == "Pod" && (!facts.pod || kube::text(object, "uid") == facts.pod->uid);
        });
        if (!about)
            return;
        PodEvent event;
        for (const char *const key : {"lastTimestamp", "eventTime", "firstTimestamp"})
            if (event.at == 0)
                event.at = time_of(kube::text(item, key));
        event.type = kube::text(item, "type");
        event.reason = kube::text(item, "reason");
        event.message = kube::text(item, "message");
        facts.events.push_back(std::move(event));
    });
    std::stable_sort(facts.events.begin(), facts.events.end(),
                     [](const PodEvent &one, const PodEvent &other) { return one.at < other.at; });
}

int explain(const AccessOptions &options, const std::string &what, std::FILE *out, std::FILE *err) {
    const auto access = open_access(options);
    if (!access)
        return complain(err, access.error());
    auto api = access->kubernetes();
    if (!api)
        return complain(err, api.error());
    Case facts;
    const std::size_t slash = what.find('/');
    facts.ns = slash == std::string::npos ? options.ns : what.substr(0, slash);
    facts.name = slash == std::string::npos ? what : what.substr(slash + 1);
    facts.now = std::time(nullptr);
    facts.scheduler = access->scheduler();
    Progress progress(err);
    progress.say("asking the API server");
    if (const auto read = read_pod(**api, facts); !read)
        return complain(err, read.error());
    ask_for_events(**api, facts);
    if (const Config *const site = access->site(); site != nullptr && facts.pod) {
        facts.tenants_known = true;
        facts.tenant = tenant_name(*site, *facts.pod);
    }
    progress.say("asking slurmctld");
    start_slurm();
    ask_slurm(*access, facts);
    const Story story = tell(facts);
    progress.clear();
    fmt::print(out, "{}", options.json ? to_json(story, facts).text() + "\n" : to_text(story, options.paint));
    return told;
}

}  // namespace berth::tool
