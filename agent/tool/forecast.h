// Forecast of a workload that is not created yet: what Slurm would be asked for, and its answer, as text and JSON. Pure; dry_run.h fills
// it.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "agent/json_object.h"
#include "agent/slurm/will_run.h"
#include "agent/tool/paint.h"
#include "agent/translate/placeholder.h"

namespace berth::tool {

struct ForecastPart {
    Placeholder asked;
    std::string user, group;
    std::optional<slurm::Forecast> answer;
    std::string problem;  // what slurmctld says against it
};

struct DryRun {
    std::string workload;  // "Pod team-a/train"
    std::string file;
    std::time_t now = 0;
    std::string scheduler, berth_scheduler;
    std::uint32_t pods = 1;
    std::string refused;  // why Berth would not submit it
    std::vector<ForecastPart> parts;
    std::vector<std::string> notes;
    std::string asked_as;  // the user that slurmctld was asked for
};

struct Outlook {
    // One of: now, later, never (Slurm says no), refused (Berth says no), other_scheduler.
    std::string verdict, summary, advice;
    bool good() const { return verdict == "now" || verdict == "later"; }
};
Outlook outlook(const DryRun &run);

// "sbatch --partition=main --ntasks=8 ...": what a person would type for the same.
std::string sbatch_words(const Placeholder &placeholder);

std::string to_text(const DryRun &run, const Paint &paint = Paint());
JsonObject to_json(const DryRun &run);

}  // namespace berth::tool
