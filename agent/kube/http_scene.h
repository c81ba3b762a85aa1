// What tests of Http share: a request, and the wait for its answer. Tests only.
#pragma once

#include <optional>
#include <string>

#include "agent/kube/faulty_server.h"
#include "agent/kube/http.h"
#include "test/unit/suite.h"

namespace berth::test {

inline kube::Request get(std::string path, std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    kube::Request request;
    request.path = std::move(path);
    request.timeout = timeout;
    return request;
}

// Sends one request and waits for its answer.
inline kube::Response ask(Loop &loop, kube::Http &http, kube::Request request) {
    std::optional<kube::Response> got;
    bool inside = true;
    http.send(std::move(request), [&](kube::Response response) {
        ck_assert(!inside);
        got = std::move(response);
        loop.quit();
    });
    inside = false;
    ck_assert(run(loop));
    return *got;
}

}  // namespace berth::test
