#include "agent/kube/http.h"

#include <deque>
#include <random>
#include <unordered_set>

#include "agent/kube/multi.h"
#include "agent/kube/transfer.h"
#include "agent/log.h"
#include "agent/metrics.h"

namespace berth::kube {

namespace {

using Milliseconds = std::chrono::milliseconds;
using TransferPtr = std::shared_ptr<Transfer>;

// Everything an Http does. Callbacks of the user run only from settle() and from posted calls, never inside curl, and
// a shared_ptr keeps the Core alive while they do: so they may send, drop streams, and destroy the Http itself.
class Core : public std::enable_shared_from_this<Core> {
  public:
    Core(Loop &loop, Credentials credentials, Http::Options options)
        : loop_(loop),
          options_(std::move(options)),
          auth_(loop, std::move(credentials), Auth::Options{}),
          random_(std::random_device{}()) {}

    void begin() {
        multi_ = std::make_unique<Multi>(loop_, [weak = weak_from_this()] {
            if (const auto core = weak.lock())
                core->settle();
        });
    }

    void send(Request request, Http::Done done) {
        auto transfer = std::make_shared<Transfer>(std::move(request), false, std::move(done));
        if (transfer->request.can_wait)
            return send_when_quiet(std::move(transfer));
        waiting_.push_back(std::move(transfer));
        pump();
    }

    TransferPtr stream(Request request, std::chrono::seconds idle, std::function<void(std::string_view)> chunk,
                       Http::Done done) {
        auto transfer = std::make_shared<Transfer>(std::move(request), true, std::move(done));
        transfer->chunk = std::move(chunk);
        transfer->last_byte = loop_.now();
        transfer->on_arrival = [this](Transfer &t) {
            t.last_byte = loop_.now();
            if (t.answered())
                answered();
            if (!t.arrived.empty())
                fed_.insert(&t);
        };
        streams_.insert(transfer);
        watch_idle(transfer, idle);
        authorise(transfer);
        return transfer;
    }

    void cancel(const TransferPtr &transfer) {
        if (transfer->cancelled)
            return;
        transfer->cancelled = true;
        release(transfer);
    }

    // Ends everything without a word to anybody.
    void shut_down() {
        closed_ = true;
        waiting_.clear();
        patient_.clear();
        patient_active_.reset();
        quiet_timer_.reset();
        for (const auto *set : {&active_, &streams_})
            for (const TransferPtr &transfer : *set) {
                transfer->cancelled = true;
                transfer->timer.reset();
                detach(transfer);
            }
        active_.clear();
        streams_.clear();
        fed_.clear();
    }

    bool reachable() const { return reachable_; }

  private:
    void pump() {
        while (!waiting_.empty() && active_.size() < options_.max_in_flight) {
            TransferPtr transfer = std::move(waiting_.front());
            waiting_.pop_front();
            begin_request(transfer);
        }
    }

    // Those that can wait, such as events: what people read must not delay what pods wait for.
    void send_when_quiet(TransferPtr transfer) {
        patient_.push_back({std::move(transfer), loop_.now()});
        if (patient_.size() > options_.most_waiting) {
            const TransferPtr oldest = std::move(patient_.front().transfer);
            patient_.pop_front();
            finish_later(oldest, oldest->failure("dropped, because too many wait to be sent"));
        }
        if (!quiet_timer_ && !patient_active_)
            wait_for_quiet();
    }

    void wait_for_quiet() {
        quiet_timer_.reset();
        if (patient_.empty() || patient_active_)
            return;
        const auto now = loop_.now();
        const bool busy = !waiting_.empty() || !active_.empty();
        const auto latest = patient_.front().since + options_.longest_wait;
        const auto due = std::min((busy ? now : last_request_) + options_.quiet, latest);
        if (due > now) {
            quiet_timer_ = loop_.after(std::chrono::ceil<Milliseconds>(due - now), [weak = weak_from_this()] {
                if (const auto core = weak.lock())
                    core->wait_for_quiet();
            });
            return;
        }
        patient_active_ = std::move(patient_.front().transfer);
        patient_.pop_front();
        begin_request(patient_active_);
    }

    // The clock of a request starts when its turn comes: a long queue is our own doing.
    void begin_request(const TransferPtr &transfer) {
        active_.insert(transfer);
        transfer->deadline = loop_.now() + transfer->request.timeout;
        authorise(transfer);
    }

    void authorise(const TransferPtr &transfer) {
        auth_.get([weak = weak_from_this(), transfer](Result<IdentityPtr> identity) {
            const auto core = weak.lock();
            if (!core || transfer->cancelled)
                return;
            if (!identity)
                core->finish_later(transfer, transfer->failure(identity.error()));
            else
                core->start(transfer, *identity);
        });
    }

    void start(const TransferPtr &transfer, const IdentityPtr &identity) {
        const auto left = std::chrono::duration_cast<Milliseconds>(transfer->deadline - loop_.now());
        if (!transfer->streaming && left <= Milliseconds(0))
            return finish_later(transfer, transfer->failure("no time was left to send it"));
        if (!transfer->may_be_sent(options_))
            return finish_later(transfer, transfer->failure(Fence::closed_text));
        if (!transfer->prepare(options_, identity, left, silent_ >= suspicious_silence) ||
            !multi_->add(transfer->easy()))
            return finish_later(transfer, transfer->failure("curl could not take the request"));
        transfer->added = true;
    }

    void detach(const TransferPtr &transfer) {
        if (std::exchange(transfer->added, false))
            multi_->remove(transfer->easy());
    }

    void release(const TransferPtr &transfer) {
        transfer->timer.reset();
        detach(transfer);
        fed_.erase(transfer.get());
        active_.erase(transfer);
        streams_.erase(transfer);
    }

    // A promise of Http: done never runs inside send() or stream().
    void finish_later(const TransferPtr &transfer, Response response) {
        loop_.post([weak = weak_from_this(), transfer, response = std::move(response)]() mutable {
            if (const auto core = weak.lock())
                core->finish(transfer, std::move(response));
        });
    }

    void finish(const TransferPtr &transfer, Response response) {
        if (transfer->cancelled)
            return;
        transfer->cancelled = true;
        release(transfer);
        const Http::Done done = std::move(transfer->done);
        transfer->chunk = nullptr;
        if (transfer == patient_active_) {
            patient_active_.reset();
            wait_for_quiet();
        } else if (!transfer->request.can_wait) {
            last_request_ = loop_.now();
        }
        pump();
        if (done)
            done(std::move(response));
    }

    // After each step of curl: hand over what came, then conclude what ended.
    void settle() {
        const auto self = shared_from_this();
        const auto finished = multi_->take_finished();
        std::vector<TransferPtr> keep;  // handles of finished transfers stay valid while others are told
        for (const auto &[easy, code] : finished) {
            void *transfer = nullptr;
            curl_easy_getinfo(easy, CURLINFO_PRIVATE, &transfer);
            keep.push_back(find(static_cast<Transfer *>(transfer)));
        }
        deliver();
        for (std::size_t i = 0; i < finished.size() && !closed_; ++i)
            if (keep[i] && !keep[i]->cancelled)
                conclude(keep[i], finished[i].second);
    }

    TransferPtr find(Transfer *transfer) const {
        for (const auto *set : {&active_, &streams_}) {
            const auto it = set->find(transfer);
            if (it != set->end())
                return *it;
        }
        return nullptr;
    }

    void deliver() {
        while (!fed_.empty() && !closed_) {
            const TransferPtr transfer = find(*fed_.begin());
            fed_.erase(fed_.begin());
            if (!transfer || transfer->cancelled)
                continue;
            std::string bytes;
            bytes.swap(transfer->arrived);
            transfer->chunk(bytes);
            if (!transfer->cancelled && transfer->arrived.empty()) {
                bytes.clear();
                transfer->arrived.swap(bytes);  // keeps the buffer
            }
        }
    }

    void conclude(const TransferPtr &transfer, CURLcode code) {
        detach(transfer);
        Response response = transfer->take_response(code);
        metrics::api_call(transfer->request.method, transfer->streaming, response.status);
        reachable_ = false;
        if (transfer->answered())
            answered();
        else if (code == CURLE_OPERATION_TIMEDOUT)
            ++silent_;
        if (response.status == 401 && !transfer->retried_auth) {
            transfer->retried_auth = true;
            log::debug("{}; reading the credentials again", response.error);
            auth_.refused(transfer->identity());
            return authorise(transfer);
        }
        const bool busy = (response.status == 429 && response.retry_after.count() > 0) || response.status == 503;
        if (busy && !transfer->streaming) {
            const auto wait = spread(std::max<Milliseconds>(response.retry_after, std::chrono::seconds(1)));
            if (loop_.now() + wait < transfer->deadline) {
                log::debug("{}; trying again in {} ms", response.error, wait.count());
                transfer->timer = loop_.after(wait, [weak = weak_from_this(), raw = transfer.get()] {
                    const auto core = weak.lock();
                    if (const auto again = core ? core->find(raw) : nullptr)
                        core->authorise(again);
                });
                return;
            }
        }
        finish(transfer, std::move(response));
    }

    void answered() {
        reachable_ = true;
        silent_ = 0;
    }

    // Up to a quarter more, so that those who were sent away together do not come back together.
    Milliseconds spread(Milliseconds wait) {
        return wait + Milliseconds(std::uniform_int_distribution<Milliseconds::rep>(0, wait.count() / 4)(random_));
    }

    void watch_idle(const TransferPtr &transfer, std::chrono::seconds idle) {
        const auto left = std::chrono::duration_cast<Milliseconds>(transfer->last_byte + idle - loop_.now());
        transfer->timer = loop_.after(left, [weak = weak_from_this(), raw = transfer.get(), idle] {
            const auto core = weak.lock();
            const auto stream = core ? core->find(raw) : nullptr;
            if (!stream)
                return;
            if (core->loop_.now() < stream->last_byte + idle)
                return core->watch_idle(stream, idle);
            core->silent_ = suspicious_silence;  // the next attempt tells whether the server or the connection is gone
            core->finish(stream, stream->failure(fmt::format("nothing arrived for {} s", idle.count())));
        });
    }

    struct SameTransfer {
        using is_transparent = void;
        static const Transfer *raw(const TransferPtr &t) { return t.get(); }
        static const Transfer *raw(const Transfer *t) { return t; }
        template <class A, class B>
        bool operator()(const A &a, const B &b) const {
            return raw(a) == raw(b);
        }
    };
    struct HashTransfer {
        using is_transparent = void;
        std::size_t operator()(const TransferPtr &t) const { return std::hash<const Transfer *>()(t.get()); }
        std::size_t operator()(const Transfer *t) const { return std::hash<const Transfer *>()(t); }
    };
    using TransferSet = std::unordered_set<TransferPtr, HashTransfer, SameTransfer>;

    // This many time-outs in a row without a sign of life: the shared connection may be the trouble, so open another.
    static constexpr unsigned suspicious_silence = 2;

    Loop &loop_;
    const Http::Options options_;
    Auth auth_;
    std::mt19937 random_;
    std::deque<TransferPtr> waiting_;
    struct Patient {
        TransferPtr transfer;
        std::chrono::steady_clock::time_point since;
    };
    std::deque<Patient> patient_;  // that can wait
    TransferPtr patient_active_;   // the one that is under way
    std::chrono::steady_clock::time_point last_request_{};  // when another one was answered
    SourcePtr quiet_timer_;
    TransferSet active_, streams_;
    std::unordered_set<Transfer *> fed_;  // streams with bytes to hand over
    bool reachable_ = false, closed_ = false;
    unsigned silent_ = 0;
    std::unique_ptr<Multi> multi_;  // last, so first to go: curl closes its connections before the rest is freed
};

class OpenStream : public Stream {
  public:
    OpenStream(std::weak_ptr<Core> core, TransferPtr transfer)
        : core_(std::move(core)), transfer_(std::move(transfer)) {}
    ~OpenStream() override {
        if (const auto core = core_.lock())
            core->cancel(transfer_);
    }

  private:
    std::weak_ptr<Core> core_;
    TransferPtr transfer_;
};

class CurlHttp : public Http {
  public:
    CurlHttp(Loop &loop, Credentials credentials, Options options)
        : core_(std::make_shared<Core>(loop, std::move(credentials), std::move(options))) {
        core_->begin();
    }
    ~CurlHttp() override { core_->shut_down(); }

    void send(Request request, Done done) override { core_->send(std::move(request), std::move(done)); }
    std::unique_ptr<Stream> stream(Request request, std::chrono::seconds idle,
                                   std::function<void(std::string_view)> chunk, Done done) override {
        return std::make_unique<OpenStream>(core_,
                                            core_->stream(std::move(request), idle, std::move(chunk), std::move(done)));
    }
    bool reachable() const override { return core_->reachable(); }

  private:
    std::shared_ptr<Core> core_;
};

}  // namespace

std::unique_ptr<Http> Http::create(Loop &loop, Credentials credentials, Options options) {
    // Not thread-safe in old versions of libcurl, hence once and before the first handle; the agent calls from one
    // thread.
    [[maybe_unused]] static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
    return std::make_unique<CurlHttp>(loop, std::move(credentials), std::move(options));
}

std::string url_escape(std::string_view text) {
    constexpr char hex[] = "0123456789ABCDEF";
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
            c == '_' || c == '~')
            out.push_back(c);
        else
            ((out += '%') += hex[byte >> 4]) += hex[byte & 15];
    }
    return out;
}

}  // namespace berth::kube
