#include "agent/workload/object_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <set>

#include "agent/kube/decode.h"
#include "agent/log.h"
#include "agent/workload/kinds.h"

namespace berth {

using kube::Request;
using kube::Response;

namespace {

constexpr const char *metadata_only = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

// The server has answered, and another try would bring the same: no such thing, or not for us.
bool is_final(const Response &response) { return response.status == 403 || response.status == 404 || response.status == 405; }

}  // namespace

struct ObjectReader::Shared {
    struct Resources {
        std::vector<kube::ApiResource> list;
        std::chrono::steady_clock::time_point read;
    };

    Shared(Loop &the_loop, kube::Http &the_http, KindWatches::Times the_times) : loop(the_loop), http(the_http), times(the_times) {}

    // Null when the server must be asked. What was not there is looked for again after a while: a CRD may have come.
    const kube::ApiResource *find(const std::string &api_version, const std::string &kind, bool &known) const {
        const auto at = resources.find(api_version);
        known = at != resources.end();
        if (!known)
            return nullptr;
        const auto &list = at->second.list;
        const auto one = std::find_if(list.begin(), list.end(), [&](const auto &resource) { return resource.kind == kind; });
        if (one != list.end())
            return &*one;
        known = loop.now() - at->second.read < times.look_again;
        return nullptr;
    }

    Loop &loop;
    kube::Http &http;
    const KindWatches::Times times;
    std::map<std::string, Resources, std::less<>> resources;  // by API version
    std::set<std::string, std::less<>> complained;            // kinds that may not be read
};

class ObjectReader::Reading : public std::enable_shared_from_this<Reading> {
  public:
    Reading(std::shared_ptr<Shared> shared, What what, Done done)
        : shared_(std::move(shared)), what_(std::move(what)), done_(std::move(done)) {}

    void go() {
        const std::string_view resource = well_known_resource(what_.api_version, what_.kind);
        if (!resource.empty())
            return get_object(kube::resource_path(what_.api_version, resource, what_.ns, what_.name));
        bool known = false;
        const kube::ApiResource *found = shared_->find(what_.api_version, what_.kind, known);
        if (found)
            return get_object(
                kube::resource_path(what_.api_version, found->name, found->namespaced ? what_.ns : std::string(), what_.name));
        if (!known)
            return get_resources();
        shared_->loop.post([weak = weak_from_this()] {  // never from inside read()
            if (const auto self = weak.lock())
                self->finish({});
        });
    }

  private:
    void send(Request request, void (Reading::*arrived)(Response)) {
        shared_->http.send(std::move(request), [weak = weak_from_this(), arrived](Response response) {
            if (const auto self = weak.lock())
                ((*self).*arrived)(std::move(response));
        });
    }

    void get_resources() {
        Request request;
        request.path = kube::api_root(what_.api_version);
        send(std::move(request), &Reading::resources_arrived);
    }

    void resources_arrived(Response response) {
        if (!response.ok() && !is_final(response))
            return retry(response.error, response.retry_after);
        auto list = kube::read_api_resources(response.ok() ? response.body : "{}");
        if (!list)
            return retry(fmt::format("the resources of {}: {}", what_.api_version, list.error()), {});
        shared_->resources[what_.api_version] = {std::move(*list), shared_->loop.now()};
        go();
    }

    void get_object(std::string path) {
        Request request;
        request.path = std::move(path);
        if (!find_workload_kind(kube::Object::group_name(what_.api_version), what_.kind))
            request.accept = metadata_only;
        send(std::move(request), &Reading::object_arrived);
    }

    void object_arrived(Response response) {
        if (is_final(response)) {
            if (response.status == 403 && shared_->complained.insert(what_.api_version + " " + what_.kind).second)
                log::warning("{}; owners of that kind are passed over", response.error);
            return finish({std::nullopt, response.status == 403});
        }
        if (!response.ok())
            return retry(response.error, response.retry_after);
        kube::Object blank;
        blank.api_version = what_.api_version;
        blank.kind = what_.kind;
        auto object = kube::Decoder().object(kube::padded(response.body), blank);
        if (!object)
            return retry(fmt::format("{} {}/{} could not be understood: {}", what_.kind, what_.ns, what_.name, object.error()), {});
        finish({std::move(*object), false});
    }

    void retry(const std::string &why, std::chrono::seconds at_least) {
        const auto &times = shared_->times;
        const auto wait = std::max<std::chrono::milliseconds>(
            std::min<std::chrono::milliseconds>(times.backoff_first * (1 << std::min(failures_, 10u)), times.backoff_most), at_least);
        if (++failures_ == 2)
            log::warning("{}; going on trying", why);
        timer_ = shared_->loop.after(wait, [this] {
            const auto self = shared_from_this();
            go();
        });
    }

    void finish(Answer answer) {
        const auto self = shared_from_this();
        if (const Done done = std::exchange(done_, {}))
            done(std::move(answer));
    }

    std::shared_ptr<Shared> shared_;
    const What what_;
    Done done_;
    unsigned failures_ = 0;
    SourcePtr timer_;
};

ObjectReader::ObjectReader(Loop &loop, kube::Http &http, KindWatches::Times times)
    : shared_(std::make_shared<Shared>(loop, http, times)) {}

ObjectReader::ReadingPtr ObjectReader::read(What what, Done done) {
    auto reading = std::make_shared<Reading>(shared_, std::move(what), std::move(done));
    reading->go();
    return reading;
}

}  // namespace berth
