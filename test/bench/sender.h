// Sender: many requests of one kind to the API server, so many under way at once, each with the times at which it was sent and answered.
// It sends through the agent's own HTTP code. Same threading as Http; one batch at a time.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/kube/http.h"

namespace berth::bench {

// What of path and body is a name in @ signs is replaced by the value of that name.
struct Batch {
    std::string method, path, body, content_type = "application/json";
    std::vector<std::map<std::string, std::string>> values;  // a request for each
    unsigned window = 64;
};

struct Answer {
    double sent = 0, answered = 0;
    int status = 0;
    std::string uid;  // metadata.uid of the object in the answer, if it is one
    std::string error;
};

class Sender {
  public:
    using Done = std::function<void(std::vector<Answer>)>;
    explicit Sender(kube::Http &http) : http_(http) {}

    void send(Batch batch, Done done);

  private:
    struct Run;
    void next(const std::shared_ptr<Run> &run);

    kube::Http &http_;
};

std::string fill_in(std::string text, const std::map<std::string, std::string> &values);

}  // namespace berth::bench
