// Commands: what test/bench's scripts ask of the driver, one JSON object a line on standard input, and one line of answer for each, in the order
// in which they are finished:
//     {"do": "send", "method", "path", "body", "type", "values": [{NAME: VALUE}], "window", "kubeconfig"}   requests to the API server
//     {"do": "watch", "scheduler"}     begins to note what happens to these pods
//     {"do": "count"}, {"do": "pods"}, {"do": "forget"}      what was noted: how many of each, all of it, nothing any more
//     {"do": "allocate" | "batch", "count", "threads", "tasks", "cpus", "nodes", "memory", "user", "name", "held"}
//     {"do": "kill", "jobs": [JOB], "threads"}
// An answer that holds "error" is a command that could not be carried out.
#pragma once

#include <jansson.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "agent/kube/http.h"
#include "agent/slurm/workers.h"
#include "test/bench/pod_log.h"
#include "test/bench/sender.h"

namespace berth::bench {

using Json = std::unique_ptr<json_t, decltype(&json_decref)>;

class Commands {
  public:
    using Answered = std::function<void(Json)>;
    Commands(Loop &loop, kube::Http &http) : loop_(loop), http_(http), log_(loop, http) {}

    void run(const std::string &line, const Answered &answered);

  private:
    void send(json_t *command, const Answered &answered);
    void slurm_calls(json_t *command, const Answered &answered);
    Json count() const;
    Json pods() const;
    Result<kube::Http *> http_of(const char *kubeconfig);

    Loop &loop_;
    kube::Http &http_;
    PodLog log_;
    std::map<std::string, std::unique_ptr<kube::Http>> others_;  // by kubeconfig: who asks
    std::map<unsigned, std::unique_ptr<Workers>> workers_;       // by the number of threads
};

}  // namespace berth::bench
