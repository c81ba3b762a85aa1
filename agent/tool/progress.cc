#include "agent/tool/progress.h"

#include <fmt/format.h>

#include <cstdlib>

#include "agent/tool/paint.h"

namespace berth::tool {

namespace {

constexpr const char *erase_line = "\r\x1b[K";

}  // namespace

Progress::Progress(std::FILE *err) : err_(on_terminal(err) && std::getenv("TERM") != nullptr ? err : nullptr) {}

Progress::~Progress() { clear(); }

void Progress::say(std::string_view what) {
    if (err_ == nullptr)
        return;
    fmt::print(err_, "{}{}...", erase_line, what);
    std::fflush(err_);
    shown_ = true;
}

void Progress::clear() {
    if (!shown_)
        return;
    fmt::print(err_, "{}", erase_line);
    std::fflush(err_);
    shown_ = false;
}

}  // namespace berth::tool
