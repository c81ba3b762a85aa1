// Thin on purpose: the facts are gathered here, and judged in slurm_checks.h and site_checks.h.
#include "agent/tool/doctor.h"

#include <fmt/format.h>
#include <glob.h>
#include <grp.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "agent/kube/decode.h"
#include "agent/kube/json_fields.h"
#include "agent/kube/json_text.h"
#include "agent/kube/lease.h"
#include "agent/slurm/queue.h"
#include "agent/slurm/settings.h"
#include "agent/tool/node_pairs.h"
#include "agent/tool/plugin_version.h"
#include "agent/tool/site_checks.h"
#include "agent/tool/slurm_checks.h"
#include "agent/yaml.h"
#include "proto/records.h"

namespace berth::tool {

namespace {

constexpr std::size_t largest_conf = 1 << 20;

std::string directory_of(const std::string &path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, std::max<std::size_t>(slash, 1));
}

std::vector<std::string> split(const std::string &text, char separator) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(separator, at), text.size());
        if (end > at)
            out.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return out;
}

std::vector<std::string> matches(const std::string &pattern) {
    std::vector<std::string> out;
    glob_t found{};
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
        out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    return out;
}

// plugstack.conf, with the files that it includes.
PlugstackFacts read_plugstack(const std::string &path) {
    PlugstackFacts facts;
    facts.path = path;
    const auto text = yaml::read_file(path, largest_conf);
    if (!text) {
        facts.problem = text.error();
        return facts;
    }
    facts.entries = parse_plugstack(*text, path);
    for (const std::string &line : split(*text, '\n')) {
        const auto words = split(line.substr(0, line.find('#')), ' ');
        if (words.size() < 2 || words[0] != "include")
            continue;
        for (const std::string &file : matches(words[1].starts_with('/') ? words[1] : directory_of(path) + "/" + words[1]))
            if (const auto more = yaml::read_file(file, largest_conf))
                for (PlugstackEntry &entry : parse_plugstack(*more, file))
                    facts.entries.push_back(std::move(entry));
    }
    return facts;
}

PluginFile find_plugin(const std::string &name, bool exact, const std::string &written, const std::string &directories) {
    PluginFile file;
    file.name = name;
    file.exact = exact;
    std::vector<std::string> candidates;
    if (written.starts_with('/'))
        candidates.push_back(written);
    else
        for (const std::string &directory : split(directories, ':'))
            candidates.push_back(directory + "/" + name);
    for (const std::string &candidate : candidates)
        if (file.path.empty() && access(candidate.c_str(), F_OK) == 0)
            file.path = candidate;
    if (file.path.empty())
        return file;
    const auto version = plugin_version(file.path);
    if (version)
        file.version = *version;
    else
        file.problem = version.error();
    return file;
}

// The value of the last line "key=value" of a slurm.conf; empty without one.
std::string conf_value(const std::string &text, const std::string &key) {
    std::string value;
    for (const std::string &line : split(text, '\n'))
        if (strncasecmp(line.c_str(), key.c_str(), key.size()) == 0 && line[key.size()] == '=')
            value = line.substr(key.size() + 1, line.find_first_of(" \t#", key.size() + 1) - key.size() - 1);
    return value;
}

// What slurmctld here would say of itself if it ran, as far as its plugins are concerned. Nothing where it is not installed.
std::optional<slurm::Settings> settings_of_silent_slurmctld() {
    std::FILE *const program = popen("PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin slurmctld -V 2>/dev/null", "re");
    char line[128] = "";
    const bool told = program != nullptr && std::fgets(line, sizeof line, program) != nullptr;
    if (program != nullptr)
        pclose(program);
    const char *const version = std::strpbrk(line, "0123456789");  // "slurm-wlm 22.05.8"
    if (!told || version == nullptr)
        return std::nullopt;
    slurm::Settings settings;
    settings.version = version;
    settings.version.resize(settings.version.find_last_not_of(" \n") + 1);
    const char *const conf = std::getenv("SLURM_CONF");
    const auto text = yaml::read_file(conf != nullptr ? conf : "/etc/slurm/slurm.conf", largest_conf);
    settings.plugin_dirs = text ? conf_value(*text, "PluginDir") : "";
    if (settings.plugin_dirs.empty())
        settings.plugin_dirs = SLURM_PLUGIN_DIR;
    return settings;
}

bool in_group(const passwd &user, gid_t gid) {
    if (user.pw_gid == gid)
        return true;
    std::vector<gid_t> groups(256);
    int count = static_cast<int>(groups.size());
    if (getgrouplist(user.pw_name, user.pw_gid, groups.data(), &count) < 0)
        return false;
    return std::find(groups.begin(), groups.begin() + count, gid) != groups.begin() + count;
}

KeyFacts look_at_key(const std::string &path, std::uint32_t slurm_uid) {
    KeyFacts key;
    key.path = path;
    struct stat st {};
    if (stat(path.c_str(), &st) != 0) {
        key.problem = std::strerror(errno);
        return key;
    }
    key.uid = st.st_uid;
    key.mode = st.st_mode & 07777;
    key.size = static_cast<std::uint64_t>(st.st_size);
    if (const passwd *user = getpwuid(slurm_uid); user != nullptr && slurm_uid != 0)
        key.slurm_user_reads =
            st.st_uid == slurm_uid ? (st.st_mode & S_IRUSR) != 0 : in_group(*user, st.st_gid) && (st.st_mode & S_IRGRP) != 0;
    return key;
}

RulesFacts read_rules(const std::string &path) {
    RulesFacts facts;
    facts.path = path;
    const auto text = yaml::read_file(path, largest_conf);
    if (!text)
        facts.problem = text.error();
    else
        facts.rules = parse_rules(*text, path, system_user, facts.problem);
    return facts;
}

// Nothing where its directory is not there, or not ours to look into: the agent then is on another host.
std::optional<SocketFacts> knock(const std::string &who, const std::string &path, int type) {
    sockaddr_un address{};
    if (path.size() >= sizeof address.sun_path || access(directory_of(path).c_str(), X_OK) != 0)
        return std::nullopt;
    SocketFacts facts{who, path, access(path.c_str(), F_OK) == 0, false};
    const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    const bool connected = connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof address) == 0;
    // A full queue, or one that is not for us, has somebody behind it.
    facts.answers = connected || errno == EAGAIN || errno == EACCES || errno == EPERM;
    close(fd);
    return facts;
}

class Doctor {
  public:
    Doctor(const Access &access, Progress &progress) : access_(access), progress_(progress) {}

    Findings examine() {
        if (access_.site() == nullptr)
            Section("Berth", out_)
                .problem("berth_yaml", fmt::format("the configuration cannot be used: {}", access_.config_problem),
                         "Name it with --config, or run berth doctor where it can be read. What depends on it is left out.");
        else
            Section("Berth", out_).ok("berth_yaml", fmt::format("{} is good", access_.config_path));
        progress_.say("asking slurmctld");
        Result<slurm::Settings> settings = slurm::load_settings();
        if (settings)
            settings_ = std::move(*settings);
        progress_.say("looking at files and agents of this host");
        look_at_files();
        progress_.say("comparing slurm.conf and plugins");
        if (settings_)
            look_at_slurm();
        else
            look_at_silent_slurm(settings.error());
        if (access_.site() != nullptr && settings_)
            check_timeouts(&*settings_, plugstack_, *access_.site(), out_);
        progress_.say("asking the API server");
        look_at_kubernetes();
        check_clocks(api_skew_, settings_ ? std::optional<std::int64_t>(settings_->now - std::time(nullptr)) : std::nullopt, out_);
        return std::move(out_);
    }

  private:
    void look_at_files() {
        const Config *const config = access_.site();
        if (config == nullptr || !settings_)
            return;
        check_key(look_at_key(config->key_file, settings_->slurm_uid), settings_->slurm_uid, out_);
        // berth.conf, job_submit_berth.so and the controller are needed on slurmctld's hosts alone.
        const RulesFacts rules = read_rules(directory_of(settings_->conf_path) + "/berth.conf");
        const auto controller = knock("the controller", config->controller.notify_socket, SOCK_DGRAM);
        if (rules.rules || controller || on_controller_host())
            check_rules(rules, *config, &*settings_, system_identities(), out_);
        std::vector<SocketFacts> sockets;
        if (controller)
            sockets.push_back(*controller);
        if (const auto names = slurm::node_names()) {
            const std::string here = host_name();
            for (const std::string &name : *names)
                if (config->node.run_dir.find("%n") != std::string::npos || name == here)
                    if (const auto agent = knock("the agent of node " + name,
                                                 RunDir(RunDir::expand(config->node.run_dir, name)).socket_path(), SOCK_SEQPACKET))
                        sockets.push_back(*agent);
        }
        check_sockets(sockets, out_);
        for (const std::string &file : matches("/etc/pam.d/*"))
            if (const auto text = yaml::read_file(file, largest_conf); text && text->find("pam_slurm_adopt") != std::string::npos) {
                check_pam(file, out_);
                break;
            }
    }

    static std::string host_name() {
        char name[256] = "";
        gethostname(name, sizeof name - 1);
        return {name, strcspn(name, ".")};
    }

    bool on_controller_host() const {
        const std::string here = host_name();
        return std::any_of(settings_->hosts.begin(), settings_->hosts.end(),
                           [&here](const std::string &host) { return host == "localhost" || host.substr(0, host.find('.')) == here; });
    }

    void look_at_slurm() {
        check_versions(*settings_, out_);
        const auto queue = slurm::load_queue();
        check_slurm_conf(*settings_, queue ? queue->size() : 0, access_.site(), out_);
        const std::string path =
            settings_->plugstack.empty() ? directory_of(settings_->conf_path) + "/plugstack.conf" : settings_->plugstack;
        plugstack_ = read_plugstack(path);
        check_plugstack(plugstack_, access_.site(), out_);
        std::vector<PluginFile> files;
        if (PluginFile plugin = find_plugin("job_submit_berth.so", true, "", settings_->plugin_dirs);
            !plugin.path.empty() || on_controller_host())
            files.push_back(std::move(plugin));
        files.push_back(find_plugin("spank_berth.so", false, plugstack_.entries.empty() ? "" : plugstack_.entries.front().path,
                                    settings_->plugin_dirs));
        check_plugin_files(files, *settings_, out_);
    }

    // A plugin for another version may be why slurmctld is not there.
    void look_at_silent_slurm(const std::string &problem) {
        Section("Slurm", out_).problem("slurmctld", problem, "Start slurmctld, or set SLURM_CONF to its slurm.conf.");
        if (const auto silent = settings_of_silent_slurmctld())
            if (const PluginFile plugin = find_plugin("job_submit_berth.so", true, "", silent->plugin_dirs); !plugin.path.empty())
                check_plugin_files({plugin}, *silent, out_);
    }

    void look_at_kubernetes() {
        KubeFacts facts;
        auto api = access_.kubernetes();
        if (!api) {
            facts.problem = api.error();
            return check_kubernetes(facts, out_);
        }
        kube::Response version = (*api)->get("/version");
        if (!version.ok()) {
            facts.problem = version.error;
            return check_kubernetes(facts, out_);
        }
        if (version.date != 0)
            api_skew_ = version.date - std::time(nullptr);
        read_version(version.body, facts);
        const auto there = [&api](const std::string &path) -> std::optional<bool> {
            const kube::Response answer = (*api)->get(path);
            if (answer.status == 404)
                return false;
            return answer.ok() ? std::optional<bool>(true) : std::nullopt;
        };
        facts.pod_group_crd = there("/apis/scheduling.x-k8s.io");
        facts.flow_schema = there("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/berth");
        facts.admission_policy = there("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/berth-node-binding");
        progress_.say("asking the API server what the controller may do");
        ask_for_rights(facts);
        check_kubernetes(facts, out_);
        progress_.say("comparing the nodes of both systems");
        look_at_nodes(**api);
    }

    static void read_version(std::string &body, KubeFacts &facts) {
        simdjson::dom::parser parser;
        kube::Json version;
        if (parser.parse(kube::padded(body)).get(version) != simdjson::SUCCESS)
            return;
        facts.version = kube::text(version, "gitVersion");
        facts.minor = std::atoi(std::string(kube::text(version, "minor")).c_str());
    }

    // As the controller itself, for only it can ask what it may do.
    // With the controller's own credentials.
    static void ask_who_leads(KubeSession &api, const Config &config, KubeFacts &facts) {
        const LeaseConfig &lease = config.controller.lease;
        const kube::Response answer =
            api.get(kube::lease_path(lease.ns, lease.name.empty() ? config.clusters.front().scheduler_name : lease.name));
        auto record = answer.ok() ? kube::decode_lease(answer.body) : Result<LeaseRecord>(Error{answer.error});
        if (record)
            facts.lease = std::move(*record);
        else
            facts.lease_problem = record.error();
    }

    void ask_for_rights(KubeFacts &facts) const {
        const Config *const config = access_.site();
        if (config == nullptr || config->clusters.empty()) {
            facts.rights_problem = "berth.yaml is not known";
            return;
        }
        auto api = KubeSession::open(config->clusters.front().kubeconfig, config->clusters.front().context);
        const auto rights = granted_rights(controller_manifest());
        if (!api || !rights) {
            facts.rights_problem = !api ? api.error() : rights.error();
            return;
        }
        ask_who_leads(**api, *config, facts);
        std::vector<kube::Request> requests;
        for (const Right &right : *rights) {
            kube::Request request;
            request.method = "POST";
            request.path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            request.body =
                fmt::format(R"({{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{{"resourceAttributes":)"
                            R"({{"group":{},"resource":{},"subresource":{},"verb":{}}}}}}})",
                            kube::json_quote(right.group), kube::json_quote(right.resource), kube::json_quote(right.subresource),
                            kube::json_quote(right.verb));
            requests.push_back(std::move(request));
        }
        std::vector<kube::Response> answers = (*api)->send(requests);
        for (std::size_t i = 0; i < answers.size(); ++i) {
            if (!answers[i].ok()) {
                facts.rights_problem = answers[i].error;
                return;
            }
            bool allowed = false;
            simdjson::dom::parser parser;
            kube::Json review;
            if (parser.parse(kube::padded(answers[i].body)).get(review) == simdjson::SUCCESS)
                kube::inside(review, "status", [&allowed](kube::Json status) { allowed = kube::flag(status, "allowed"); });
            facts.rights.emplace_back((*rights)[i], allowed);
        }
    }

    void look_at_nodes(KubeSession &api) {
        if (!settings_)
            return;  // slurmctld is away, which is said already
        const auto slurm_nodes = slurm::load_queue_nodes();
        const auto kube_nodes = load_kube_nodes(api);
        if (slurm_nodes && kube_nodes)
            return check_nodes(pair_nodes(*slurm_nodes, *kube_nodes, access_.node_map()), access_.site(), out_);
        Section("Nodes", out_)
            .warn("pairs", fmt::format("the nodes were not compared: {}", slurm_nodes ? kube_nodes.error() : slurm_nodes.error()),
                  "Run berth doctor as somebody who may list nodes in both systems.");
    }

    const Access &access_;
    Progress &progress_;
    std::optional<slurm::Settings> settings_;
    PlugstackFacts plugstack_;
    std::optional<std::int64_t> api_skew_;
    Findings out_;
};

}  // namespace

int doctor(const AccessOptions &options, std::FILE *out, std::FILE *err) {
    const auto access = open_access(options);
    if (!access)
        return complain(err, access.error());
    Progress progress(err);
    progress.say("reading slurm.conf");
    start_slurm();
    const Findings findings = Doctor(*access, progress).examine();
    progress.clear();
    fmt::print(out, "{}", options.json ? to_json(findings) + "\n" : to_text(findings, options.paint));
    return any_problem(findings) ? 1 : 0;
}

}  // namespace berth::tool
