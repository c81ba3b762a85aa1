#include "agent/tool/kube_session.h"

#include <unistd.h>

#include <cstdlib>

#include "agent/cluster.h"

namespace berth::tool {

namespace {

constexpr std::chrono::seconds patience{15};  // of a person

}  // namespace

Result<std::unique_ptr<KubeSession>> KubeSession::open(const std::string &kubeconfig, const std::string &context) {
    auto session = std::make_unique<KubeSession>();
    ClusterConfig cluster;
    cluster.kubeconfig = kubeconfig;
    cluster.context = context;
    auto http = connect(session->loop_, cluster);
    if (!http)
        return Error{http.error()};
    session->http_ = std::move(*http);
    return session;
}

kube::Response KubeSession::get(const std::string &path) {
    kube::Request request;
    request.path = path;
    return std::move(send({request}).front());
}

std::vector<kube::Response> KubeSession::send(const std::vector<kube::Request> &requests) {
    std::vector<kube::Response> answers(requests.size());
    std::size_t missing = requests.size();
    for (std::size_t i = 0; i < requests.size(); ++i) {
        kube::Request request = requests[i];
        request.timeout = patience;
        http_->send(std::move(request), [i, &answers, &missing](kube::Response answer) {
            answers[i] = std::move(answer);
            --missing;
        });
    }
    loop_.run_until([&missing] { return missing == 0; });
    return answers;
}

std::string kubeconfig_path(const std::string &option, const Config *config) {
    if (!option.empty())
        return option;
    if (const char *variable = std::getenv("KUBECONFIG"); variable != nullptr && *variable != '\0')
        return variable;
    if (const char *home = std::getenv("HOME"); home != nullptr) {
        std::string path = std::string(home) + "/.kube/config";
        if (access(path.c_str(), F_OK) == 0)
            return path;
    }
    return config != nullptr && !config->clusters.empty() ? config->clusters.front().kubeconfig : "";
}

}  // namespace berth::tool
