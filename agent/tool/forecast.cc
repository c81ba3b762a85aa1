#include "agent/tool/forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/tool/moments.h"

namespace berth::tool {

namespace {

constexpr std::time_t at_once = 5;  // what starts within so many seconds starts now

const ForecastPart *first_problem(const DryRun &run) {
    const auto found = std::find_if(run.parts.begin(), run.parts.end(), [](const ForecastPart &part) { return !part.problem.empty(); });
    return found != run.parts.end() ? &*found : nullptr;
}

std::string advice_for(const std::string &problem) {
    const auto has = [&problem](std::string_view words) { return problem.find(words) != std::string::npos; };
    if (has("node configuration is not available"))
        return "No node, or no allowed set of nodes, can ever hold it: ask for fewer CPUs, less memory or fewer GPUs per pod, or choose "
               "another partition.";
    if (has("nvalid account"))
        return "Choose an account that the user has (sacctmgr show assoc), or ask the site's administrators about the tenant in "
               "berth.yaml.";
    if (has("nvalid qos") || has("nvalid QOS"))
        return "Choose a QOS that the user has (sacctmgr show assoc), or none.";
    if (has("nvalid partition") || has("partition"))
        return "Choose a partition that takes it: sinfo lists them, the annotation slurmjob.slinky.slurm.net/partition names one.";
    if (has("time limit") || has("Time limit"))
        return "Ask for less time: annotation slurmjob.slinky.slurm.net/timelimit.";
    if (has("contact slurm controller") || has("onnect"))
        return "Try again when slurmctld answers (scontrol ping).";
    return "Change what Slurm names, and try again. Ask the site's administrators if it is no fault of yours.";
}

std::string where(const slurm::Forecast &answer) { return answer.nodes.empty() ? "" : " on " + answer.nodes; }

}  // namespace

Outlook outlook(const DryRun &run) {
    Outlook out;
    if (!run.refused.empty()) {
        out.verdict = "refused";
        out.summary = fmt::format("{} would not be submitted to Slurm: {}.", run.workload, run.refused);
        out.advice = "Correct what the message names.";
    } else if (const ForecastPart *bad = first_problem(run)) {
        out.verdict = "never";
        out.summary = fmt::format("Slurm would refuse {}: {}.", run.workload, bad->problem);
        out.advice = advice_for(bad->problem);
    } else {
        std::time_t last = 0;
        std::string nodes;
        std::size_t preempted = 0;
        for (const ForecastPart &part : run.parts)
            if (part.answer) {
                last = std::max(last, part.answer->start);
                nodes += (nodes.empty() ? "" : ",") + part.answer->nodes;
                preempted += part.answer->preempts.size();
            }
        const bool now = last <= run.now + at_once;
        out.verdict = now ? "now" : "later";
        out.summary =
            fmt::format("{} would start {}{}{}.", run.workload, now ? "at once" : "about " + moment_words(last, run.now),
                        nodes.empty() ? "" : " on " + nodes,
                        preempted == 0 ? "" : fmt::format(", in the place of {} running {}", preempted, preempted == 1 ? "job" : "jobs"));
        out.advice = now ? fmt::format("Create it: kubectl apply -f {}.", run.file)
                         : "Create it now to take its place in the queue. A shorter time limit may let it start earlier.";
    }
    if (run.scheduler != run.berth_scheduler) {
        out.verdict = "other_scheduler";
        out.summary =
            fmt::format("{} names the scheduler {}, so Slurm would never see it. Otherwise: {}", run.workload, run.scheduler, out.summary);
        out.advice = fmt::format("Set spec.schedulerName: {} in its pod spec.", run.berth_scheduler);
    }
    return out;
}

std::string sbatch_words(const Placeholder &p) {
    std::string out = "sbatch";
    const auto add = [&out](std::string_view option, const auto &value) { out += fmt::format(" --{}={}", option, value); };
    const auto add_text = [&add](std::string_view option, const std::string &value) {
        if (!value.empty())
            add(option, value.find_first_of(" &|;<>()[]*") == std::string::npos ? value : "'" + value + "'");
    };
    add_text("account", p.account);
    add_text("partition", p.partition);
    add_text("qos", p.qos);
    add_text("reservation", p.reservation);
    if (p.max_nodes != 0 && p.max_nodes == p.min_nodes)
        add("nodes", p.min_nodes);
    else if (p.min_nodes > 1 || p.max_nodes != 0)
        add("nodes", p.max_nodes != 0 ? fmt::format("{}-{}", p.min_nodes, p.max_nodes) : std::to_string(p.min_nodes));
    add("ntasks", p.tasks);
    add("cpus-per-task", p.cpus_per_task);
    if (p.tasks > 1)
        add("mem-per-cpu", fmt::format("{}M", (p.memory_mib + p.cpus_per_task - 1) / std::max<std::uint16_t>(p.cpus_per_task, 1)));
    else
        add("mem", fmt::format("{}M", p.memory_mib));
    if (!p.gres.empty())
        add(p.tasks > 1 ? "tres-per-task" : "gres", gres_text(p.gres));
    if (p.time_limit_minutes != 0)
        add("time", p.time_limit_minutes);
    add_text("constraint", p.constraints);
    add_text("prefer", p.prefer);
    add_text("licenses", p.licenses);
    add_text("exclude", p.excluded_nodes);
    add_text("dependency", p.dependency);
    if (p.exclusive)
        out += " --exclusive";
    if (p.nice)
        add("nice", *p.nice);
    return out;
}

std::string to_text(const DryRun &run, const Paint &paint) {
    const Outlook answer = outlook(run);
    std::string out = paint(answer.good() ? Tone::good : Tone::bad, answer.summary) + "\n";
    for (const ForecastPart &part : run.parts) {
        const Placeholder &p = part.asked;
        const auto line = [&out, &paint](std::string_view name, const std::string &text) {
            if (!text.empty())
                out += fmt::format("  {}  {}\n", paint(Tone::faint, fmt::format("{:<10}", name)), text);
        };
        out += "\n";
        line("user", part.user + (part.group.empty() || part.group == part.user ? "" : ", group " + part.group));
        line("account", p.account);
        line("partition", p.partition.empty() ? "Slurm's default" : p.partition);
        line("QOS", p.qos);
        line("pods", p.tasks == 1 && run.parts.size() == 1 ? "1" : fmt::format("{} that start together", p.tasks));
        line("per pod", fmt::format("{} {}, {}{}", p.cpus_per_task, p.cpus_per_task == 1 ? "CPU" : "CPUs", mebibyte_words(p.memory_mib),
                                    p.gres.empty() ? "" : ", " + gres_text(p.gres)));
        line("time limit", p.time_limit_minutes == 0 ? "the partition's" : limit_words(p.time_limit_minutes));
        line("in words", sbatch_words(p));
        if (part.answer && run.parts.size() > 1)
            line("answer", fmt::format("{}{}", moment_words(part.answer->start, run.now), where(*part.answer)));
    }
    if (!run.notes.empty())
        out += "\n";
    for (const std::string &note : run.notes)
        out += fmt::format("  note: {}\n", note);
    return out + fmt::format("\n{} {}\n", paint(Tone::heading, "What to do:"), answer.advice);
}

JsonObject to_json(const DryRun &run) {
    const Outlook answer = outlook(run);
    JsonObject out;
    out.add("workload", run.workload).add("verdict", answer.verdict).add("summary", answer.summary).add("pods", run.pods);
    std::vector<JsonObject> parts;
    for (const ForecastPart &part : run.parts) {
        const Placeholder &p = part.asked;
        JsonObject one;
        one.add("user", part.user).add("group", part.group).add("account", p.account).add("partition", p.partition).add("qos", p.qos);
        one.add("pods", p.tasks)
            .add("cpus_per_pod", p.cpus_per_task)
            .add("memory_mib_per_pod", p.memory_mib)
            .add("gres_per_pod", gres_text(p.gres));
        one.add("time_limit_minutes", p.time_limit_minutes).add("excluded_nodes", p.excluded_nodes).add("sbatch", sbatch_words(p));
        one.add_time("start", part.answer ? part.answer->start : 0)
            .add("nodes", part.answer ? part.answer->nodes : "")
            .add("problem", part.problem);
        parts.push_back(one);
    }
    out.add("parts", parts).add("asked_as", run.asked_as).add("notes", run.notes).add("advice", answer.advice);
    return out;
}

}  // namespace berth::tool
