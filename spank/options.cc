#include "spank/options.h"

#include <charconv>
#include <string_view>

#include "proto/records.h"

extern "C" {
#include <slurm/spank.h>
}

namespace berth {

namespace {

bool read_seconds(std::string_view text, std::chrono::seconds &out) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size() || value == 0 || value > 86400)
        return false;
    out = std::chrono::seconds(value);
    return true;
}

}  // namespace

Options parse_options(int count, char **arguments, const char *node) {
    Options options;
    for (int i = 0; i < count; ++i) {
        const std::string_view argument = arguments[i];
        const std::size_t equals = argument.find('=');
        const std::string_view key = argument.substr(0, equals);
        const std::string_view value = equals == std::string_view::npos ? "" : argument.substr(equals + 1);
        bool good = false;
        if (key == "run_dir" && (good = value.starts_with('/')))
            options.run_dir = value;
        else if (key == "key" && (good = value.starts_with('/')))
            options.key_file = value;
        else if (key == "hold")
            good = read_seconds(value, options.hold);
        else if (key == "gate")
            good = read_seconds(value, options.gate);
        if (!good)
            slurm_error("berth: plugstack.conf: \"%s\" is not run_dir=/DIR, key=/FILE, hold=SECONDS or gate=SECONDS "
                        "(1-86400); its default is used",
                        arguments[i]);
    }
    options.run_dir = RunDir::expand(options.run_dir, node);
    return options;
}

}  // namespace berth
