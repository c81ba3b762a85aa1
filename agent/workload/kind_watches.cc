#include "agent/workload/kind_watches.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "agent/log.h"

namespace berth {

using kube::Object;
using kube::Request;
using kube::Response;

struct KindWatches::Kind {
    const WorkloadKind *what = nullptr;
    std::string api_version;
    bool absent = false, listed = false;
    bool doubtful = false;    // could not be looked for
    bool settled = false;     // as far as start() is concerned
    bool complained = false;  // that it may not be listed
    unsigned round = 0;
    std::unique_ptr<kube::Watcher> watcher;

    std::string name() const { return fmt::format("{}.{}", what->resource, what->group); }
};

struct KindWatches::Impl : std::enable_shared_from_this<Impl> {
    Impl(Loop &the_loop, kube::Http &the_http, Handlers the_handlers, Times the_times)
        : loop(the_loop), http(the_http), handlers(std::move(the_handlers)), times(the_times) {
        for (const auto &what : workload_kinds()) {
            kinds.emplace_back();
            kinds.back().what = &what;
        }
    }

    Kind &of(const WorkloadKind &what) {
        return *std::find_if(kinds.begin(), kinds.end(), [&](const Kind &kind) { return kind.what == &what; });
    }

    void stop() {
        stopped = true;
        timer.reset();
        periodic.reset();
        for (auto &kind : kinds)
            kind.watcher.reset();
    }

    template <class Fn>
    void get(std::string path, Fn fn) {
        Request request;
        request.path = std::move(path);
        http.send(std::move(request), [weak = weak_from_this(), fn = std::move(fn)](Response response) {
            const auto self = weak.lock();
            if (self && !self->stopped)
                fn(*self, std::move(response));
        });
    }

    void look(std::function<void()> done) {
        const bool complete = std::all_of(kinds.begin(), kinds.end(), [](const Kind &kind) { return kind.watcher != nullptr; });
        if (!looking && (complete || (looked_once && loop.now() - last_look < times.look_soonest)))
            return done ? done() : void();
        if (done)
            waiting.push_back(std::move(done));
        if (looking)
            return;
        looking = true;
        ask_groups();
    }

    void ask_groups() {
        get("/apis", [](Impl &self, Response response) { self.groups_arrived(std::move(response)); });
    }

    void groups_arrived(Response response) {
        auto groups = response.ok()                                          ? kube::read_api_groups(response.body)
                      : response.status == 403 || response.status == 404 ? Result<kube::ApiGroups>(kube::ApiGroups{})
                                                                             : Result<kube::ApiGroups>(Error{response.error});
        if (!groups) {
            // Not to be asked is not the same as not to have: nothing is concluded before there is an answer.
            if (++failures == 2)
                log::warning("the API server's groups are not known ({}); going on trying", groups.error());
            timer = loop.after(backoff(failures), [this] { ask_groups(); });
            return;
        }
        if (!response.ok() && failures == 0)
            log::warning("the API server does not say which APIs it has ({}): only owners that pods name are read", response.error);
        failures = 0;
        probing = 1;  // until all have been begun
        for (auto &kind : kinds) {
            if (kind.watcher)
                continue;
            if (!kind.api_version.empty()) {
                begin_watch(kind);
                continue;
            }
            ++probing;
            probe(kind, candidate_versions(*kind.what, *groups), 0);
        }
        probed();
    }

    std::chrono::milliseconds backoff(unsigned times_failed) const {
        return std::min<std::chrono::milliseconds>(times.backoff_first * (1 << std::min(times_failed, 10u)), times.backoff_most);
    }

    // Takes the first version that has the kind.
    void probe(Kind &kind, std::vector<std::string> versions, std::size_t next) {
        if (next == versions.size()) {
            if (!kind.absent)
                log::debug("the server has no {}", kind.name());
            kind.absent = true;
            kind.doubtful = false;
            settle(kind);
            return probed();
        }
        const std::string api_version = fmt::format("{}/{}", kind.what->group, versions[next]);
        get(kube::api_root(api_version), [&kind, api_version, versions, next](Impl &self, Response response) {
            if (!response.ok() && response.status != 403 && response.status != 404) {
                if (!std::exchange(kind.doubtful, true))
                    log::warning("whether the server has {} is not known ({}); going on trying", kind.name(), response.error);
                kind.absent = false;
                self.settle(kind);
                return self.probed();
            }
            const auto resources = kube::read_api_resources(response.ok() ? response.body : "{}");
            const bool there = resources && std::any_of(resources->begin(), resources->end(), [&](const auto &resource) {
                return resource.kind == kind.what->kind && resource.watchable;
            });
            if (!there)
                return self.probe(kind, versions, next + 1);
            kind.api_version = api_version;
            kind.absent = kind.doubtful = false;
            self.begin_watch(kind);
            self.probed();
        });
    }

    void probed() {
        if (stopped || --probing > 0)
            return;
        looking = false;
        looked_once = true;
        last_look = loop.now();
        const bool doubt = std::any_of(kinds.begin(), kinds.end(), [](const Kind &kind) { return kind.doubtful; });
        doubts = doubt ? doubts + 1 : 0;
        if (doubt)
            timer = loop.after(std::max(backoff(doubts), times.look_soonest), [this] { look({}); });
        for (const auto &done : std::exchange(waiting, {})) {
            done();
            if (stopped)
                return;
        }
    }

    void begin_watch(Kind &kind) {
        kube::WatchOptions options;
        options.path = kube::resource_path(kind.api_version, kind.what->resource, "");
        options.backoff_first = times.backoff_first;
        options.backoff_most = times.backoff_most;
        ++kind.round;
        kind.watcher = kube::watch_objects(loop, http, options, kind.api_version, std::string(kind.what->kind),
                                           {[this, &kind](Object &&object) { handlers.changed(*kind.what, std::move(object)); },
                                            [this, &kind](Object &&object, bool) { handlers.removed(*kind.what, std::move(object)); },
                                            [this, &kind] { list_arrived(kind); },
                                            [this, &kind](const Response &response) { watch_failed(kind, response); }});
    }

    void list_arrived(Kind &kind) {
        const auto self = shared_from_this();
        kind.listed = true;
        kind.complained = false;
        handlers.listed(*kind.what);
        if (!stopped)
            settle(kind);
    }

    void watch_failed(Kind &kind, const Response &response) {
        const auto self = shared_from_this();
        if (response.status == 403) {
            if (!kind.complained)
                log::warning("{}; objects that pods name are read one by one instead", response.error);
            kind.complained = true;
            kind.listed = false;
            kind.watcher.reset();
        } else if (response.status == 404) {
            log::info("the server no longer has {}", kind.name());
            kind.listed = false;
            kind.absent = true;
            kind.api_version.clear();
            kind.watcher.reset();
        }
        settle(kind);
    }

    void settle(Kind &kind) {
        kind.settled = true;
        if (!settled && std::all_of(kinds.begin(), kinds.end(), [](const Kind &one) { return one.settled; })) {
            settled = true;
            handlers.settled();
        }
    }

    void every_so_often() {
        periodic = loop.after(times.look_again, [this] {
            const auto self = shared_from_this();
            every_so_often();
            look([weak = weak_from_this()] {
                if (const auto still = weak.lock(); still && !still->stopped)
                    still->handlers.looked();
            });
        });
    }

    Loop &loop;
    kube::Http &http;
    const Handlers handlers;
    const Times times;
    std::vector<Kind> kinds;  // never grows: callbacks hold references
    bool looking = false, looked_once = false, settled = false, stopped = false;
    unsigned probing = 0, failures = 0, doubts = 0;
    std::chrono::steady_clock::time_point last_look{};
    std::vector<std::function<void()>> waiting;
    SourcePtr timer, periodic;
};

KindWatches::KindWatches(Loop &loop, kube::Http &http, Handlers handlers, Times times)
    : impl_(std::make_shared<Impl>(loop, http, std::move(handlers), times)) {}

KindWatches::~KindWatches() { impl_->stop(); }

void KindWatches::start() {
    impl_->every_so_often();
    impl_->look({});
}

const std::string &KindWatches::api_version(const WorkloadKind &kind) const { return impl_->of(kind).api_version; }
bool KindWatches::absent(const WorkloadKind &kind) const { return impl_->of(kind).absent; }
bool KindWatches::listed(const WorkloadKind &kind) const { return impl_->of(kind).listed; }
unsigned KindWatches::round(const WorkloadKind &kind) const { return impl_->of(kind).round; }
void KindWatches::look(std::function<void()> done) { impl_->look(std::move(done)); }

}  // namespace berth
