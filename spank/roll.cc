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

Roll::Roll(const RunDir &run_dir) : run_dir_(run_dir), watch_(current_watch(run_dir)) {
    const auto record = run_dir.read(RunDir::gate, roll_record);
    const auto before = record ? record->number("epoch") : std::nullopt;
    epoch_ = ask_epoch(before.value_or(0));
    if (epoch_ && epoch_->same)
        names_ = read(epoch_->moment);
}

std::set<std::string> Roll::read(unsigned long moment) const {
    std::set<std::string> out;
    const auto record = run_dir_.read(RunDir::gate, roll_record);
    if (!record || watch_.empty() || record->get("watch") != watch_ || record->number("epoch") != moment)
        return out;
    for (std::string_view rest = record->get("jobs"); !rest.empty();) {
        const std::size_t end = rest.find(',');
        out.emplace(rest.substr(0, end));
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return out;
}

void Roll::write(const std::set<std::string> &job_names) const {
    if (!epoch_ || watch_.empty() || job_names == names_)
        return;
    std::string names;
    const auto add = [&](const std::string &name) { names.append(names.empty() ? "" : ",").append(name); };
    for (const std::string &name : job_names)
        add(name);
    // In a burst many pass at once, and the last to write would forget the others.
    for (const std::string &name : read(epoch_->moment))
        if (job_names.count(name) == 0 && names_.count(name) == 0 && run_dir_.exists(RunDir::jobs, name) && !run_dir_.exists(RunDir::ended, name))
            add(name);
    Message record{"roll", {}};
    record.set("watch", watch_).set("epoch", epoch_->moment).set("jobs", names);
    std::string why;  // without a roll the next job asks more: nothing to complain about
    run_dir_.write(RunDir::gate, roll_record, record, why);
}

void Roll::forget(const RunDir &run_dir) { run_dir.remove(RunDir::gate, watch_record); }

bool spans_nodes(std::string_view nodelist) { return nodelist.empty() || nodelist.find_first_of("[,") != std::string_view::npos; }

}  // namespace berth
