// The agent's log: one line per message on standard error, "<3>" style priorities under systemd, times elsewhere.
// Lines are written by a thread of their own through a bounded queue; a full queue drops the oldest and counts it, so
// a stuck reader of the log never stops the event loop. Callable from any thread.
#pragma once

#include <fmt/core.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace berth::log {

enum class Level { debug, info, warning, error };

void start(Level lowest, std::string_view name);  // once, from main(); before it, messages go straight to stderr
void stop();                                      // writes what is queued
void write(Level level, std::string_view text);
bool enabled(Level level);
std::size_t dropped();

struct Line {
    std::chrono::system_clock::time_point when;
    Level level;
    std::string text;
};
// The latest lines from info on, the oldest first; none before start().
std::vector<Line> recent();

template <class... A>
void debug(fmt::format_string<A...> f, A &&...a) {
    if (enabled(Level::debug))
        write(Level::debug, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void info(fmt::format_string<A...> f, A &&...a) {
    if (enabled(Level::info))
        write(Level::info, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void warning(fmt::format_string<A...> f, A &&...a) {
    write(Level::warning, fmt::format(f, std::forward<A>(a)...));
}
template <class... A>
void error(fmt::format_string<A...> f, A &&...a) {
    write(Level::error, fmt::format(f, std::forward<A>(a)...));
}

}  // namespace berth::log
