// The poll method: how a scheduler without anything inside Slurm starts a pod, for comparison with Berth. Each pod is tried at once and again
// after 1, 2, 4, 8 and then every 10 s; each try lists all jobs and all nodes, submits where there is no job yet, and when the job runs makes four
// writes: label, annotation, Binding, condition.
// Every doubt is decided for it: the tries of several pods run at the same time, no client limits its rate, a list is read only as far as
// needed, its jobs start as quickly as Berth's, and it makes none of the other calls that such a scheduler needs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "agent/kube/watch.h"
#include "agent/slurm/workers.h"

namespace berth::bench {

class Poll {
  public:
    struct Options {
        std::string scheduler;
        std::string rest;   // slurmrestd's socket; empty: libslurm
        std::uint32_t user = 0;
        unsigned threads = 8;
    };
    struct Calls {
        std::uint64_t slurm = 0, writes = 0, tries = 0;
    };

    Poll(Loop &loop, kube::Http &http, Options options);
    void start();
    const Calls &calls() const { return calls_; }

  private:
    struct Waiting {
        std::string ns, name, uid, node;
        std::uint32_t job = 0, cpus = 1, memory_mib = 16;
        unsigned tries = 0, writes = 0;
        SourcePtr timer;
    };
    using Key = std::string;  // the pod's uid

    void changed(const kube::Pod &pod);
    void try_one(const Key &uid);
    void again(const Key &uid);
    void write(const Key &uid);

    Loop &loop_;
    kube::Http &http_;
    Options options_;
    Workers workers_;
    std::map<Key, Waiting> waiting_;
    std::unique_ptr<kube::Watcher> watcher_;
    Calls calls_;
};

}  // namespace berth::bench
