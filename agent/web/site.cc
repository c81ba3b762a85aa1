#include "agent/web/site.h"

#include "agent/log.h"
#include "agent/metrics.h"

namespace berth::web {

namespace {

constexpr std::chrono::seconds good_for{1};

constexpr char page_text[] =
#include "agent/web/page.inc"
    ;

}  // namespace

Site::Site(Loop &loop, const std::vector<std::unique_ptr<Role>> &roles)
    : loop_(loop), roles_(roles), page_(std::make_shared<const std::string>(page_text)),
      server_(loop, [this](const Request &request) { return answer(request); }) {}

void Site::open(const WebConfig &config, bool controller) {
    const std::string &where = controller ? config.listen : config.node_listen;
    const auto address = parse_address(where);
    if (!address || !*address)
        return;
    if (const auto listening = server_.listen(**address); !listening)
        return log::error("{}: listening on {}: {}; metrics and status are not served", controller ? "web.listen" : "web.node_listen", where,
                          listening.error());
    log::info("metrics and health{} are served on {}", controller ? ", and the status page," : "", where);
}

Response Site::answer(const Request &request) {
    const std::string &path = request.path;
    if (path == "/healthz")
        return plain(200, "ok\n");  // who can say so is well: the loop turns
    if (path == "/readyz") {
        const std::string why = waits_for();
        return why.empty() ? plain(200, "ready\n") : plain(503, "not ready: " + why + "\n");
    }
    if (path == "/metrics")
        return {200, "text/plain; version=0.0.4; charset=utf-8", fresh(metrics_, [this] { return metrics_text(); })};
    if (path == "/status.json")
        if (const Text text = fresh(status_, [this] { return status_json(); }); !text->empty())
            return {200, "application/json", text};
    if (path == "/")
        return {200, "text/html; charset=utf-8", page_};
    return plain(404, "There are /, /status.json, /metrics, /healthz and /readyz.\n");
}

template <class Make>
Site::Text Site::fresh(Made &made, Make make) {
    if (!made.text || loop_.now() - made.when >= good_for)
        made = {std::make_shared<const std::string>(make()), loop_.now()};
    return made.text;
}

std::string Site::waits_for() const {
    for (const std::unique_ptr<Role> &role : roles_)
        if (std::string why = role->waits_for(); !why.empty())
            return why;
    return {};
}

std::string Site::metrics_text() const {
    metrics::Gauges now;
    now.ready = waits_for().empty();
    for (const std::unique_ptr<Role> &role : roles_)
        role->measure(now);
    return metrics::text(now);
}

std::string Site::status_json() const {
    for (const std::unique_ptr<Role> &role : roles_)
        if (std::string json = role->status_json(); !json.empty())
            return json;
    return {};
}

}  // namespace berth::web
