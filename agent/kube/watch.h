// Watch<Record>: a list in pages, then a watch from there, for ever. It resumes after the server closes the watch,
// lists again after 410 Gone (as a status or as an ERROR event), and reconnects with jittered backoff. After a relist
// it reports what vanished meanwhile as removed. Handlers run on the loop's thread. An object that cannot be decoded is
// logged and skipped; a line that is no event at all ends the stream, and the watch resumes before it.
// Dropping the Watcher ends it, also from inside a handler; the Http must outlive it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "agent/kube/http.h"
#include "agent/kube/object.h"
#include "agent/kube/pod.h"

namespace berth::kube {

template <class Record>
struct WatchHandlers {
    std::function<void(Record &&)> changed;                   // added or modified; also each object of a list
    std::function<void(Record &&, bool last_state)> removed;  // last_state false: only ns, name and uid are known
    std::function<void()> synced;                             // after each complete list
    // A list or watch was not answered as it should be; it is tried again, unless the handler drops the Watcher. For kinds that may be
    // forbidden (403) or not there (404).
    std::function<void(const Response &)> failed = {};
};

struct WatchOptions {
    std::string path;   // "/api/v1/pods"
    std::string query;  // "fieldSelector=..." already escaped, may be empty
    unsigned page = 500;
    // The first list is what the server has in memory: whole, cheap, and perhaps a moment old; the watch goes on from there. Only for who
    // looks again before he acts.
    bool cached = false;
    std::chrono::milliseconds backoff_first{200}, backoff_most{30'000};
    // Silence for so long means a dead connection. Longer than the interval of bookmarks (about 60 s) where the server
    // sends them; where it does not, it is asked to end each watch sooner than this.
    std::chrono::seconds idle{90};
    std::function<double()> random;  // [0, 1) for the jitter; empty: its own generator
};

class Watcher {
  public:
    virtual ~Watcher() = default;
    virtual bool synced() const = 0;
};

std::unique_ptr<Watcher> watch_pods(Loop &loop, Http &http, WatchOptions options, WatchHandlers<Pod> handlers);
std::unique_ptr<Watcher> watch_nodes(Loop &loop, Http &http, WatchOptions options, WatchHandlers<Node> handlers);

// Objects of one kind, `options.path` its list in the API.
std::unique_ptr<Watcher> watch_objects(Loop &loop, Http &http, WatchOptions options, std::string api_version, std::string kind,
                                       WatchHandlers<Object> handlers);

}  // namespace berth::kube
