#include "agent/config_check.h"

#include <fmt/core.h>

#include "agent/config.h"

namespace berth {

int check_config(const std::string &path, std::FILE *out, std::FILE *err) {
    const Result<Config> config = load_config(path);
    if (!config) {
        fmt::print(err, "{}\n", config.error());
        return 1;
    }
    fmt::print(out, "{}: ok\n", path);
    return 0;
}

std::string default_config_path() { return SYSCONFDIR "/berth/berth.yaml"; }

}  // namespace berth
