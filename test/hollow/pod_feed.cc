#include "test/hollow/pod_feed.h"

#include "agent/log.h"

namespace berth::hollow {
namespace {

constexpr const char *bound_pods = "/api/v1/pods?fieldSelector=spec.nodeName%21%3D";
constexpr auto retry_delay = milliseconds(300);
constexpr auto idle = std::chrono::seconds(90);  // bookmarks come every minute

std::string text_at(simdjson::dom::element e, std::string_view pointer) {
    std::string_view text;
    return e.at_pointer(pointer).get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

}  // namespace

PodFeed::PodFeed(Loop &loop, kube::Http &http, Handlers handlers)
    : loop_(loop), http_(http), handlers_(std::move(handlers)) {}

void PodFeed::list(const std::string &continue_token) {
    if (continue_token.empty())
        uids_.clear();
    kube::Request request;
    request.path = std::string(bound_pods) + "&limit=500";
    if (!continue_token.empty())
        request.path += "&continue=" + kube::url_escape(continue_token);
    http_.send(std::move(request), [this](kube::Response response) { listed(response); });
}

void PodFeed::listed(const kube::Response &response) {
    simdjson::dom::element root;
    simdjson::dom::array items;
    if (!response.ok())
        return again("listing pods: " + response.error, true);
    if (parser_.parse(response.body).get(root) != simdjson::SUCCESS || root["items"].get(items) != simdjson::SUCCESS)
        return again("listing pods: the answer is no list", true);
    resource_version_ = text_at(root, "/metadata/resourceVersion");
    std::string next = text_at(root, "/metadata/continue");
    for (simdjson::dom::element item : items) {
        PodSpec pod = decode_pod(item);
        uids_.insert(pod.uid);
        handlers_.changed(std::move(pod));
    }
    if (!next.empty())
        return list(next);
    handlers_.synced(uids_);
    watch();
}

void PodFeed::watch() {
    kube::Request request;
    request.path = std::string(bound_pods) + "&watch=true&allowWatchBookmarks=true&resourceVersion=" + resource_version_;
    buffer_.clear();
    gone_ = false;
    stream_ = http_.stream(
        std::move(request), idle, [this](std::string_view chunk) { take(chunk); },
        [this](kube::Response response) {
            bool relist = gone_ || response.status == 410;
            again(response.ok() ? "the watch was closed" : "watching pods: " + response.error, relist);
        });
}

void PodFeed::take(std::string_view chunk) {
    std::size_t scanned = buffer_.size(), begin = 0;
    buffer_.append(chunk);
    for (std::size_t end; (end = buffer_.find('\n', scanned)) != std::string::npos; scanned = begin = end + 1)
        take_line(std::string_view(buffer_).substr(begin, end - begin));
    buffer_.erase(0, begin);
}

void PodFeed::take_line(std::string_view line) {
    simdjson::dom::element root, object;
    if (parser_.parse(line.data(), line.size()).get(root) != simdjson::SUCCESS || root["object"].get(object) != simdjson::SUCCESS) {
        log::error("watching pods: a line that is no event: {}", line.substr(0, 200));
        return;
    }
    std::string type = text_at(root, "/type");
    if (type == "ERROR") {
        gone_ = true;
        return;
    }
    resource_version_ = text_at(object, "/metadata/resourceVersion");
    if (type == "DELETED") {
        std::string uid = text_at(object, "/metadata/uid");
        handlers_.removed(uid);
    } else if (type != "BOOKMARK") {
        handlers_.changed(decode_pod(object));
    }
}

void PodFeed::again(const std::string &why, bool relist) {
    log::debug("{}; {} again", why, relist ? "listing" : "watching");
    retry_ = loop_.after(retry_delay, [this, relist] {
        stream_.reset();
        if (relist)
            list("");
        else
            watch();
    });
}

}  // namespace berth::hollow
