// Table: aligned columns for people; the last one is as long as it likes. Pure.
#pragma once

#include <string>
#include <vector>

namespace berth::tool {

class Table {
  public:
    explicit Table(std::vector<std::string> headings) { rows_.push_back(std::move(headings)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    bool empty() const { return rows_.size() == 1; }
    std::string text() const;

  private:
    std::vector<std::vector<std::string>> rows_;
};

}  // namespace berth::tool
