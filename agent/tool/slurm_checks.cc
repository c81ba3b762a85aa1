#include "agent/tool/slurm_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

namespace berth::tool {

namespace {

constexpr const char *section_name = "Slurm";
constexpr std::int64_t default_hold = 900, default_gate = 900, longest = 86400;  // of spank_berth.so

// Whether a comma-separated list has this word; what follows a '=' in it does not count.
bool has_word(std::string_view list, std::string_view word) {
    while (!list.empty()) {
        const std::string_view one = list.substr(0, list.find(','));
        if (one.substr(0, one.find('=')) == word)
            return true;
        list.remove_prefix(std::min(one.size() + 1, list.size()));
    }
    return false;
}

std::string version_text(std::uint32_t number) {
    return fmt::format("{:02}.{:02}.{}", number >> 16 & 0xff, number >> 8 & 0xff, number & 0xff);
}

// "22.05" of "22.05.8-1".
std::string release(const std::string &version) {
    const std::size_t first = version.find('.');
    const std::size_t second = first == std::string::npos ? first : version.find('.', first + 1);
    return version.substr(0, second);
}

// "22.05.8" of "22.05.8-1".
std::string plain(const std::string &version) { return version.substr(0, version.find_first_not_of("0123456789.")); }

}  // namespace

void check_slurm_conf(const slurm::Settings &s, std::size_t jobs, const Config *config, Findings &out) {
    Section section(section_name, out);
    if (has_word(s.job_submit_plugins, "berth"))
        section.ok("job_submit_plugins", "JobSubmitPlugins has berth");
    else
        section.problem("job_submit_plugins",
                        fmt::format("JobSubmitPlugins is \"{}\": placeholders are not sealed, so nodes ignore them and no pod is bound",
                                    s.job_submit_plugins),
                        "Put berth into JobSubmitPlugins in slurm.conf and restart slurmctld.");
    if (s.prolog_alloc && s.prolog_contain)
        section.ok("prolog_flags", "PrologFlags has Alloc and Contain");
    else if (s.prolog_alloc)
        section.warn("prolog_flags", "PrologFlags has Alloc, but not Contain: a node does not hear of a job that slurmctld lost",
                     "Set PrologFlags=Alloc,Contain in slurm.conf.");
    else
        section.problem("prolog_flags", "PrologFlags has no Alloc: a job without steps gets no prolog, so no pod is ever bound",
                        "Set PrologFlags=Alloc,Contain in slurm.conf.");
    if (has_word(s.scheduler_parameters, "disable_job_shrink"))
        section.ok("disable_job_shrink", "SchedulerParameters has disable_job_shrink");
    else
        section.problem(
            "disable_job_shrink",
            "SchedulerParameters has no disable_job_shrink: the owner of a running placeholder can give nodes back under a living pod",
            "Add disable_job_shrink to SchedulerParameters in slurm.conf.");
    if (s.select_type.find("cons_tres") != std::string::npos)
        section.ok("select_type", "SelectType is cons_tres");
    else
        section.problem(
            "select_type",
            fmt::format("SelectType is {}: Berth asks for CPUs and memory, which only select/cons_tres shares out", s.select_type),
            "Set SelectType=select/cons_tres in slurm.conf.");
    if (s.inactive_limit == 0)
        section.ok("inactive_limit", "InactiveLimit is 0");
    else
        section.warn(
            "inactive_limit",
            fmt::format(
                "InactiveLimit is {} s: slurmctld gets no doorbell, and a cancelled pending job is noticed only by the next reconcile",
                s.inactive_limit),
            "Set InactiveLimit=0 in slurm.conf, which is its default.");
    if (config != nullptr) {
        const auto wanted = 2 * config->controller.reconcile.count();
        if (s.min_job_age >= wanted)
            section.ok("min_job_age", fmt::format("MinJobAge ({} s) is at least twice controller.reconcile", s.min_job_age));
        else
            section.problem(
                "min_job_age",
                fmt::format("MinJobAge is {} s, less than twice controller.reconcile ({} s): slurmctld may forget how a job ended before "
                            "the controller has looked",
                            s.min_job_age, config->controller.reconcile.count()),
                fmt::format("Set MinJobAge to {} or more in slurm.conf, or controller.reconcile lower in berth.yaml.", wanted));
    }
    if (jobs * 10 < std::size_t{s.max_job_count} * 8)
        section.ok("max_job_count", fmt::format("MaxJobCount is {}, {} jobs are known", s.max_job_count, jobs));
    else
        section.warn("max_job_count",
                     fmt::format("slurmctld knows {} jobs and takes {} at most; each pod that waits or runs is one", jobs, s.max_job_count),
                     "Raise MaxJobCount in slurm.conf.");
    if (has_word(s.auth_info, "use_client_ids"))
        section.problem("use_client_ids",
                        "AuthInfo has use_client_ids, which Berth is not tested with: jobs may get another identity than their tenant's",
                        "Remove use_client_ids from AuthInfo in slurm.conf.");
    else
        section.ok("use_client_ids", "AuthInfo has no use_client_ids");
    if (!s.federation_parameters.empty())
        section.warn("federation",
                     fmt::format("FederationParameters is \"{}\": Berth is not tested in a federation", s.federation_parameters),
                     "Keep the cluster that serves Kubernetes out of federations.");
    if (s.accounting && !s.stores_comments)
        section.warn("job_comment", "AccountingStoreFlags has no job_comment: sacct does not say which pod a job was for",
                     "Set AccountingStoreFlags=job_comment in slurm.conf.");
    else if (s.accounting)
        section.ok("job_comment", "AccountingStoreFlags has job_comment");
}

std::string PlugstackEntry::option(std::string_view key, std::string otherwise) const {
    const auto found = options.find(key);
    return found != options.end() ? found->second : std::move(otherwise);
}

std::optional<std::int64_t> PlugstackEntry::seconds(std::string_view key) const {
    const std::string text = option(key, std::to_string(key == "hold" ? default_hold : default_gate));
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > longest)
        return std::nullopt;
    return value;
}

std::vector<PlugstackEntry> parse_plugstack(std::string_view text, const std::string &file) {
    std::vector<PlugstackEntry> out;
    std::istringstream lines{std::string(text)};
    std::string line;
    for (std::size_t number = 1; std::getline(lines, line); ++number) {
        std::istringstream words{line.substr(0, line.find('#'))};
        PlugstackEntry entry;
        std::string how, word;
        words >> how >> entry.path;
        if (entry.path.substr(entry.path.rfind('/') + 1) != "spank_berth.so")
            continue;
        entry.required = how == "required";
        entry.place = fmt::format("{}:{}", file, number);
        while (words >> word) {
            const std::size_t equals = word.find('=');
            entry.options[word.substr(0, equals)] = equals == std::string::npos ? "" : word.substr(equals + 1);
        }
        out.push_back(std::move(entry));
    }
    return out;
}

void check_plugstack(const PlugstackFacts &facts, const Config *config, Findings &out) {
    Section section(section_name, out);
    if (!facts.problem.empty())
        return section.problem(
            "plugstack", fmt::format("plugstack.conf cannot be read: {}", facts.problem),
            "Make sure that it is beside slurm.conf on every node and login host and has the line: required spank_berth.so");
    if (facts.entries.empty())
        return section.problem("plugstack", fmt::format("{} has no line for spank_berth.so: no pod is ever bound", facts.path),
                               "Add the line: required spank_berth.so");
    if (facts.entries.size() > 1)
        section.problem("plugstack",
                        fmt::format("spank_berth.so is named {} times, in {} and {}", facts.entries.size(), facts.entries[0].place,
                                    facts.entries[1].place),
                        "Keep one of the lines.");
    const PlugstackEntry &entry = facts.entries.front();
    if (entry.required)
        section.ok("plugstack", fmt::format("{}: spank_berth.so is required", entry.place));
    else
        section.problem("plugstack",
                        fmt::format("{}: spank_berth.so is not required, so Slurm ignores what it answers and nothing keeps other jobs off "
                                    "a pod that outlives its job",
                                    entry.place),
                        "Write `required` in front of it.");
    for (const auto &[key, value] : entry.options) {
        const bool number = key == "hold" || key == "gate", file = key == "run_dir" || key == "key";
        if ((number && !entry.seconds(key)) || (file && !value.starts_with('/')) || (!number && !file))
            section.problem("plugstack_options",
                            fmt::format("{}: {}={} is not understood, and the default counts", entry.place, key, value),
                            "The options are run_dir=/DIR, key=/FILE, hold=SECONDS and gate=SECONDS (1 to 86400).");
    }
    if (config == nullptr)
        return;
    if (const std::string dir = entry.option("run_dir", NodeConfig().run_dir); dir == config->node.run_dir)
        section.ok("run_dir", fmt::format("run_dir is {} for plugin and agent", dir));
    else
        section.problem("run_dir",
                        fmt::format("the plugin's run_dir is {}, node.run_dir in berth.yaml is {}: plugin and agent do not find each other",
                                    dir, config->node.run_dir),
                        "Give both the same directory.");
    if (const std::string key = entry.option("key", Config().key_file); key != config->key_file)
        section.warn("plugstack_key", fmt::format("the plugin reads the key {}, key_file in berth.yaml is {}", key, config->key_file),
                     "Name one file in both, or make sure that both hold the same key.");
}

void check_plugin_files(const std::vector<PluginFile> &files, const slurm::Settings &settings, Findings &out) {
    Section section(section_name, out);
    for (const PluginFile &file : files) {
        if (file.path.empty()) {
            section.problem("plugin_file", fmt::format("{} is in none of {}", file.name, settings.plugin_dirs),
                            fmt::format("Install the package slurm-plugins-berth for Slurm {} on this host.", plain(settings.version)));
            continue;
        }
        if (!file.problem.empty()) {
            section.problem("plugin_file", fmt::format("{}: {}", file.path, file.problem), "Install it again.");
            continue;
        }
        const std::string made_for = version_text(file.version), runs = plain(settings.version);
        if (file.exact ? made_for == runs : release(made_for) == release(runs))
            section.ok("plugin_file", fmt::format("{} is made for Slurm {}", file.name, made_for));
        else
            section.problem("plugin_file",
                            fmt::format("{} is made for Slurm {}, and slurmctld is {}: {}", file.path, made_for, runs,
                                        file.exact ? "slurmctld does not start with it" : "slurmd does not load it"),
                            fmt::format("Install the package slurm-plugins-berth that was built for Slurm {}, or compile Berth against it.", runs));
    }
}

void check_timeouts(const slurm::Settings *settings, const PlugstackFacts &plugstack, const Config &config, Findings &out) {
    Section section("Timeouts", out);
    const auto &hold = config.hold;
    const std::int64_t needed = (hold.limit + hold.kill_wait + hold.api_down).count();
    if (hold.max_grace > hold.limit)
        section.problem("max_grace",
                        fmt::format("hold.max_grace ({} s) is longer than hold.limit ({} s)", hold.max_grace.count(), hold.limit.count()),
                        "Make hold.limit in berth.yaml at least as long.");
    if (plugstack.entries.empty())
        return;
    const PlugstackEntry &entry = plugstack.entries.front();
    for (const char *const which : {"hold", "gate"}) {
        const std::int64_t seconds = entry.seconds(which).value_or(default_hold);
        if (seconds >= needed)
            section.ok(which, fmt::format("{}={} in plugstack.conf is enough for hold.limit + hold.kill_wait + hold.api_down ({} s)", which,
                                          seconds, needed));
        else
            section.problem(
                which,
                fmt::format("{}={} in plugstack.conf is shorter than hold.limit + hold.kill_wait + hold.api_down in berth.yaml ({} s): {}",
                            which, seconds, needed,
                            *which == 'h' ? "the epilog drains the node while the agent still may end the pod"
                                          : "a waiting job drains the node too early"),
                fmt::format("Set {}={} or more, or shorten the times in berth.yaml.", which, needed));
        if (settings == nullptr || !settings->prolog_epilog_timeout)
            continue;
        if (*settings->prolog_epilog_timeout > seconds)
            section.ok("prolog_epilog_timeout",
                       fmt::format("PrologEpilogTimeout ({} s) is longer than {}={}", *settings->prolog_epilog_timeout, which, seconds));
        else
            section.problem("prolog_epilog_timeout",
                            fmt::format("PrologEpilogTimeout is {} s, not longer than {}={} in plugstack.conf: Slurm kills the {} and "
                                        "drains the node with a reason that names no pod",
                                        *settings->prolog_epilog_timeout, which, seconds, *which == 'h' ? "epilog" : "prolog"),
                            fmt::format("Set PrologEpilogTimeout above {} in slurm.conf, or leave it unset.", seconds));
    }
}

void check_versions(const slurm::Settings &settings, Findings &out) {
    Section section(section_name, out);
    if (release(settings.version) == release(settings.client_version))
        section.ok("versions", fmt::format("slurmctld is {}, libslurm here {}", settings.version, settings.client_version));
    else
        section.warn("versions", fmt::format("slurmctld is {}, libslurm here {}", settings.version, settings.client_version),
                     "Run the same release of Slurm on all hosts, or Berth's agents at least with that of slurmctld.");
}

}  // namespace berth::tool
