// Site: the pages of berthd's web server. /healthz, /readyz, /metrics, and where the controller runs / and /status.json. What is costly to
// make is made at most once a second, however many readers there are. Loop's thread.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/loop.h"
#include "agent/role.h"
#include "agent/web/server.h"

namespace berth::web {

class Site {
  public:
    // The roles outlive the site.
    Site(Loop &loop, const std::vector<std::unique_ptr<Role>> &roles);

    // Where the configuration wants it for a process with or without the controller's role. A port that cannot be had is told, and no more:
    // pods run without anybody looking.
    void open(const WebConfig &config, bool controller);
    Response answer(const Request &request);
    std::uint16_t port() const { return server_.port(); }

  private:
    using Text = std::shared_ptr<const std::string>;
    struct Made {
        Text text;
        std::chrono::steady_clock::time_point when{};
    };
    template <class Make>
    Text fresh(Made &made, Make make);
    std::string waits_for() const;
    std::string metrics_text() const;
    std::string status_json() const;

    Loop &loop_;
    const std::vector<std::unique_ptr<Role>> &roles_;
    const Text page_;
    Made metrics_, status_;
    Server server_;
};

}  // namespace berth::web
