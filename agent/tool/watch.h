// Watch: one picture drawn again and again until somebody ends it with ^C. One thread; it takes over SIGINT, SIGTERM, SIGHUP, SIGTSTP and
// SIGWINCH.
#pragma once

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

namespace berth::tool {

// Writes what is to be seen, and its complaint where it cannot be found out; an exit status.
using Picture = std::function<int(std::FILE *out, std::FILE *err)>;

// On a terminal the pictures replace each other in place; the last one stays when it ends. Elsewhere they follow each other, divided by an
// empty line unless `lines` says that each is a line for a program. A picture that fails is shown as its complaint, and tried again.
// Returns when `out` takes no more; ^C ends the program with status 0.
int watch(const Picture &picture, std::chrono::milliseconds every, std::string_view title, bool lines, std::FILE *out);

struct Window {
    std::size_t rows = 24, columns = 80;
};
// What is written to a terminal of this size to have `text` in place of what was there: in one piece, and never empty on the way. Pure.
std::string redraw(std::string_view title, std::string_view text, Window window);

}  // namespace berth::tool
