// berth: the tool for people. Each subcommand is one add_...() function that declares its options and says what to run;
// main() runs what was chosen. Exit status: 0 good, 1 the answer is no, 2 wrong usage.
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "agent/config_check.h"

namespace berth {
namespace {

constexpr int kExitUsage = 2;

using Command = std::function<int()>;

// berth config check [FILE]
void add_config(CLI::App &app, Command &chosen) {
    CLI::App *config = app.add_subcommand("config", "Work with the agent's configuration file");
    config->require_subcommand(1);
    CLI::App *check = config->add_subcommand("check", "Check a configuration file as berthd would read it");
    const auto path = std::make_shared<std::string>(default_config_path());
    check->add_option("FILE", *path, "Configuration file")->type_name("")->capture_default_str();
    check->callback([&chosen, path] { chosen = [path] { return check_config(*path, stdout, stderr); }; });
}

int main(int argc, char **argv) {
    Command chosen;
    CLI::App app{"berth shows and checks what Berth does: Slurm schedules Kubernetes pods. See berth(1)."};
    app.name("berth");
    app.set_version_flag("--version", std::string("berth " PACKAGE_VERSION));
    app.require_subcommand(1);
    add_config(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    return chosen();
}

}  // namespace
}  // namespace berth

int main(int argc, char **argv) { return berth::main(argc, argv); }
