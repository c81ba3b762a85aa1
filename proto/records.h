// RunDir: the small files by which plugin and agent on one node remember what must survive either of them. Root's own,
// on tmpfs. Each file is one encoded Message, written whole (temporary name, then rename).
//
//   jobs/JOB.NONCE    a placeholder allocated here; written by the prolog, removed when its end is settled
//   ended/JOB.NONCE   its end was seen; written by the epilog before anything else, kept for a day: never bind after it
//   held/PODUID       a pod that is or may be bound here and is not proven gone; written by the agent before it binds
//   begun/JOB.NONCE   its prolog was here; written by the prolog, removed by the epilog, which so knows whose end it is
//   gate/             what the gate remembers from one job to the next (spank/roll.h)
//   agent.sock        where the agent listens
//
// The order of writes is the protocol: the agent writes held/ and then looks for ended/; the epilog writes ended/ and
// then looks for held/. Whoever comes second sees the other.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/message.h"

namespace berth {

class RunDir {
  public:
    explicit RunDir(std::string root) : root_(std::move(root)) {}

    static std::string expand(std::string_view pattern, std::string_view node);  // "%n" -> node name
    static std::string job_name(std::uint32_t job, std::string_view nonce);      // "12.0123456789abcdef"

    // Creates what is missing: the directory 0755, because slurmctld looks for the controller's files there, and those
    // of the records 0700. Refuses one that is no directory, or that others than its owner may write to.
    bool make(std::string &why) const;
    bool made() const;  // whether make() was here before
    std::string socket_path() const { return root_ + "/agent.sock"; }

    enum Kind { jobs, ended, held, begun, gate };
    bool write(Kind kind, const std::string &name, const Message &message, std::string &why) const;
    std::optional<Message> read(Kind kind, const std::string &name) const;
    bool exists(Kind kind, const std::string &name) const;  // also when that cannot be told: no memory, a fault below
    void remove(Kind kind, const std::string &name) const;
    // Names of all records of the kind; false when the directory cannot be read for another reason than its absence.
    bool list(Kind kind, std::vector<std::string> &names) const;
    // Seconds since the record was written, by the clock of the file system; nothing when it is not there.
    std::optional<long> age_seconds(Kind kind, const std::string &name) const;

  private:
    std::string path(Kind kind, const std::string &name) const;
    std::string root_;
};

}  // namespace berth
