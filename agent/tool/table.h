// Table: aligned columns for people; the last one is as long as it likes. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/tool/paint.h"

namespace berth::tool {

struct Cell {
    Cell(std::string words, Tone meaning = Tone::plain) : text(std::move(words)), tone(meaning) {}  // NOLINT: a text is a cell
    Cell(const char *words) : Cell(std::string(words)) {}                                            // NOLINT
    std::string text;
    Tone tone;
};

class Table {
  public:
    explicit Table(const std::vector<std::string> &headings);
    void add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
    bool empty() const { return rows_.size() == 1; }
    std::string text(const Paint &paint = Paint()) const;

  private:
    std::vector<std::vector<Cell>> rows_;
};

}  // namespace berth::tool
