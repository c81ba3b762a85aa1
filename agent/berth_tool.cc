// berth: the tool for people. Each subcommand is one add_...() function that declares its options and says what to run;
// main() runs what was chosen. Exit status: 0 good, 1 the answer is no, 2 wrong usage.
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "agent/config_check.h"
#include "agent/log.h"
#include "agent/tool/doctor.h"
#include "agent/tool/dry_run.h"
#include "agent/tool/explain.h"
#include "agent/tool/status.h"
#include "agent/tool/watch.h"

namespace berth {
namespace {

constexpr int kExitUsage = 2;

using tool::Colour;
using Command = std::function<int()>;
using OptionsPtr = std::shared_ptr<tool::AccessOptions>;

OptionsPtr add_access(CLI::App &command) {
    const auto options = std::make_shared<tool::AccessOptions>();
    command
        .add_option("-c,--config", options->config_path,
                    "Configuration file of the agents (" + default_config_path() + " where it can be read)")
        ->type_name("FILE");
    command.add_option("--kubeconfig", options->kubeconfig, "Credentials for Kubernetes ($KUBECONFIG, ~/.kube/config, the agents' own)")
        ->type_name("FILE");
    command.add_option("--context", options->context, "Context of the kubeconfig")->type_name("NAME");
    command
        .add_option_function<std::string>(
            "-o,--output", [options](const std::string &format) { options->json = format == "json"; }, "text or json")
        ->check(CLI::IsMember({"text", "json"}))
        ->type_name("FORMAT");
    command
        .add_option_function<std::string>(
            "--color",
            [options](const std::string &when) {
                const Colour choice = when == "always" ? Colour::always : when == "never" ? Colour::never : Colour::automatic;
                options->paint = tool::paint_for(choice, stdout);
            },
            "Colours: auto (on a terminal, unless NO_COLOR is set), always or never")
        ->check(CLI::IsMember({"auto", "always", "never"}))
        ->type_name("WHEN");
    options->paint = tool::paint_for(Colour::automatic, stdout);
    return options;
}

// --watch, --watch=SECONDS: as text, for a flag of CLI11 that is a number would be a whole one. Empty: not asked for.
using Seconds = std::shared_ptr<std::string>;
constexpr const char *bare_flag = "true", *usual_seconds = "2";
Seconds add_watch(CLI::App &command) {
    const auto seconds = std::make_shared<std::string>();
    command.add_flag("-w,--watch", *seconds, "Show it again every 2 seconds, or every N with --watch=N, until ^C")
        ->check([](const std::string &given) {
            const bool good = given == bare_flag || CLI::Range(0.1, 86400.0)(given).empty();
            return std::string(good ? "" : "\"" + given + "\" is not a number of seconds from 0.1 to 86400");
        });
    return seconds;
}

int run(const tool::Picture &picture, const Seconds &watch, const std::string &title, const tool::AccessOptions &options) {
    if (watch->empty())
        return picture(stdout, stderr);
    const std::string seconds = *watch == bare_flag ? usual_seconds : *watch;
    const std::chrono::milliseconds every(static_cast<std::int64_t>(std::stod(seconds) * 1000));
    return tool::watch(picture, every, fmt::format("{}, every {} s", title, seconds), options.json, stdout);
}

// berth explain [NS/]POD, berth explain -f FILE
void add_explain(CLI::App &app, Command &chosen) {
    CLI::App *command = app.add_subcommand("explain", "Why is a pod not running, and what to do");
    const OptionsPtr options = add_access(*command);
    const auto what = std::make_shared<std::string>();
    command->add_option("-n,--namespace", options->ns, "Namespace of the pod")->type_name("NAME")->capture_default_str();
    const auto file = std::make_shared<std::string>();
    CLI::Option *pod = command->add_option("POD", *what, "The pod, as NAMESPACE/NAME or NAME")->type_name("");
    CLI::Option *dry = command->add_option("-f,--file", *file, "Instead: a workload that is not created yet, as YAML (- is standard input)")
                           ->type_name("FILE")
                           ->excludes(pod);
    const Seconds watch = add_watch(*command);
    command->callback([&chosen, options, what, file, pod, dry, watch] {
        if (pod->count() + dry->count() != 1)
            throw CLI::ValidationError("explain", "name a pod, or a file with -f");
        if (!watch->empty() && *file == "-")
            throw CLI::ValidationError("explain", "standard input cannot be read again: --watch needs a pod or a file");
        chosen = [options, what, file, watch] {
            const tool::Picture picture = [options, what, file](std::FILE *out, std::FILE *err) {
                return file->empty() ? tool::explain(*options, *what, out, err) : tool::dry_run(*options, *file, out, err);
            };
            return run(picture, watch, "berth explain " + *what + *file, *options);
        };
    });
}

// berth status
void add_status(CLI::App &app, Command &chosen) {
    CLI::App *command = app.add_subcommand("status", "Nodes and workloads of both systems");
    const OptionsPtr options = add_access(*command);
    const auto ns = std::make_shared<std::string>();
    command->add_option("-n,--namespace", *ns, "Workloads of one namespace only")->type_name("NAME");
    const Seconds watch = add_watch(*command);
    command->callback([&chosen, options, ns, watch] {
        chosen = [options, ns, watch] {
            const tool::Picture picture = [options, ns](std::FILE *out, std::FILE *err) { return tool::status(*options, *ns, out, err); };
            return run(picture, watch, "berth status" + (ns->empty() ? "" : " -n " + *ns), *options);
        };
    });
}

// berth doctor
void add_doctor(CLI::App &app, Command &chosen) {
    CLI::App *command = app.add_subcommand("doctor", "Check that Slurm, Kubernetes and Berth fit together");
    const OptionsPtr options = add_access(*command);
    command->callback([&chosen, options] { chosen = [options] { return tool::doctor(*options, stdout, stderr); }; });
}

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
    add_status(app, chosen);
    add_explain(app, chosen);
    add_doctor(app, chosen);
    add_config(app, chosen);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }
    log::start(log::Level::error, "berth");
    const int status = chosen();
    log::stop();
    return status;
}

}  // namespace
}  // namespace berth

int main(int argc, char **argv) { return berth::main(argc, argv); }
