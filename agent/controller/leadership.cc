#include "agent/controller/leadership.h"

#include <fmt/format.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "agent/cluster.h"
#include "agent/log.h"
#include "agent/slurm/client.h"
#include "agent/start_anew.h"

namespace berth {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds release_patience{3'000};  // a standby that is not told waits for the lease to run out

std::string host_name() {
    char name[256] = "localhost";
    gethostname(name, sizeof name - 1);
    return name;
}

ElectionTimes times_of(const LeaseConfig &lease) { return {lease.duration, lease.renew_deadline, lease.retry}; }

void tell_systemd(const std::string &status) { sd_notify(0, ("STATUS=" + status).c_str()); }

}  // namespace

Leadership::Leadership(Loop &loop, const Config &config, const ClusterConfig &cluster)
    : loop_(loop), config_(config), cluster_(cluster),
      identity_(config.controller.lease.identity.empty() ? host_name() : config.controller.lease.identity),
      election_(identity_, times_of(config.controller.lease)) {}

Result<void> Leadership::start() {
    const LeaseConfig &lease = config_.controller.lease;
    auto http = connect(loop_, cluster_, only_trusted, {.user_agent = "berthd/" + identity_});
    if (!http)
        return Error{http.error()};
    http_ = std::move(*http);
    store_ = std::make_unique<kube::LeaseStore>(*http_, lease.ns, lease.name.empty() ? cluster_.scheduler_name : lease.name,
                                                lease.renew_deadline / 2);
    slurm::start();
    read();
    return {};
}

void Leadership::after_retry(std::function<void()> what) {
    timer_ = loop_.after(config_.controller.lease.retry, std::move(what));
}

void Leadership::read() {
    store_->read([this](const kube::Response &answer, const std::optional<LeaseRecord> &record) {
        if (stopping_)
            return;
        if (!record && answer.status != 404) {
            complain(answer);
            return after_retry([this] { read(); });
        }
        switch (election_.read(record, BootClock::now())) {
        case Election::Step::wait:
            stand_by(*record);
            return after_retry([this] { read(); });
        case Election::Step::create: return write(true);
        case Election::Step::write: return write(false);
        case Election::Step::lost:
            fence_.close();
            log::warning("{}; starting anew as its standby", record && !record->holder.empty()
                                                                 ? fmt::format("{} leads now, in term {}", record->holder, record->term)
                                                                 : "the lease was taken away");
            start_anew();
        }
    });
}

void Leadership::write(bool create) {
    const LeaseRecord next = election_.next(static_cast<std::uint64_t>(std::time(nullptr)));
    const auto sent = BootClock::now();
    const auto done = [this, sent](const kube::Response &answer, const std::optional<LeaseRecord> &record) { written(answer, record, sent); };
    if (create)
        store_->create(next, done);
    else
        store_->write(next, done);
}

void Leadership::written(const kube::Response &answer, const std::optional<LeaseRecord> &record, Election::Time sent) {
    if (stopping_)
        return;
    if (!record) {
        // A conflict is news: somebody has written, perhaps we ourselves in a request whose answer was lost.
        if (answer.status == 409)
            return after_retry([this] { read(); });
        complain(answer);
        return after_retry([this] { read(); });
    }
    if (!election_.written(*record, sent)) {
        complain(fmt::format("lease {}: the API server's answer is not what was written; trying again", store_->full_name()));
        return after_retry([this] { read(); });
    }
    fence_.open_until(election_.valid_until());
    complaint_.clear();
    if (std::exchange(late_, false))
        log::warning("the lease is renewed and still ours, so nobody has led meanwhile: going on");
    watch_deadline();
    after_retry([this] { write(false); });
    if (!controller_)
        lead();
}

void Leadership::stand_by(const LeaseRecord &record) {
    if (election_.holder() != leader_) {
        leader_ = election_.holder();
        log::info("{} leads; this controller, {}, stands by", leader_, identity_);
        tell_systemd("standby; " + leader_ + " leads");
    }
    if (record.duration > longest_lease)
        complain(fmt::format("lease {}: {} asks for {} s of patience; no controller may, and it gets {}", store_->full_name(), leader_,
                             record.duration.count(), std::chrono::seconds(longest_lease).count()));
    if (standby_)
        return;
    standby_ = std::make_unique<Standby>(loop_, config_, cluster_.name);
    if (auto started = standby_->start(); !started) {
        log::error("cannot stand by: {}", started.error());
        loop_.quit(EXIT_FAILURE);
    }
}

void Leadership::lead() {
    log::info("this controller, {}, leads, in term {}{}", identity_, election_.term(), leader_.empty() ? "" : "; before it was " + leader_);
    tell_systemd(fmt::format("leads, in term {}", election_.term()));
    if (standby_)
        standby_->retire();
    controller_ = std::make_unique<Controller>(loop_, config_, cluster_, Mandate{&fence_, election_.term(), identity_});
    if (auto started = controller_->start(); !started) {
        log::error("cannot start: {}", started.error());
        fence_.close();
        loop_.quit(EXIT_FAILURE);
    }
}

// Once for the same trouble.
void Leadership::complain(const kube::Response &answer) {
    const bool denied = answer.status == 401 || answer.status == 403 || answer.status == 404;
    complain(fmt::format("lease {}: {}{}", store_->full_name(), answer.error,
                         denied ? "; apply etc/kubernetes/controller.yaml, which allows it" : "; trying again"));
}

void Leadership::complain(std::string what) {
    if (what == complaint_)
        return;
    complaint_ = std::move(what);
    log::warning("{}", complaint_);
}

// The fence needs no timer. People need the word.
void Leadership::watch_deadline() {
    const auto left = election_.valid_until() - BootClock::now();
    deadline_timer_ = loop_.after(std::chrono::ceil<milliseconds>(std::max(left, decltype(left)::zero())), [this] {
        if (fence_.open())
            return watch_deadline();
        late_ = true;
        log::warning("the lease was not renewed for {} s: nothing is written until it is", config_.controller.lease.renew_deadline.count());
    });
}

void Leadership::stop(std::function<void()> done) {
    stopping_ = true;
    timer_.reset();
    deadline_timer_.reset();
    if (!controller_)
        return done();
    controller_->stop([this, done = std::move(done)] {
        fence_.close();
        release(done);
    });
}

std::string Leadership::waits_for() const {
    if (!controller_)
        return standby_ ? "" : "the lease is not read yet";
    return fence_.open() ? controller_->waits_for() : "the lease was not renewed in time";
}

void Leadership::measure(metrics::Gauges &now) {
    now.controller = true;
    now.leader = controller_ && fence_.open();
    if (controller_)
        controller_->measure(now);
}

std::string Leadership::status_json() {
    if (controller_)
        return controller_->status_json();
    web::Status status = web::status_of_process();
    status.cluster = cluster_.name;
    status.identity = identity_;
    status.role = "standby";
    status.leader = leader_;
    status.waits_for = waits_for();
    return to_json(status);
}

void Leadership::release(std::function<void()> done) {
    auto once = std::make_shared<std::function<void()>>(std::move(done));
    const auto over = [once] {
        if (const auto call = std::exchange(*once, {}))
            call();
    };
    timer_ = loop_.after(release_patience, over);
    // A renewal may have been under way.
    store_->read([this, over](const kube::Response &, const std::optional<LeaseRecord> &record) {
        if (!record || election_.read(record, BootClock::now()) != Election::Step::write)
            return over();
        LeaseRecord released = *record;
        released.holder.clear();
        released.duration = std::chrono::seconds(1);
        store_->write(released, [over](const kube::Response &answer, const std::optional<LeaseRecord> &gone) {
            if (gone)
                log::info("the lease is let go");
            else
                log::warning("the lease was not let go, a standby follows when it runs out: {}", answer.error);
            over();
        });
    });
}

std::unique_ptr<Role> make_controller(Loop &loop, const Config &config) {
    return std::make_unique<Leadership>(loop, config, config.clusters.front());
}

}  // namespace berth
