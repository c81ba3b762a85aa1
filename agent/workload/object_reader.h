// ObjectReader: one GET for an object of any kind, asked again until the server answers. Kinds that Berth does not know are
// looked up in the server's discovery, once per API version, and only their metadata is read. On the loop's thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/kube/discovery.h"
#include "agent/kube/http.h"
#include "agent/kube/object.h"
#include "agent/loop.h"
#include "agent/workload/kind_watches.h"

namespace berth {

class ObjectReader {
  public:
    struct What {
        std::string api_version, kind, ns, name;
    };
    struct Answer {
        std::optional<kube::Object> object;  // nothing: it is not there, or
        bool forbidden = false;              // may not be read
    };
    using Done = std::function<void(Answer)>;

    // A read under way; dropping it ends it without an answer.
    class Reading;
    using ReadingPtr = std::shared_ptr<Reading>;

    ObjectReader(Loop &loop, kube::Http &http, KindWatches::Times times);

    // An empty api_version is not accepted. done is never called from inside.
    ReadingPtr read(What what, Done done);

  private:
    struct Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace berth
