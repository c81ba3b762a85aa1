// Paint: colours for people who look at a terminal. Pure but for on_terminal().
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace berth::tool {

enum class Colour : std::uint8_t { automatic, always, never };

// What a text means; how that looks is decided in one place.
enum class Tone : std::uint8_t { plain, heading, good, waiting, bad, faint };

class Paint {
  public:
    explicit Paint(bool on = false) : on_(on) {}
    std::string operator()(Tone tone, std::string_view text) const;

  private:
    bool on_;
};

// By the option --color, whether somebody looks, and NO_COLOR and TERM of the environment (nullptr: not set).
bool wants_colour(Colour choice, bool terminal, const char *no_color, const char *term);

bool on_terminal(std::FILE *file);
// The two together, for what is written to `out`.
Paint paint_for(Colour choice, std::FILE *out);

}  // namespace berth::tool
