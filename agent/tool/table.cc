#include "agent/tool/table.h"

#include <algorithm>

namespace berth::tool {

Table::Table(const std::vector<std::string> &headings) {
    rows_.emplace_back();
    for (const std::string &heading : headings)
        rows_.front().emplace_back(heading, Tone::heading);
}

std::string Table::text(const Paint &paint) const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto &row : rows_)
        for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
            widths[i] = std::max(widths[i], row[i].text.size());
    std::string out;
    for (const auto &row : rows_) {
        std::string line, gap;  // a gap is written only before something
        for (std::size_t i = 0; i < row.size(); ++i) {
            if (!row[i].text.empty()) {
                line += gap + paint(row[i].tone, row[i].text);
                gap.clear();
            }
            gap.append(widths[i] - row[i].text.size() + 2, ' ');
        }
        out += line + "\n";
    }
    return out;
}

}  // namespace berth::tool
