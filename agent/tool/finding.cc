#include "agent/tool/finding.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/json_object.h"

namespace berth::tool {

namespace {

const char *name(Grade grade) { return grade == Grade::ok ? "ok" : grade == Grade::warning ? "warning" : "problem"; }

Tone tone(Grade grade) { return grade == Grade::ok ? Tone::good : grade == Grade::warning ? Tone::waiting : Tone::bad; }

std::size_t count(const Findings &findings, Grade grade) {
    return static_cast<std::size_t>(
        std::count_if(findings.begin(), findings.end(), [grade](const Finding &one) { return one.grade == grade; }));
}

}  // namespace

bool any_problem(const Findings &findings) { return count(findings, Grade::problem) > 0; }

std::string to_text(const Findings &findings, const Paint &paint) {
    std::string out, section;
    for (const Finding &one : findings) {
        if (one.section != section)
            out += fmt::format("{}{}\n", out.empty() ? "" : "\n", paint(Tone::heading, section = one.section));
        out += fmt::format("  {}  {}\n", paint(tone(one.grade), fmt::format("{:<7}", name(one.grade))), one.text);
        if (!one.advice.empty())
            out += fmt::format("  {:<7}  What to do: {}\n", "", one.advice);
    }
    const std::size_t problems = count(findings, Grade::problem), warnings = count(findings, Grade::warning);
    return out + fmt::format("\n{} checks: {} {}, {} {}\n", findings.size(), problems, problems == 1 ? "problem" : "problems", warnings,
                             warnings == 1 ? "warning" : "warnings");
}

std::string to_json(const Findings &findings) {
    std::vector<JsonObject> list;
    for (const Finding &one : findings)
        list.push_back(JsonObject()
                           .add("section", one.section)
                           .add("check", one.check)
                           .add("grade", name(one.grade))
                           .add("text", one.text)
                           .add("advice", one.advice));
    return JsonObject()
        .add("problems", count(findings, Grade::problem))
        .add("warnings", count(findings, Grade::warning))
        .add("findings", list)
        .text();
}

}  // namespace berth::tool
