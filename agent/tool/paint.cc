#include "agent/tool/paint.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

namespace berth::tool {

namespace {

// The sixteen colours that every terminal has, as its user has set them.
const char *code(Tone tone) {
    switch (tone) {
    case Tone::heading:
        return "1";
    case Tone::good:
        return "32";
    case Tone::waiting:
        return "33";
    case Tone::bad:
        return "1;31";
    case Tone::faint:
        return "2";
    case Tone::plain:
        break;
    }
    return "";
}

}  // namespace

std::string Paint::operator()(Tone tone, std::string_view text) const {
    if (!on_ || tone == Tone::plain || text.empty())
        return std::string(text);
    return fmt::format("\x1b[{}m{}\x1b[0m", code(tone), text);
}

bool wants_colour(Colour choice, bool terminal, const char *no_color, const char *term) {
    if (choice != Colour::automatic)
        return choice == Colour::always;
    const bool refused = no_color != nullptr && *no_color != '\0';
    return terminal && !refused && term != nullptr && std::string_view(term) != "dumb";
}

bool on_terminal(std::FILE *file) {
    const int fd = fileno(file);  // -1 for one in memory
    return fd >= 0 && isatty(fd) == 1;
}

Paint paint_for(Colour choice, std::FILE *out) {
    return Paint(wants_colour(choice, on_terminal(out), std::getenv("NO_COLOR"), std::getenv("TERM")));
}

}  // namespace berth::tool
