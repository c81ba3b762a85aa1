// Decoder: the API's JSON -> our records. Fields that are absent or unknown are no error; an object without a name or
// uid is. Nothing in a text can make it crash. The parser's memory is reused, so keep one Decoder per stream of events
// and drop it after a large list. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/frames.h"
#include "agent/kube/object.h"
#include "agent/kube/pod.h"
#include "agent/result.h"

namespace berth::kube {

// One page of a list. Objects that could not be decoded are left out and counted.
template <class Record>
struct ListPage {
    std::vector<Record> items;
    std::string resource_version;
    std::string next;  // the continue token, empty on the last page
    std::size_t bad = 0;
    std::string first_problem;
};

// One event of a watch.
template <class Record>
struct WatchEvent {
    enum class Kind { added, modified, deleted, bookmark, error, unknown };
    Kind kind = Kind::unknown;
    Record object;                 // added, modified, deleted: unless problem says otherwise
    std::string problem;           // why the object could not be decoded
    std::string resource_version;  // of every kind but error; may be empty
    int code = 0;                  // error: the Status' code
    std::string message;           // error: the Status' message
};

class Decoder {
  public:
    Decoder();
    ~Decoder();

    // `json` must be followed by Frames::padding readable bytes (a std::string is given them by padded()).
    Result<Pod> pod(std::string_view json);
    Result<Node> node(std::string_view json);

    // `blank` says of what kind it is where the text does not: items of a list, and metadata alone.
    Result<Object> object(std::string_view json, const Object &blank);
    Result<Claim> claim(std::string_view json);

    // Each record begins as a copy of `blank`.
    template <class Record>
    Result<ListPage<Record>> list(std::string_view json, const Record &blank = {});
    template <class Record>
    Result<WatchEvent<Record>> event(std::string_view json, const Record &blank = {});

  private:
    template <class Record>
    Result<Record> one(std::string_view json, const Record &blank);

    struct Parser;  // keeps the JSON library, which is slow to compile, out of this header
    std::unique_ptr<Parser> parser_;
};

// The "message" of a Kubernetes Status, or the beginning of a body that is none; fit for a log.
std::string status_message(const std::string &body);
// The minor version in the answer to GET /version: "20+" is 20, a later major version than 1 counts as 1000; 0: not
// said.
int version_minor(const std::string &body);

std::string_view padded(std::string &text);  // makes room behind the text; good until the text changes

extern template Result<ListPage<Pod>> Decoder::list<Pod>(std::string_view, const Pod &);
extern template Result<ListPage<Node>> Decoder::list<Node>(std::string_view, const Node &);
extern template Result<ListPage<Object>> Decoder::list<Object>(std::string_view, const Object &);
extern template Result<WatchEvent<Pod>> Decoder::event<Pod>(std::string_view, const Pod &);
extern template Result<WatchEvent<Node>> Decoder::event<Node>(std::string_view, const Node &);
extern template Result<WatchEvent<Object>> Decoder::event<Object>(std::string_view, const Object &);

}  // namespace berth::kube
