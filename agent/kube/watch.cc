#include "agent/kube/watch.h"

#include <fmt/core.h>

#include <random>
#include <unordered_map>

#include "agent/kube/decode.h"
#include "agent/kube/frames.h"
#include "agent/log.h"

namespace berth::kube {

namespace {

using Milliseconds = std::chrono::milliseconds;

// An object in etcd has at most 1.5 MB; JSON escapes can make it some times longer.
constexpr std::size_t longest_event = 8 << 20;
// A server that answers, but so often in a row not with a watch from our resourceVersion: we begin again with a list.
// A server that cannot be reached or is busy does not count, or every agent would list when it comes back.
constexpr unsigned refusals_before_relist = 3;
// The server is asked to end each watch after this long, spread over twice the time.
constexpr double watch_seconds = 300;
// How soon a watch that waits sees that the server answers others again.
constexpr Milliseconds look_for_server{500};
// A watch that the server closed sooner, without an event, counts as a failure.
constexpr std::chrono::seconds decent_life{5};

std::string place_of(const Pod &pod) { return pod.ns + "/" + pod.name; }
std::string place_of(const Node &node) { return node.name; }
std::string place_of(const Object &object) { return object.ns + "/" + object.name; }

template <class Record>
Record stub(const Record &blank, const std::string &uid, const std::string &place) {
    Record out = blank;
    const auto slash = place.find('/');
    if constexpr (!std::is_same_v<Record, Node>)
        out.ns = place.substr(0, slash);
    out.name = place.substr(slash + 1);  // all of it when there is no slash
    out.uid = uid;
    return out;
}

// The watcher's state. Calls under way hold it by shared_ptr and look at stopped_ after each handler.
template <class Record>
class State : public std::enable_shared_from_this<State<Record>> {
  public:
    State(Loop &loop, Http &http, WatchOptions options, Record blank, WatchHandlers<Record> handlers)
        : loop_(loop),
          http_(http),
          options_(std::move(options)),
          blank_(std::move(blank)),
          handlers_(std::move(handlers)),
          frames_(longest_event) {
        if (!options_.random)
            options_.random = [generator = std::mt19937(std::random_device{}())]() mutable {
                return std::uniform_real_distribution<double>()(generator);
            };
        if (!handlers_.changed)
            handlers_.changed = [](Record &&) {
            };
        if (!handlers_.removed)
            handlers_.removed = [](Record &&, bool) {
            };
        if (!handlers_.synced)
            handlers_.synced = [] {
            };
        if (!handlers_.failed)
            handlers_.failed = [](const Response &) {
            };
    }

    void list() {
        ++round_;
        page("");
    }

    void stop() {
        stopped_ = true;
        stream_.reset();
        timer_.reset();
    }

    bool synced() const { return synced_; }

  private:
    using Kind = typename WatchEvent<Record>::Kind;

    struct Known {
        std::string place;        // "namespace/name"
        std::uint32_t round = 0;  // of the list that saw it last
    };

    std::string target(const std::string &more) const {
        return fmt::format("{}?{}{}{}", options_.path, options_.query, options_.query.empty() ? "" : "&", more);
    }

    void page(const std::string &next) {
        Request request;
        const std::string_view from = !next.empty() ? "&continue=" : options_.cached && round_ == 1 ? "&resourceVersion=0" : "";
        request.path = target(fmt::format("limit={}{}{}", options_.page, from, url_escape(next)));
        request.timeout = Milliseconds(60'000);
        http_.send(std::move(request), [weak = this->weak_from_this(), next](Response response) {
            const auto self = weak.lock();
            if (self && !self->stopped_)
                self->page_arrived(std::move(response), next);
        });
    }

    // `asked` is the token that the page was asked for with, empty for the first.
    void page_arrived(Response response, const std::string &asked) {
        if (!response.ok()) {
            handlers_.failed(response);
            if (stopped_)
                return;
            // 410 in the middle: the list took longer than the server keeps its snapshot. Nothing is wrong.
            if (response.status == 410 && !asked.empty())
                log::info("{}: the list expired before its last page; beginning again", options_.path);
            return retry(response.error, response.retry_after, true);
        }
        // Lists are rare and large: their parser goes at once.
        auto page_read = Decoder().list<Record>(padded(response.body), blank_);
        if (!page_read)
            return retry(fmt::format("GET {}: {}", options_.path, page_read.error()), {}, true);
        std::string().swap(response.body);
        if (page_read->bad > 0)
            log::warning("{}: {} objects of a list could not be read and are skipped; the first: {}", options_.path,
                         page_read->bad, page_read->first_problem);
        for (Record &item : page_read->items) {
            remember(item);
            handlers_.changed(std::move(item));
            if (stopped_)
                return;
        }
        // Else the list would never end, nor any request of it wait for the one before.
        if (!asked.empty() && page_read->next == asked)
            return retry(fmt::format("GET {}: the server answers with the same page again and again", options_.path), {}, true);
        if (!page_read->next.empty())
            return page(page_read->next);
        version_ = page_read->resource_version;
        remove_vanished();
        if (stopped_)
            return;
        log::debug("{}: listed, {} objects", options_.path, known_.size());
        succeeded();
        synced_ = true;
        handlers_.synced();
        if (!stopped_)
            watch();
    }

    void remember(const Record &item) {
        Known &known = known_[item.uid];
        if (known.place.empty())
            known.place = place_of(item);
        known.round = round_;
    }

    void remove_vanished() {
        std::vector<Record> gone;
        for (auto it = known_.begin(); it != known_.end();) {
            if (it->second.round == round_) {
                ++it;
                continue;
            }
            gone.push_back(stub(blank_, it->first, it->second.place));
            it = known_.erase(it);
        }
        for (Record &record : gone) {
            handlers_.removed(std::move(record), false);
            if (stopped_)
                return;
        }
    }

    void watch() {
        frames_.clear();
        got_event_ = false;
        began_ = heard_ = loop_.now();
        Request request;
        request.path = target(fmt::format("watch=1&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={}",
                                          url_escape(version_), lifetime()));
        const std::weak_ptr<State> weak = this->weak_from_this();
        stream_ = http_.stream(
            std::move(request), options_.idle,
            [weak](std::string_view chunk) {
                const auto self = weak.lock();
                if (self && !self->stopped_)
                    self->chunk_arrived(chunk);
            },
            [weak](Response response) {
                const auto self = weak.lock();
                if (self && !self->stopped_)
                    self->stream_ended(response);
            });
    }

    // Some servers (1.20) send no bookmarks while nothing changes. So until one has come, the server is asked to end
    // the watch before our patience does: then silence always means a dead connection, and never a quiet cluster.
    int lifetime() const {
        const double patience = static_cast<double>(options_.idle.count());
        const double least = bookmarks_ ? watch_seconds : patience * 0.5;
        const double spread = bookmarks_ ? watch_seconds : patience * 0.3;
        return std::max(1, static_cast<int>(least + options_.random() * spread));
    }

    void chunk_arrived(std::string_view chunk) {
        heard_ = loop_.now();
        frames_.append(chunk);
        while (const auto line = frames_.next()) {
            auto event = decoder_.event<Record>(*line, blank_);
            if (!event)
                return retry(fmt::format("watch of {}: {}", options_.path, event.error()), {}, refused_again());
            if (event->kind == Kind::error)
                return error_event(*event);
            take(std::move(*event));
            if (stopped_)
                return;
        }
        if (frames_.overlong())
            retry(fmt::format("watch of {}: an event of more than {} bytes", options_.path, longest_event), {},
                  refused_again());
    }

    void take(WatchEvent<Record> event) {
        if (!event.resource_version.empty())
            version_ = std::move(event.resource_version);
        got_event_ = true;
        bookmarks_ = bookmarks_ || event.kind == Kind::bookmark;
        succeeded();
        if (!event.problem.empty()) {
            log::warning("watch of {}: an object could not be read and is skipped: {}", options_.path, event.problem);
        } else if (event.kind == Kind::added || event.kind == Kind::modified) {
            remember(event.object);
            handlers_.changed(std::move(event.object));
        } else if (event.kind == Kind::deleted) {
            known_.erase(event.object.uid);
            handlers_.removed(std::move(event.object), true);
        }
    }

    void error_event(const WatchEvent<Record> &event) {
        const bool gone = event.code == 410;
        if (gone)
            log::info("watch of {}: {}; listing again", options_.path, event.message);
        retry(fmt::format("watch of {}: the server sent error {}: {}", options_.path, event.code, event.message), {},
              gone || refused_again());
    }

    void stream_ended(const Response &response) {
        if (response.ok()) {
            // The server ends watches as it likes. Only one that ends at once, again and again, is a failure.
            if (got_event_ || loop_.now() - began_ >= decent_life) {
                succeeded();
                return later(Milliseconds(static_cast<Milliseconds::rep>(
                                 options_.random() * static_cast<double>(options_.backoff_first.count()))),
                             false);
            }
            return retry(fmt::format("watch of {}: closed by the server at once", options_.path), {}, refused_again());
        }
        if (response.status == 0 && bookmarks_ && loop_.now() - heard_ >= options_.idle) {
            // Dead, or the bookmarks have dried up: a new connection tells which, and this one is blamed for nothing.
            log::debug("{}; resuming", response.error);
            bookmarks_ = false;
            return later(Milliseconds(0), false);
        }
        handlers_.failed(response);
        if (stopped_)
            return;
        const bool gone = response.status == 410;
        if (gone)
            log::info("watch of {}: too old to be resumed; listing again", options_.path);
        const bool busy = response.status == 0 || response.status == 429 || response.status == 503;
        retry(response.error, response.retry_after, gone || (!busy && refused_again()));
    }

    void succeeded() {
        if (failures_ > 0 && complained_)
            log::info("{}: in touch with the API server again", options_.path);
        failures_ = refusals_ = 0;
        complained_ = false;
    }

    bool refused_again() { return ++refusals_ % refusals_before_relist == 0; }

    // Doubles from failure to failure; the upper half of it is random.
    Milliseconds backoff() const {
        const unsigned doublings = std::min(failures_ > 0 ? failures_ - 1 : 0u, 20u);
        const double full =
            std::min(static_cast<double>(options_.backoff_first.count()) * static_cast<double>(1u << doublings),
                     static_cast<double>(options_.backoff_most.count()));
        return Milliseconds(static_cast<Milliseconds::rep>(full * (0.5 + options_.random() / 2)));
    }

    void retry(const std::string &why, std::chrono::seconds at_least, bool relist) {
        ++failures_;
        const auto wait = std::max<Milliseconds>(backoff(), at_least);
        // One line per outage; the details of its repetitions are for whoever debugs.
        if (failures_ == 2 && !complained_) {
            complained_ = true;
            log::warning("{}; going on trying", why);
        } else {
            log::debug("{}; trying again in {} ms", why, wait.count());
        }
        later(wait, relist);
    }

    void later(Milliseconds wait, bool relist) {
        stream_.reset();
        frames_.clear();
        go_on_at(loop_.now() + wait, relist, !http_.reachable());
    }

    // `away`: the server could not be reached. When others hear from it sooner, so do we: a watch that is deaf beside requests that are
    // answered would let its agent act on what is long over.
    void go_on_at(std::chrono::steady_clock::time_point when, bool relist, bool away) {
        const auto left = std::max(std::chrono::ceil<Milliseconds>(when - loop_.now()), Milliseconds(0));
        timer_ = loop_.after(away ? std::min(left, look_for_server) : left, [weak = this->weak_from_this(), when, relist, away] {
            const auto self = weak.lock();
            if (!self || self->stopped_)
                return;
            if (self->loop_.now() < when && !(away && self->http_.reachable()))
                return self->go_on_at(when, relist, away);
            if (relist)
                self->list();
            else
                self->watch();
        });
    }

    Loop &loop_;
    Http &http_;
    WatchOptions options_;
    const Record blank_;  // what each record is besides what its text says
    WatchHandlers<Record> handlers_;
    Decoder decoder_;
    Frames frames_;
    std::unordered_map<std::string, Known> known_;  // by uid
    std::uint32_t round_ = 0;
    std::string version_;
    unsigned failures_ = 0, refusals_ = 0;
    bool complained_ = false, got_event_ = false, synced_ = false, stopped_ = false;
    bool bookmarks_ = false;  // the server sends them, so silence has a meaning
    std::chrono::steady_clock::time_point began_{}, heard_{};
    std::unique_ptr<Stream> stream_;
    SourcePtr timer_;
};

template <class Record>
class RunningWatch : public Watcher {
  public:
    RunningWatch(Loop &loop, Http &http, WatchOptions options, Record blank, WatchHandlers<Record> handlers)
        : state_(std::make_shared<State<Record>>(loop, http, std::move(options), std::move(blank), std::move(handlers))) {
        state_->list();
    }
    ~RunningWatch() override { state_->stop(); }
    bool synced() const override { return state_->synced(); }

  private:
    std::shared_ptr<State<Record>> state_;
};

}  // namespace

std::unique_ptr<Watcher> watch_pods(Loop &loop, Http &http, WatchOptions options, WatchHandlers<Pod> handlers) {
    return std::make_unique<RunningWatch<Pod>>(loop, http, std::move(options), Pod{}, std::move(handlers));
}

std::unique_ptr<Watcher> watch_nodes(Loop &loop, Http &http, WatchOptions options, WatchHandlers<Node> handlers) {
    return std::make_unique<RunningWatch<Node>>(loop, http, std::move(options), Node{}, std::move(handlers));
}

std::unique_ptr<Watcher> watch_objects(Loop &loop, Http &http, WatchOptions options, std::string api_version, std::string kind,
                                       WatchHandlers<Object> handlers) {
    Object blank;
    blank.api_version = std::move(api_version);
    blank.kind = std::move(kind);
    return std::make_unique<RunningWatch<Object>>(loop, http, std::move(options), std::move(blank), std::move(handlers));
}

}  // namespace berth::kube
