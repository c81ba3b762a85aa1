#include "agent/node/recovery.h"

namespace berth::node {

Held read_held(const RunDir &run_dir) {
    Held out;
    std::vector<std::string> names;
    run_dir.list(RunDir::held, names);
    for (const std::string &name : names) {
        const auto record = run_dir.read(RunDir::held, name);
        const auto job = record ? record->number("job") : std::nullopt;
        if (!job || record->get("uid").empty()) {
            out.unreadable.push_back(name);
            continue;
        }
        HeldPod held;
        held.job = static_cast<std::uint32_t>(*job);
        held.nonce = record->get("nonce");
        held.pod = {std::string(record->get("ns")), std::string(record->get("name")), std::string(record->get("uid"))};
        held.slot = parse_slot(record->get("slot"));
        const std::string key = RunDir::job_name(held.job, held.nonce);
        held.allocation = run_dir.read(RunDir::jobs, key);
        held.ended = run_dir.exists(RunDir::ended, key);
        out.pods.push_back(std::move(held));
    }
    return out;
}

std::vector<Message> untaken_allocations(const RunDir &run_dir, const KnownJob &known) {
    std::vector<Message> out;
    std::vector<std::string> names;
    run_dir.list(RunDir::jobs, names);
    for (const std::string &name : names) {
        if (known(name))
            continue;
        if (run_dir.exists(RunDir::ended, name))
            run_dir.remove(RunDir::jobs, name);
        else if (auto record = run_dir.read(RunDir::jobs, name))
            out.push_back(std::move(*record));
    }
    return out;
}

void drop_old_ends(const RunDir &run_dir, const KnownJob &known, long keep_seconds) {
    std::vector<std::string> names;
    run_dir.list(RunDir::ended, names);
    for (const std::string &name : names)
        if (run_dir.age_seconds(RunDir::ended, name).value_or(0) > keep_seconds && !known(name))
            run_dir.remove(RunDir::ended, name);
}

}  // namespace berth::node
