// The bytes of a watch, in chunks of any size. First byte: how the rest is cut.
#include "agent/kube/frames.h"

#include <algorithm>

#include "test/fuzz/fuzz.h"

using berth::kube::Frames;
namespace fuzz = berth::fuzz;

namespace {

constexpr std::size_t longest = 40;

struct Lines {
    std::vector<std::string> lines;
    bool overlong = false;
};

Lines cut(std::string_view text, std::size_t chunk) {
    Frames frames(longest);
    Lines out;
    while (!text.empty()) {
        const std::size_t n = std::min(chunk, text.size());
        // A copy of exactly this size: reading beyond the chunk is seen.
        frames.append(std::string(text.substr(0, n)));
        text.remove_prefix(n);
        while (const auto line = frames.next()) {
            fuzz::require(!line->empty() && line->size() <= longest && line->find('\n') == std::string_view::npos, "a line is one line", *line);
            volatile char touched = 0;
            for (std::size_t i = 0; i < Frames::padding; ++i)
                touched = line->data()[line->size() + i];  // as the JSON parser may
            (void)touched;
            out.lines.emplace_back(*line);
        }
        if (frames.overlong()) {
            out.overlong = true;
            fuzz::require(!frames.next(), "nothing comes after an overlong line");
            frames.append("x\n");
            fuzz::require(!frames.next(), "nothing comes after an overlong line");
            frames.clear();
            frames.append("x\n");
            fuzz::require(frames.next() == "x", "a new stream begins after clear()");
            break;
        }
    }
    return out;
}

// The same by the simplest means.
Lines reference(std::string_view text) {
    Lines out;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos || end > longest) {
            out.overlong = std::min(end, text.size()) > longest;
            break;
        }
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r'))
            line.remove_suffix(1);
        if (!line.empty())
            out.lines.emplace_back(line);
        text.remove_prefix(end + 1);
    }
    return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    if (size == 0)
        return 0;
    const std::string_view text = fuzz::as_text(data + 1, size - 1);
    const Lines got = cut(text, data[0] % 64 + 1u), whole = cut(text, text.size() + 1), expected = reference(text);
    fuzz::require(whole.lines == expected.lines && whole.overlong == expected.overlong, "lines are those of the text", text);
    fuzz::require(got.lines == whole.lines && got.overlong == whole.overlong, "chunks change nothing", text);
    return 0;
}
