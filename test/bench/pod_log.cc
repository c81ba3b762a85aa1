#include "test/bench/pod_log.h"

#include "test/bench/moment.h"

namespace berth::bench {

void PodLog::watch(const std::string &scheduler, std::function<void()> done) {
    kube::WatchOptions options;
    options.path = "/api/v1/pods";
    options.query = "fieldSelector=" + kube::url_escape("spec.schedulerName=" + scheduler);
    kube::WatchHandlers<kube::Pod> handlers;
    handlers.changed = [this](kube::Pod &&pod) { changed(pod); };
    handlers.removed = [this](kube::Pod &&pod, bool) {
        if (const auto found = pods_.find(pod.name); found != pods_.end() && found->second.gone == 0)
            found->second.gone = moment();
    };
    handlers.synced = [done = std::move(done), told = false]() mutable {
        if (!told)
            done();
        told = true;
    };
    watchers_.push_back(kube::watch_pods(loop_, http_, std::move(options), std::move(handlers)));
}

void PodLog::changed(const kube::Pod &pod) {
    const double now = moment();
    PodTimes &times = pods_[pod.name];
    const auto first = [now](double &stamp, bool happened) {
        if (happened && stamp == 0)
            stamp = now;
    };
    times.uid = pod.uid;
    times.node = pod.node_name;
    first(times.added, true);
    first(times.bound, !pod.node_name.empty());
    first(times.deleting, pod.deleting);
    first(times.ended, pod.terminal());
}

}  // namespace berth::bench
