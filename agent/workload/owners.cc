#include "agent/workload/owners.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <unordered_map>
#include <utility>

#include "agent/workload/object_reader.h"

namespace berth {

using kube::Object;

namespace {

constexpr std::size_t longest_chain = 8;

using Time = std::chrono::steady_clock::time_point;

// One object that somebody named, there or not.
struct Entry {
    std::string key, api_version, kind, ns, name;  // api_version empty: named by a label, which does not say it
    const WorkloadKind *known = nullptr;           // null: a kind of which only metadata is read
    ObjectPtr object;                              // null: not there, as far as is known
    bool read = false;                             // whether it is there has been asked, or is known from a list
    bool forbidden = false;
    Time begun{};        // of the last completed read: what it says was true at that time or later
    unsigned round = 0;  // of the watch that reported it last
    std::size_t pods = 0;  // that name it

    // A read under way, and who waits for it.
    bool loading = false;
    bool again = false;  // what is being read went away meanwhile
    bool touched = false;  // a watch reported the object since the read began
    Time loading_since{};
    ObjectReader::ReadingPtr reading;
    SourcePtr timer;
    std::vector<std::function<void()>> waiting;
};
using EntryPtr = std::shared_ptr<Entry>;

// What a pod names, directly. It is kept as long as the pod is of interest.
struct Named {
    std::vector<EntryPtr> entries;
};

std::optional<std::uint64_t> version_number(const std::string &text) {
    std::uint64_t out = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
    return code == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(out) : std::nullopt;
}

// Reads may be ahead of the watch; then the watch's older states are passed over.
bool is_older(const Object &object, const Object &than) {
    const auto a = version_number(object.resource_version), b = version_number(than.resource_version);
    return a && b && *a < *b;
}

bool shows_same(Object a, const Object &b) {
    a.resource_version = b.resource_version;
    return a == b;
}

}  // namespace

struct Owners::Impl : std::enable_shared_from_this<Impl> {
    // A resolve() under way. It begins anew, from what is known by then, each time that something it waited for has been read.
    struct Walk {
        std::string ns, uid;
        kube::OwnerRef owner;
        std::string pod_group, scheduling_group, leader_worker_set, job_set;
        Time begun{};
        Done done;
        std::weak_ptr<Named> pod;  // gone: the pod was forgotten
    };
    using WalkPtr = std::shared_ptr<Walk>;

    // One pass of a walk: what it named so far, and what it must wait for.
    struct Pass {
        const Walk &walk;
        Chain chain;
        std::vector<EntryPtr> named;
        EntryPtr wait_for;
    };

    Impl(Loop &the_loop, kube::Http &http, Handlers the_handlers, Times the_times)
        : loop(the_loop),
          handlers(std::move(the_handlers)),
          times(the_times),
          reader(the_loop, http, the_times),
          kinds(the_loop, http,
                {[this](const WorkloadKind &kind, Object &&object) { watch_brought(kind, std::move(object)); },
                 [this](const WorkloadKind &kind, Object &&object) { watch_removed(kind, object); },
                 [this](const WorkloadKind &kind) { kind_listed(kind); },
                 [this] {
                     if (handlers.synced)
                         handlers.synced();
                 },
                 [this] { read_again(); }},
                the_times) {}

    static std::string key_of(std::string_view group, std::string_view kind, std::string_view ns, std::string_view name) {
        return fmt::format("{}|{}|{}|{}", group, kind, ns, name);
    }

    EntryPtr find(const std::string &key) const {
        const auto at = entries.find(key);
        return at == entries.end() ? nullptr : at->second;
    }

    EntryPtr entry_for(std::string_view group, std::string_view api_version, std::string_view kind, std::string_view ns,
                       std::string_view name) {
        auto &entry = entries[key_of(group, kind, ns, name)];
        if (!entry) {
            entry = std::make_shared<Entry>();
            entry->key = key_of(group, kind, ns, name);
            entry->kind = kind;
            entry->ns = ns;
            entry->name = name;
            entry->known = find_workload_kind(group, kind);
            // All of these are kept: one that is not, is not there.
            entry->read = entry->known && entry->known->keep_all && kinds.listed(*entry->known);
        }
        if (entry->api_version.empty())
            entry->api_version = api_version;
        return entry;
    }

    // --- Walking ---

    void advance(const WalkPtr &walk) {
        const auto pod = walk->pod.lock();
        if (!pod || stopped || !walk->done)
            return;
        Pass pass{*walk, {}, {}, {}};
        trace(pass);
        const EntryPtr wait_for = pass.wait_for;
        keep(*pod, std::move(pass.named), wait_for != nullptr);
        if (wait_for)
            return load(wait_for, [this, walk] { advance(walk); });
        const Done done = std::exchange(walk->done, {});
        done(std::move(pass.chain));
    }

    void trace(Pass &pass) {
        const Walk &walk = pass.walk;
        Chain &chain = pass.chain;
        if (!walk.pod_group.empty()) {
            if (!find_named(pass, kube::x_scheduling_group, "PodGroup", walk.pod_group, chain.pod_group, true))
                return;
        } else if (!walk.scheduling_group.empty()) {
            if (!find_named(pass, kube::scheduling_group, "PodGroup", walk.scheduling_group, chain.pod_group, true))
                return;
            if (chain.pod_group && !chain.pod_group->workload.empty() &&
                !find_named(pass, kube::scheduling_group, "Workload", chain.pod_group->workload, chain.workload, false))
                return;
        }
        kube::OwnerRef next = walk.owner;
        if (!walk.leader_worker_set.empty()) {
            if (!find_named(pass, kube::lws_group, "LeaderWorkerSet", walk.leader_worker_set, chain.set, true))
                return;
            if (chain.set)
                chain.owners.push_back(chain.set);
            next = chain.set ? chain.set->owner : kube::OwnerRef{};
        } else if (!walk.job_set.empty()) {
            if (!find_named(pass, kube::jobset_group, "JobSet", walk.job_set, chain.set, false))
                return;
        }
        while (!next.empty() && chain.owners.size() < longest_chain) {
            const bool seen = next.uid == walk.uid || std::any_of(chain.owners.begin(), chain.owners.end(),
                                                                  [&](const ObjectPtr &owner) { return owner->uid == next.uid; });
            if (seen)
                return;
            const EntryPtr entry =
                entry_for(Object::group_name(next.api_version), next.api_version, next.kind, walk.ns, next.name);
            pass.named.push_back(entry);
            if (!usable(*entry, walk, next.uid)) {
                pass.wait_for = entry;
                return;
            }
            if (!entry->object || entry->object->uid != next.uid)
                return;
            chain.owners.push_back(entry->object);
            next = entry->object->owner;
        }
    }

    // An object that the pod names by a label or its spec. False: it must be read first.
    bool find_named(Pass &pass, std::string_view group, std::string_view kind, const std::string &name, ObjectPtr &into,
                    bool required) {
        const EntryPtr entry = entry_for(group, "", kind, pass.walk.ns, name);
        pass.named.push_back(entry);
        if (!usable(*entry, pass.walk, "")) {
            pass.wait_for = entry;
            return false;
        }
        into = entry->object;
        if (!into && required && pass.chain.missing.empty())
            pass.chain.missing = fmt::format("{} {}/{}{}", kind, pass.walk.ns, name,
                                             entry->forbidden ? " (which Berth may not read)" : "");
        return true;
    }

    bool kept_true(const Entry &entry) const { return entry.known && kinds.listed(*entry.known); }

    // Whether what is known of the object is good enough for a walk. That an owner is gone is believed only when it was read after the
    // walk began: a pod may be seen before the object that made it, and a name may be used again. An object named by a label may be
    // missing by the watch's word, since the watch reports its coming.
    bool usable(const Entry &entry, const Walk &walk, const std::string &uid) const {
        if (!entry.read)
            return false;
        if (entry.begun >= walk.begun)
            return true;
        if (entry.object && (uid.empty() || entry.object->uid == uid))
            return kept_true(entry) || loop.now() - entry.begun < times.look_again;
        return uid.empty() && kept_true(entry);
    }

    // While a walk goes on, what it names is added; in the end it takes the place of what was named before.
    void keep(Named &pod, std::vector<EntryPtr> named, bool add) {
        std::sort(named.begin(), named.end());
        named.erase(std::unique(named.begin(), named.end()), named.end());
        if (add) {
            for (const auto &entry : named)
                if (std::find(pod.entries.begin(), pod.entries.end(), entry) == pod.entries.end()) {
                    ++entry->pods;
                    pod.entries.push_back(entry);
                }
            return;
        }
        for (const auto &entry : named)
            ++entry->pods;
        named.shrink_to_fit();
        for (const auto &entry : std::exchange(pod.entries, std::move(named)))
            release(entry);
    }

    void release(const EntryPtr &entry) {
        --entry->pods;
        drop_if_idle(entry);
    }

    void drop_if_idle(const EntryPtr &entry) {
        if (entry->pods > 0 || !entry->waiting.empty() || (entry->known && entry->known->keep_all && entry->object))
            return;
        entry->reading.reset();
        entry->timer.reset();
        entry->loading = false;
        const auto at = entries.find(entry->key);
        if (at != entries.end() && at->second == entry)
            entries.erase(at);
    }

    // --- Reading ---

    void load(const EntryPtr &entry, std::function<void()> then) {
        if (then)
            entry->waiting.push_back(std::move(then));
        if (!std::exchange(entry->loading, true))
            begin_read(entry);
    }

    void begin_read(const EntryPtr &entry) {
        entry->again = entry->touched = false;
        entry->loading_since = loop.now();
        const std::string &watched = entry->known ? kinds.api_version(*entry->known) : entry->api_version;
        const std::string &api_version = watched.empty() ? entry->api_version : watched;
        if (!api_version.empty())
            return read_at(entry, api_version);
        // Only a label names it: whether and in which version the server has the kind must be known first.
        kinds.look([this, weak = std::weak_ptr(entry)] {
            const EntryPtr still = weak.lock();
            if (!still || !still->loading || stopped)
                return;
            if (const std::string &found = kinds.api_version(*still->known); !found.empty())
                return read_at(still, found);
            if (kinds.absent(*still->known))
                return arrived(still, {});
            still->timer = loop.after(times.look_soonest, [this, weak] {
                if (const EntryPtr entry_again = weak.lock())
                    begin_read(entry_again);
            });
        });
    }

    void read_at(const EntryPtr &entry, const std::string &api_version) {
        entry->reading = reader.read({api_version, entry->kind, entry->ns, entry->name},
                                     [this, weak = std::weak_ptr(entry)](ObjectReader::Answer answer) {
                                         if (const EntryPtr still = weak.lock(); still && !stopped)
                                             arrived(still, std::move(answer));
                                     });
    }

    void arrived(const EntryPtr &entry, ObjectReader::Answer answer) {
        const auto self = shared_from_this();
        entry->reading.reset();
        if (entry->again)  // it was removed while it was read: what came may be what is no longer there
            return begin_read(entry);
        const bool first = !std::exchange(entry->read, true);
        entry->loading = false;
        entry->begun = entry->loading_since;
        entry->forbidden = answer.forbidden;
        if (answer.object)
            put(entry, std::move(*answer.object), first && !(entry->known && entry->known->keep_all));
        else if (!entry->touched)
            take_away(entry);
        for (const auto &then : std::exchange(entry->waiting, {})) {
            if (stopped)
                return;
            then();
        }
        if (!stopped)
            drop_if_idle(entry);
    }

    // --- Changes ---

    void put(const EntryPtr &entry, Object &&object, bool quietly) {
        if (entry->object && is_older(object, *entry->object))
            return;
        if (entry->object && entry->object->uid != object.uid)
            take_away(entry);
        const bool same = entry->object && shows_same(object, *entry->object);
        entry->object = std::make_shared<const Object>(std::move(object));
        if (!same && !quietly && !stopped && handlers.changed)
            handlers.changed(entry->object);
    }

    void take_away(const EntryPtr &entry) {
        const ObjectPtr last = std::exchange(entry->object, nullptr);
        if (last && !stopped && handlers.removed)
            handlers.removed(last);
    }

    void watch_brought(const WorkloadKind &kind, Object &&object) {
        const auto self = shared_from_this();
        EntryPtr entry = find(key_of(kind.group, kind.kind, object.ns, object.name));
        if (stopped || (!entry && !kind.keep_all))
            return;
        if (!entry)
            entry = entry_for(kind.group, object.api_version, kind.kind, object.ns, object.name);
        entry->touched = entry->read = true;
        entry->round = kinds.round(kind);
        put(entry, std::move(object), false);
    }

    void watch_removed(const WorkloadKind &kind, const Object &object) {
        const auto self = shared_from_this();
        const EntryPtr entry = find(key_of(kind.group, kind.kind, object.ns, object.name));
        if (stopped || !entry)
            return;
        entry->again = entry->loading;
        if (!entry->object || entry->object->uid != object.uid)
            return;
        take_away(entry);
        if (!stopped)
            drop_if_idle(entry);
    }

    // What was known before the watch began and is not in its list went away in between, or is newer than it.
    void kind_listed(const WorkloadKind &kind) {
        const auto self = shared_from_this();
        std::vector<EntryPtr> doubtful;
        for (const auto &[key, entry] : entries)
            if (entry->known == &kind && entry->object && entry->round != kinds.round(kind))
                doubtful.push_back(entry);
        for (const auto &entry : doubtful)
            load(entry, {});
    }

    // Objects that no watch keeps true.
    void read_again() {
        const auto self = shared_from_this();
        std::vector<EntryPtr> all;
        for (const auto &[key, entry] : entries)
            if (entry->known && entry->pods > 0 && !kinds.listed(*entry->known) &&
                !(entry->api_version.empty() && kinds.api_version(*entry->known).empty()))
                all.push_back(entry);
        for (const auto &entry : all)
            load(entry, {});
    }

    Loop &loop;
    const Handlers handlers;
    const Times times;
    ObjectReader reader;
    KindWatches kinds;
    bool stopped = false;
    std::unordered_map<std::string, EntryPtr> entries;
    std::unordered_map<std::string, std::shared_ptr<Named>> pods;  // by uid
};

Owners::Owners(Loop &loop, kube::Http &http, Handlers handlers, Times times)
    : impl_(std::make_shared<Impl>(loop, http, std::move(handlers), times)) {}

Owners::~Owners() { impl_->stopped = true; }

void Owners::start() { impl_->kinds.start(); }

void Owners::resolve(const kube::Pod &pod, Done done) {
    const auto impl = impl_;
    const auto walk = std::make_shared<Impl::Walk>();
    walk->ns = pod.ns;
    walk->uid = pod.uid;
    walk->owner = pod.owner;
    walk->pod_group = pod.label(labels::pod_group);
    walk->scheduling_group = pod.scheduling_group;
    walk->leader_worker_set = pod.label(labels::lws_name);
    walk->job_set = pod.label(labels::jobset_name);
    walk->begun = impl->loop.now();
    walk->done = std::move(done);
    auto &named = impl->pods[pod.uid];
    if (!named)
        named = std::make_shared<Named>();
    walk->pod = named;
    impl->advance(walk);
}

ObjectPtr Owners::pod_group(const std::string &ns, const std::string &name) const {
    const auto entry = impl_->find(Impl::key_of(kube::x_scheduling_group, "PodGroup", ns, name));
    return entry ? entry->object : nullptr;
}

void Owners::forget(const kube::Pod &pod) {
    const auto at = impl_->pods.find(pod.uid);
    if (at == impl_->pods.end())
        return;
    const auto named = std::move(at->second);
    impl_->pods.erase(at);
    for (const auto &entry : std::exchange(named->entries, {}))
        impl_->release(entry);
}

}  // namespace berth
