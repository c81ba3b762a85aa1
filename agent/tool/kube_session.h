// KubeSession: the API server for a tool that has nothing to do but wait for its answer. One thread; each call runs the event loop until
// the answer is there.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.h"
#include "agent/kube/decode.h"
#include "agent/kube/http.h"
#include "agent/loop.h"
#include "agent/result.h"

namespace berth::tool {

class KubeSession {
  public:
    // `kubeconfig` is what load_kubeconfig() takes; empty: the service account of the pod that we run in.
    static Result<std::unique_ptr<KubeSession>> open(const std::string &kubeconfig, const std::string &context);

    kube::Response get(const std::string &path);
    // Several requests under way at once; answers in the order of the requests.
    std::vector<kube::Response> send(const std::vector<kube::Request> &requests);

  private:
    Loop loop_;
    std::unique_ptr<kube::Http> http_;
};

// All objects of a list, page by page. `path` ends in a query; `what` is their name in the plural.
template <class T>
Result<std::vector<T>> list_all(KubeSession &api, const std::string &path, std::string_view what) {
    std::vector<T> out;
    kube::Decoder decoder;
    std::string next;
    do {
        kube::Response answer = api.get(path + "&limit=500" + (next.empty() ? "" : "&continue=" + kube::url_escape(next)));
        if (!answer.ok())
            return Error{answer.error};
        auto page = decoder.list<T>(kube::padded(answer.body));
        if (!page)
            return Error{fmt::format("the list of {} could not be understood: {}", what, page.error())};
        std::move(page->items.begin(), page->items.end(), std::back_inserter(out));
        next = page->next;
    } while (!next.empty());
    return out;
}

// Where a person's credentials are: the option, else $KUBECONFIG, else ~/.kube/config where it exists, else the agent's configuration.
std::string kubeconfig_path(const std::string &option, const Config *config);

}  // namespace berth::tool
