#include "test/bench/poll.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/log.h"
#include "test/bench/job_list.h"
#include "test/bench/raw_slurm.h"

namespace berth::bench {

namespace {

// What one try learned.
struct Found {
    std::uint32_t job = 0;
    std::string node, problem;
};

}  // namespace

Poll::Poll(Loop &loop, kube::Http &http, Options options)
    : loop_(loop), http_(http), options_(std::move(options)), workers_(loop, options_.threads) {}

void Poll::start() {
    kube::WatchOptions options;
    options.path = "/api/v1/pods";
    options.query = "fieldSelector=" + kube::url_escape("spec.schedulerName=" + options_.scheduler);
    kube::WatchHandlers<kube::Pod> handlers;
    handlers.changed = [this](kube::Pod &&pod) { changed(pod); };
    handlers.removed = [this](kube::Pod &&pod, bool) { waiting_.erase(pod.uid); };
    handlers.synced = [] {};
    watcher_ = kube::watch_pods(loop_, http_, std::move(options), std::move(handlers));
}

void Poll::changed(const kube::Pod &pod) {
    // A pod that ended gives its room back at once: no word of when such a scheduler would notice.
    if (pod.terminal() || pod.deleting) {
        const auto found = waiting_.find(pod.uid);
        if (found == waiting_.end() || found->second.job == 0)
            return;
        calls_.slurm += 1;
        workers_.submit([job = found->second.job] { return kill(job); }, [](const Call &) {});
        waiting_.erase(found);
        return;
    }
    if (!pod.node_name.empty() || waiting_.contains(pod.uid))
        return;
    Waiting &waiting = waiting_[pod.uid];
    waiting.ns = pod.ns;
    waiting.name = pod.name;
    waiting.uid = pod.uid;
    waiting.cpus = static_cast<std::uint32_t>(std::max<std::int64_t>(1, (pod.need.cpu_milli + 999) / 1000));
    waiting.memory_mib = static_cast<std::uint32_t>(std::max<std::int64_t>(1, pod.need.memory_bytes >> 20));
    try_one(pod.uid);
}

void Poll::try_one(const Key &uid) {
    const auto pod = waiting_.find(uid);
    if (pod == waiting_.end())
        return;
    Size size;
    size.name = pod->second.ns + "/" + pod->second.name;
    size.cpus_per_task = pod->second.cpus;
    size.memory_mib = pod->second.memory_mib;
    size.user = options_.user;
    calls_.tries += 1;
    calls_.slurm += pod->second.job == 0 ? 3 : 2;
    workers_.submit(
        [rest = options_.rest, job = pod->second.job, size] {
            Found found;
            auto node = list_and_find(rest, job);
            if (!node) {
                found.problem = node.error();
            } else if (job == 0) {
                const Call call = allocate(size);
                found.job = call.job;
                found.problem = call.problem;
            } else {
                found.node = *node;
            }
            return found;
        },
        [this, uid](const Found &found) {
            const auto waits = waiting_.find(uid);
            if (waits == waiting_.end()) {
                if (found.job != 0)
                    workers_.submit([job = found.job] { return kill(job); }, [](const Call &) {});
                return;
            }
            if (!found.problem.empty())
                log::warning("pod {}: {}", waits->second.name, found.problem);
            if (found.job != 0)
                waits->second.job = found.job;
            if (found.node.empty())
                return again(uid);
            waits->second.node = found.node;
            write(uid);
        });
}

void Poll::again(const Key &uid) {
    static constexpr int delays[] = {1, 2, 4, 8, 10};
    Waiting &pod = waiting_[uid];
    const auto delay = std::chrono::seconds(delays[std::min<std::size_t>(pod.tries++, std::size(delays) - 1)]);
    pod.timer = loop_.after(delay, [this, uid] { try_one(uid); });
}

void Poll::write(const Key &uid) {
    const auto found = waiting_.find(uid);
    if (found == waiting_.end())
        return;
    Waiting &pod = found->second;
    if (pod.writes == 4)
        return;
    kube::Request request;
    request.path = fmt::format("/api/v1/namespaces/{}/pods/{}", pod.ns, pod.name);
    request.method = "PATCH";
    request.content_type = "application/merge-patch+json";
    switch (pod.writes++) {
    case 0:
        request.body = fmt::format(R"({{"metadata":{{"labels":{{"bench.berth.dev/job":"{}"}}}}}})", pod.job);
        break;
    case 1:
        request.body = fmt::format(R"({{"metadata":{{"annotations":{{"bench.berth.dev/node":"{}"}}}}}})", pod.node);
        break;
    case 2:
        request.method = "POST";
        request.content_type = "application/json";
        request.path += "/binding";
        request.body = fmt::format(R"({{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{}","uid":"{}"}},)"
                                   R"("target":{{"apiVersion":"v1","kind":"Node","name":"{}"}}}})",
                                   pod.name, pod.uid, pod.node);
        break;
    default:
        request.path += "/status";
        request.content_type = "application/strategic-merge-patch+json";
        request.body = R"({"status":{"conditions":[{"type":"BenchScheduled","status":"True"}]}})";
    }
    calls_.writes += 1;
    http_.send(std::move(request), [this, uid](const kube::Response &response) {
        if (!response.ok())
            log::warning("pod {}: {}", uid, response.error);
        write(uid);
    });
}

}  // namespace berth::bench
