// berthd: the agent. main() reads the command line and the configuration, starts the roles on one event loop, and stops
// them on SIGTERM or SIGINT; SIGHUP is agent/reload.h. Everything else lives in the roles.
#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <systemd/sd-daemon.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "agent/config.h"
#include "agent/config_check.h"
#include "agent/log.h"
#include "agent/loop.h"
#include "agent/reload.h"
#include "agent/role.h"
#include "agent/slurm/het_submit.h"
#include "agent/translate/annotations.h"
#include "agent/web/site.h"

namespace berth {
namespace {

constexpr int kExitFailure = 1, kExitUsage = 2;

struct Options {
    std::string config_path = default_config_path();
    std::string log_level;  // empty: the configuration's
    std::string node_name;  // empty: no node role
    bool controller = false;
    bool check_config = false;
};

// Signals arrive through the loop. They are blocked before any thread exists, so that all threads inherit that; SIGPIPE
// is ignored because peers that hang up are ordinary.
void block_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    signal(SIGPIPE, SIG_IGN);
}

log::Level level_of(const std::string &name) {
    return name == "debug"     ? log::Level::debug
           : name == "warning" ? log::Level::warning
           : name == "error"   ? log::Level::error
                               : log::Level::info;
}

// Stops all roles, then the loop. A second signal does not wait for them: whatever is cut off is found again at the
// next start, because nothing is kept here alone.
class Shutdown {
  public:
    Shutdown(Loop &loop, std::vector<std::unique_ptr<Role>> &roles) : loop_(loop), roles_(roles) {}

    void begin(const char *signal_name) {
        if (begun_) {
            log::warning("{} again: leaving without waiting for what is under way", signal_name);
            loop_.quit(kExitFailure);
            return;
        }
        begun_ = true;
        log::info("{}: stopping", signal_name);
        sd_notify(0, "STOPPING=1");
        waiting_for_ = roles_.size();
        for (const std::unique_ptr<Role> &role : roles_)
            role->stop([this] {
                if (--waiting_for_ == 0)
                    loop_.quit(0);
            });
    }
    bool begun() const { return begun_; }

  private:
    Loop &loop_;
    std::vector<std::unique_ptr<Role>> &roles_;
    std::size_t waiting_for_ = 0;
    bool begun_ = false;
};

int run(const Options &options, const Config &config) {
    if (config.clusters.size() > 1)
        log::warning("this version serves one cluster: {}, the first of {}", config.clusters.front().name, config.clusters.size());
    Loop loop;
    std::vector<std::unique_ptr<Role>> roles;
    if (options.controller)
        roles.push_back(make_controller(loop, config));
    if (!options.node_name.empty())
        roles.push_back(make_node(loop, config, options.node_name));

    Shutdown shutdown(loop, roles);
    const SourcePtr on_term = loop.on_signal(SIGTERM, [&] { shutdown.begin("SIGTERM"); });
    const SourcePtr on_int = loop.on_signal(SIGINT, [&] { shutdown.begin("SIGINT"); });
    const SourcePtr on_hup = loop.on_signal(SIGHUP, [&] {
        if (!shutdown.begun())
            reload(loop, {options.config_path, options.controller, options.node_name});
    });
    for (const std::unique_ptr<Role> &role : roles) {
        if (Result<void> started = role->start(); !started) {
            log::error("cannot start: {}", started.error());
            return kExitFailure;
        }
    }
    web::Site site(loop, roles);
    site.open(config.web, options.controller);
    // The controller says more when it knows whether it leads.
    tell_ready("runs by " + options.config_path);
    loop.answer_watchdog();
    return loop.run();
}

int main(int argc, char **argv) {
    Options options;
    CLI::App app{
        "berthd lets Slurm schedule Kubernetes pods: the controller role submits a placeholder job for each pod,\n"
        "the node role binds the pod where Slurm placed that job. See berthd(8)."};
    app.name("berthd");
    app.add_option("-c,--config", options.config_path, "Configuration file")->type_name("FILE")->capture_default_str();
    app.add_flag("--check-config", options.check_config, "Check the configuration file, with a role also what that role needs, and exit");
    app.add_flag("--controller", options.controller, "Run the controller role (on the slurmctld host)");
    app.add_option("--node", options.node_name, "Run the node role for the Slurm node NAME")->type_name("NAME");
    app.add_option("--log-level", options.log_level,
                   "debug, info, warning or error; overrides log_level in the configuration")
        ->type_name("LEVEL")
        ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
    app.set_version_flag("--version", std::string("berthd " PACKAGE_VERSION));
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError &error) {
        return app.exit(error) == 0 ? 0 : kExitUsage;
    }

    const bool has_role = options.controller || !options.node_name.empty();
    if (options.check_config && !has_role)
        return check_config(options.config_path, stdout, stderr);
    if (!has_role) {
        fmt::print(stderr, "berthd: no role is given: use --controller, --node NAME, or both\n");
        return kExitUsage;
    }
    // The name becomes part of paths ("%n" in run_dir), so it must not lead out of them.
    if (!options.node_name.empty() && (!is_safe_name(options.node_name) || options.node_name[0] == '.')) {
        fmt::print(stderr, "berthd: --node: \"{}\" is not a node name that Slurm has\n", options.node_name);
        return kExitUsage;
    }
    if (options.check_config)
        return check_as_reload({options.config_path, options.controller, options.node_name}, stdout, stderr);
    const Result<Config> config = trusted_config(options.config_path);
    if (!config) {
        fmt::print(stderr, "berthd: {}\n", config.error());
        return kExitFailure;
    }
    // The key and the credentials are in this process: no core, and no look into it for others of the same user.
    prctl(PR_SET_DUMPABLE, 0);

    block_signals();
    log::start(level_of(options.log_level.empty() ? config->log_level : options.log_level), "berthd");
    const int status = run(options, *config);
    log::stop();
    return status;
}

}  // namespace
}  // namespace berth

int main(int argc, char **argv) {
    // Not an option of berthd's, but its own child: see agent/slurm/het_submit.h.
    if (argc == 3 && argv[1] == berth::slurm::submit_het_argument)
        return berth::slurm::submit_het_child(argv[2]);
    return berth::main(argc, argv);
}
