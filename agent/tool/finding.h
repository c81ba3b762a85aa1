// Finding: what one check of `berth doctor` found, and how a list of them is shown. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/tool/paint.h"

namespace berth::tool {

enum class Grade : std::uint8_t { ok, warning, problem };

struct Finding {
    Grade grade = Grade::ok;
    std::string section;  // "Slurm", "Nodes": a heading
    std::string check;    // names the check for programs: "prolog_flags"
    std::string text;     // what is the case
    std::string advice;   // what to do; empty when all is well
};
using Findings = std::vector<Finding>;

// Collects the findings of one section.
class Section {
  public:
    Section(std::string name, Findings &out) : name_(std::move(name)), out_(out) {}

    void ok(const char *check, std::string text) { add(Grade::ok, check, std::move(text), ""); }
    void warn(const char *check, std::string text, std::string advice) { add(Grade::warning, check, std::move(text), std::move(advice)); }
    void problem(const char *check, std::string text, std::string advice) {
        add(Grade::problem, check, std::move(text), std::move(advice));
    }

  private:
    void add(Grade grade, const char *check, std::string text, std::string advice) {
        out_.push_back({grade, name_, check, std::move(text), std::move(advice)});
    }
    std::string name_;
    Findings &out_;
};

bool any_problem(const Findings &findings);
std::string to_text(const Findings &findings, const Paint &paint = Paint());
std::string to_json(const Findings &findings);

}  // namespace berth::tool
