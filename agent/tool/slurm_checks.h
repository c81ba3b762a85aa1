// The doctor's checks of Slurm's side: slurm.conf, plugstack.conf, the plugins, and the clocks that must fit together. Pure: facts in,
// findings out.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/config.h"
#include "agent/slurm/settings.h"
#include "agent/tool/finding.h"

namespace berth::tool {

// slurm.conf. `jobs` is how many slurmctld knows at the moment; `config` may be null, and what depends on it is then left out.
void check_slurm_conf(const slurm::Settings &settings, std::size_t jobs, const Config *config, Findings &out);

// A line of plugstack.conf that names spank_berth.so.
struct PlugstackEntry {
    std::string place;  // "FILE:LINE"
    bool required = false;
    std::string path;  // of the plugin, as it is written
    std::map<std::string, std::string, std::less<>> options;

    std::string option(std::string_view key, std::string otherwise) const;
    std::optional<std::int64_t> seconds(std::string_view key) const;  // nothing: it is no number that the plugin takes
};
std::vector<PlugstackEntry> parse_plugstack(std::string_view text, const std::string &file);

struct PlugstackFacts {
    std::string path;     // plugstack.conf
    std::string problem;  // why it could not be read
    std::vector<PlugstackEntry> entries;
};
void check_plugstack(const PlugstackFacts &facts, const Config *config, Findings &out);

// A plugin's file on this host.
struct PluginFile {
    std::string name;           // "job_submit_berth.so"
    std::string path;           // empty: it was not found where Slurm looks
    std::string problem;        // why its version could not be read
    std::uint32_t version = 0;  // SLURM_VERSION_NUMBER of the Slurm that it was compiled for
    bool exact = false;         // slurmctld wants its own version to the last number, slurmd only the first two
};
void check_plugin_files(const std::vector<PluginFile> &files, const slurm::Settings &settings, Findings &out);

// docs/admin.md, "Timeouts that must fit together".
void check_timeouts(const slurm::Settings *settings, const PlugstackFacts &plugstack, const Config &config, Findings &out);

void check_versions(const slurm::Settings &settings, Findings &out);

}  // namespace berth::tool
