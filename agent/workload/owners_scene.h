// OwnersScene: the API server of a test of Owners, with the APIs and objects that the test gives it, and the test's own course of events,
// written as a coroutine that goes on whenever what it waits for has happened. On the loop's thread.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <coroutine>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/kube/faulty_server.h"
#include "agent/workload/owners.h"
#include "test/unit/suite.h"

namespace berth::test {

using namespace std::chrono_literals;
using Exchange = FaultyServer::Exchange;

inline std::string meta(std::string_view name, int version, std::string_view more = "") {
    return fmt::format(R"("metadata":{{"namespace":"n","name":"{0}","uid":"uid-{0}","resourceVersion":"{1}"{2}}})", name, version,
                       more);
}

inline std::string owner(std::string_view api_version, std::string_view kind, std::string_view name) {
    return fmt::format(
        R"(,"ownerReferences":[{{"apiVersion":"{}","kind":"{}","name":"{}","uid":"uid-{}","controller":true}}])", api_version, kind,
        name, name);
}

inline std::string resource(std::string_view name, std::string_view kind) {
    return fmt::format(R"({{"resources":[{{"name":"{}","kind":"{}","namespaced":true,"verbs":["get","list","watch"]}}]}})", name, kind);
}

// A test's own course of events. It goes on, on the loop, whenever what it waits for has happened.
struct Script {
    struct promise_type {
        Script get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() { std::abort(); }
    };
};

// A server with some APIs and some objects; the test answers what `special` takes.
struct Scene {
    Scene()
        : server(loop, [this](Exchange e) {
              ++asked[e.path.substr(0, e.path.find('?'))];
              answer(e);
          }) {
        http = kube::Http::create(loop, server.credentials(), {});
    }

    void answer(const Exchange &e) {
        const std::string path = e.path.substr(0, e.path.find('?'));
        if (special && special(e, path))
            return;
        if (path == "/apis")
            return e.respond(200, groups());
        if (const auto api = apis.find(path); api != apis.end())
            return e.respond(200, api->second);
        if (const auto list = lists.find(path); list != lists.end()) {
            if (e.path.find("watch=1") == std::string::npos)
                return e.respond(200, fmt::format(R"({{"metadata":{{"resourceVersion":"10"}},"items":[{}]}})", list->second));
            e.begin_stream();
            streams[path] = e;
            return notice("watch " + path);
        }
        const auto object = objects.find(path);
        e.respond(object == objects.end() ? 404 : 200, object == objects.end() ? R"({"message":"not found"})" : object->second);
    }

    std::string groups() const {
        std::map<std::string, std::string> versions;
        for (const auto &[path, body] : apis)
            if (path.starts_with("/apis/")) {
                const auto slash = path.find('/', 6);
                std::string &list = versions[path.substr(6, slash - 6)];
                list += fmt::format(R"({}{{"version":"{}"}})", list.empty() ? "" : ",", path.substr(slash + 1));
            }
        std::string out;
        for (const auto &[name, list] : versions)
            out += fmt::format(R"({}{{"name":"{}","versions":[{}]}})", out.empty() ? "" : ",", name, list);
        return fmt::format(R"({{"groups":[{}]}})", out);
    }

    void with_jobs() {
        apis["/apis/batch/v1"] = resource("jobs", "Job");
        lists["/apis/batch/v1/jobs"] = "";
    }
    void with_groups() {
        apis["/apis/scheduling.x-k8s.io/v1alpha1"] = resource("podgroups", "PodGroup");
        lists["/apis/scheduling.x-k8s.io/v1alpha1/podgroups"] = "";
    }

    void start() {
        Owners::Times times;
        times.backoff_first = 5ms;
        times.backoff_most = 20ms;
        times.look_again = look_again;
        times.look_soonest = 5ms;
        owners.emplace(loop, *http,
                       Owners::Handlers{[this](const ObjectPtr &o) { hear("+" + o->kind + " " + o->name); },
                                        [this](const ObjectPtr &o) { hear("-" + o->kind + " " + o->name); },
                                        [this] {
                                            hear("synced");
                                        }},
                       times);
        owners->start();
    }

    void hear(const std::string &what) {
        heard.push_back(what);
        notice(what);
    }

    void notice(const std::string &what) {
        noticed.push_back(what);
        if (what == waits_for)
            go_on();
    }

    void go_on() {
        waits_for.clear();
        loop.post([at = std::exchange(paused, {})] { at.resume(); });
    }

    // What was noticed, now or already.
    auto until(const std::string &what) {
        struct Wait {
            Scene &scene;
            std::string what;
            bool await_ready() const { return std::find(scene.noticed.begin(), scene.noticed.end(), what) != scene.noticed.end(); }
            void await_suspend(std::coroutine_handle<> at) const {
                scene.paused = at;
                scene.waits_for = what;
            }
            void await_resume() const {}
        };
        return Wait{*this, what};
    }

    auto resolve(const kube::Pod &pod) {
        struct Wait {
            Scene &scene;
            kube::Pod pod;
            Chain chain{};
            bool await_ready() const { return false; }
            void await_suspend(std::coroutine_handle<> at) {
                scene.paused = at;
                scene.owners->resolve(pod, [this](Chain got) {
                    chain = std::move(got);
                    scene.go_on();
                });
            }
            Chain await_resume() { return std::move(chain); }
        };
        return Wait{*this, pod};
    }

    // While the loop can still be told of timers that go.
    void end() {
        owners.reset();
        http.reset();
        loop.quit();
    }

    auto pause(std::chrono::milliseconds time) {
        timer = loop.after(time, [this] { notice("paused"); });
        return until("paused");
    }

    void send(const std::string &list, std::string_view type, const std::string &object) {
        const auto stream = streams.find(list);
        ck_assert_msg(stream != streams.end(), "no watch of %s", list.c_str());
        stream->second.send(fmt::format("{{\"type\":\"{}\",\"object\":{{{}}}}}\n", type, object));
    }

    Loop loop;
    std::map<std::string, std::string> apis;     // "/apis/batch/v1" -> its resources
    std::map<std::string, std::string> lists;    // path -> items
    std::map<std::string, std::string> objects;  // path -> body
    std::map<std::string, int> asked;            // how often, by path
    std::map<std::string, Exchange> streams;
    std::function<bool(const Exchange &, const std::string &)> special;
    std::chrono::milliseconds look_again = 60s;
    std::vector<std::string> heard, noticed;  // of the owners; and of everything
    std::string waits_for;
    std::coroutine_handle<> paused;
    SourcePtr timer;
    FaultyServer server;
    std::unique_ptr<kube::Http> http;
    std::optional<Owners> owners;
};

inline kube::Pod pod_of(std::string api_version, std::string kind, std::string name, std::string uid = "pod") {
    kube::Pod out;
    out.ns = "n";
    out.name = uid;
    out.uid = std::move(uid);
    out.owner = {std::move(api_version), std::move(kind), name, "uid-" + name};
    return out;
}

inline kube::Pod labelled(std::string key, std::string value, std::string uid = "pod") {
    kube::Pod out;
    out.ns = "n";
    out.name = uid;
    out.uid = std::move(uid);
    out.labels = {{std::move(key), std::move(value)}};
    return out;
}

}  // namespace berth::test
