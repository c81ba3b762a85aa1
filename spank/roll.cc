#include "spank/roll.h"

#include <unistd.h>

#include <ctime>

namespace berth {

namespace {

constexpr const char *watch_record = "watch", *roll_record = "roll";

// The name of this stretch of time; the first to ask gives it one.
std::string current_watch(const RunDir &run_dir) {
    if (const auto record = run_dir.read(RunDir::gate, watch_record))
        return std::string(record->get("name"));
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    const std::string name = std::to_string(now.tv_sec) + "." + std::to_string(now.tv_nsec) + "." + std::to_string(getpid());
    std::string why;
    return run_dir.make(why) && run_dir.write(RunDir::gate, watch_record, Message{"watch", {}}.set("name", name), why) ? name : "";
}

}  // namespace

Roll::Roll(const RunDir &run_dir) : run_dir_(run_dir), watch_(current_watch(run_dir)), epoch_(ask_epoch()) {
    const auto record = run_dir.read(RunDir::gate, roll_record);
    if (record && epoch_ && !watch_.empty() && record->get("watch") == watch_ && record->number("started") == epoch_->started &&
        record->number("configured") == epoch_->configured)
        for (std::string_view rest = record->get("jobs"); !rest.empty();) {
            const std::size_t end = rest.find(',');
            names_.emplace(rest.substr(0, end));
            rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        }
}

void Roll::write(const std::set<std::string> &job_names) const {
    if (!epoch_ || watch_.empty() || job_names == names_)
        return;
    std::string names;
    for (const std::string &name : job_names)
        names.append(names.empty() ? "" : ",").append(name);
    Message record{"roll", {}};
    record.set("watch", watch_).set("started", epoch_->started).set("configured", epoch_->configured).set("jobs", names);
    std::string why;  // without a roll the next job asks more: nothing to complain about
    run_dir_.write(RunDir::gate, roll_record, record, why);
}

void Roll::forget(const RunDir &run_dir) { run_dir.remove(RunDir::gate, watch_record); }

bool spans_nodes(std::string_view nodelist) { return nodelist.empty() || nodelist.find_first_of("[,") != std::string_view::npos; }

}  // namespace berth
