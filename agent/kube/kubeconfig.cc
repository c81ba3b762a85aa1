// Kubeconfig files -> Credentials. A list of files is merged by name, as kubectl does; relative paths count from the
// folder of the file that holds them.
#include "agent/kube/kubeconfig.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>

#include "agent/kube/base64.h"
#include "agent/yaml.h"

namespace berth::kube {

namespace {

using yaml::Node;

constexpr std::size_t largest_pem_file = 4 << 20;

using Files = std::vector<Node>;

bool absent(const std::string &path) {
    struct stat st;
    return stat(path.c_str(), &st) != 0 && errno == ENOENT;
}

std::string beside(const std::string &file, const std::string &path) {
    if (path.empty() || path.front() == '/')
        return path;
    const auto slash = file.rfind('/');
    return slash == std::string::npos ? path : file.substr(0, slash + 1) + path;
}

Result<void> checked(const FileCheck &check, const std::string &path, bool secret) { return check ? check(path, secret) : Result<void>{}; }

Result<Files> read_files(const std::string &paths, const FileCheck &check) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= paths.size();) {
        const std::size_t end = std::min(paths.find(':', begin), paths.size());
        if (end > begin)
            names.push_back(paths.substr(begin, end - begin));
        begin = end + 1;
    }
    Files files;
    for (const std::string &name : names) {
        if (names.size() > 1 && absent(name))
            continue;
        if (const auto good = checked(check, name, false); !good)
            return Error{good.error()};
        auto root = yaml::parse_file(name);
        if (!root)
            return Error{root.error()};
        if (!root->is_map() && !root->is_null())
            return root->error("not a kubeconfig: a map is expected");
        files.push_back(std::move(*root));
    }
    if (files.empty())
        return Error{
            fmt::format("no kubeconfig: {}", names.empty() ? "no file was named" : "none of " + paths + " exists")};
    return files;
}

// The `inner` map of the first entry called `name` in the lists `section` ("clusters", "cluster").
Result<const Node *> named(const Files &files, const char *section, const char *inner, const std::string &name) {
    for (const Node &file : files) {
        const Node *list = file.find(section);
        if (!list || list->is_null())
            continue;
        if (!list->is_list())
            return list->error("a list is expected");
        for (const Node &entry : list->children()) {
            const Node *key = entry.find("name");
            if (!key)
                return entry.error("a name is expected");
            if (key->text() != name)
                continue;
            const Node *value = entry.find(inner);
            if (!value || !value->is_map())
                return entry.error(fmt::format("'{}' is expected to be a map here", inner));
            return value;
        }
    }
    return Error{fmt::format("{}: '{}' is not among its {}", files.front().file(), name, section)};
}

// Absent and null keys give an empty text.
Result<std::string> text_at(const Node &map, std::string_view key) {
    const Node *value = map.find(key);
    if (!value || value->is_null())
        return std::string();
    return value->as_string();
}

Result<bool> flag_at(const Node &map, std::string_view key) {
    const Node *value = map.find(key);
    if (!value || value->is_null())
        return false;
    return value->as_bool();
}

// "x-data" (base64) wins over "x" (a path).
Result<std::string> pem_at(const Node &map, const std::string &key, const FileCheck &check, bool secret) {
    const auto data = text_at(map, key + "-data");
    if (!data)
        return Error{data.error()};
    if (!data->empty()) {
        auto bytes = base64_decode(*data);
        if (!bytes)
            return map.find(key + "-data")->error("not base64");
        if (const auto good = checked(check, map.file(), secret); !good)
            return Error{good.error()};
        return std::move(*bytes);
    }
    const auto path = text_at(map, key);
    if (!path)
        return Error{path.error()};
    if (path->empty())
        return std::string();
    const std::string file = beside(map.file(), *path);
    if (const auto good = checked(check, file, secret); !good)
        return map.find(key)->error(good.error());
    auto text = yaml::read_file(file, largest_pem_file);
    if (!text)
        return map.find(key)->error(text.error());
    return text;
}

// Collects the first error of many small reads, so that the readers below need no ladder of checks.
class Fields {
  public:
    explicit Fields(const Node &map, const FileCheck &check = {}) : map_(map), check_(check) {}
    std::string text(std::string_view key) { return keep(text_at(map_, key), std::string()); }
    bool flag(std::string_view key) { return keep(flag_at(map_, key), false); }
    std::string pem(const std::string &key) { return keep(pem_at(map_, key, check_, false), std::string()); }
    std::string secret_pem(const std::string &key) { return keep(pem_at(map_, key, check_, true), std::string()); }
    void refuse(std::string_view key, std::string_view why) {
        const Node *value = map_.find(key);
        if (value && !value->is_null())
            fail(value->error(why));
    }
    void fail(Error error) {
        if (!error_)
            error_ = std::move(error);
    }
    const std::optional<Error> &error() const { return error_; }

  private:
    template <class T>
    T keep(Result<T> result, T fallback) {
        if (result)
            return std::move(*result);
        fail(Error{result.error()});
        return fallback;
    }

    const Node &map_;
    const FileCheck check_;
    std::optional<Error> error_;
};

std::optional<Error> read_cluster(const Node &map, const FileCheck &check, Credentials &out) {
    Fields fields(map, check);
    out.server = fields.text("server");
    while (!out.server.empty() && out.server.back() == '/')
        out.server.pop_back();
    out.tls_server_name = fields.text("tls-server-name");
    out.proxy_url = fields.text("proxy-url");
    out.ca_pem = fields.pem("certificate-authority");
    const bool insecure = fields.flag("insecure-skip-tls-verify");
    if (fields.error())
        return fields.error();
    const Node *server = map.find("server");
    if (out.server.empty())
        return (server ? *server : map).error("the address of the API server is expected under 'server'");
    const bool https = out.server.starts_with("https://");
    if (!https && !out.server.starts_with("http://"))
        return server->error("a URL that begins with https:// is expected");
    if (host_of(out.server).empty())
        return server->error("the URL names no host");
    if (!https && !is_loopback(host_of(out.server)))
        return server->error(
            "plain http is refused, except to this machine itself: credentials would travel unprotected");
    if (insecure)
        return map.find("insecure-skip-tls-verify")
            ->error("refused: name the server's authority under certificate-authority");
    if (!out.proxy_url.empty() && host_of(out.proxy_url).empty())
        return map.find("proxy-url")->error("the URL names no host");
    return std::nullopt;
}

std::optional<Error> read_exec(const Node &map, const FileCheck &check, Credentials::Exec &out) {
    if (!map.is_map())
        return map.error("a map is expected");
    Fields fields(map);
    out.command = fields.text("command");
    out.api_version = fields.text("apiVersion");
    out.cluster_info = fields.flag("provideClusterInfo");
    out.install_hint = fields.text("installHint");
    const std::string mode = fields.text("interactiveMode");
    if (fields.error())
        return fields.error();
    if (out.command.empty())
        return map.error("'command' is expected here");
    if (out.command.find('/') != std::string::npos) {
        out.command = beside(map.file(), out.command);
        if (const auto good = checked(check, out.command, false); !good)
            return map.find("command")->error(good.error());
    }
    if (out.api_version != "client.authentication.k8s.io/v1" &&
        out.api_version != "client.authentication.k8s.io/v1beta1")
        return (map.find("apiVersion") ? *map.find("apiVersion") : map)
            .error("apiVersion must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1");
    if (mode == "Always")
        return map.find("interactiveMode")->error("the program wants a terminal, and a daemon has none");
    if (const Node *args = map.find("args")) {
        auto list = args->as_strings();
        if (!list)
            return Error{list.error()};
        out.args = std::move(*list);
    }
    const Node *env = map.find("env");
    if (env && !env->is_null()) {
        if (!env->is_list())
            return env->error("a list is expected");
        for (const Node &entry : env->children()) {
            const auto name = text_at(entry, "name"), value = text_at(entry, "value");
            if (!name)
                return Error{name.error()};
            if (!value)
                return Error{value.error()};
            if (name->empty() || name->find('=') != std::string::npos)
                return entry.error("a variable's name is expected under 'name'");
            out.env.emplace_back(*name, *value);
        }
    }
    return std::nullopt;
}

std::optional<Error> read_user(const Node &map, const FileCheck &check, Credentials &out) {
    Fields fields(map, check);
    for (const char *key : {"username", "password"})
        fields.refuse(key, "API servers take no passwords any more: use a token, a client certificate or exec");
    fields.refuse("auth-provider", "not supported: use exec");
    for (const char *key : {"as", "as-uid", "as-groups", "as-user-extra"})
        fields.refuse(key, "impersonation is not supported");
    out.client_cert_pem = fields.pem("client-certificate");
    out.client_key_pem = fields.secret_pem("client-key");
    out.token = fields.text("token");
    out.token_file = beside(map.file(), fields.text("tokenFile"));
    if (fields.error())
        return fields.error();
    if (out.client_cert_pem.empty() != out.client_key_pem.empty())
        return map.error(out.client_key_pem.empty() ? "a client certificate without its client-key"
                                                    : "a client-key without its client-certificate");
    for (const char c : out.token)
        if (static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f)
            return map.find("token")->error("holds bytes that cannot be part of a token");
    if (!out.token.empty())
        if (const auto good = checked(check, map.file(), true); !good)
            return Error{good.error()};
    if (!out.token_file.empty() && out.token.empty()) {
        if (const auto good = checked(check, out.token_file, true); !good)
            return map.find("tokenFile")->error(good.error());
        const auto token = read_token(out.token_file);
        if (!token)
            return map.find("tokenFile")->error(token.error());
    }
    const Node *exec = map.find("exec");
    if (exec && !exec->is_null()) {
        out.exec = Credentials::Exec{};
        return read_exec(*exec, check, *out.exec);
    }
    return std::nullopt;
}

}  // namespace

Result<Credentials> load_kubeconfig(const std::string &paths, const std::string &context, const FileCheck &check) {
    const auto files = read_files(paths, check);
    if (!files)
        return Error{files.error()};
    std::string chosen = context;
    for (const Node &file : *files) {
        if (!chosen.empty())
            break;
        const auto current = text_at(file, "current-context");
        if (!current)
            return Error{current.error()};
        chosen = *current;
    }
    if (chosen.empty())
        return Error{fmt::format("{}: no current-context, and none was asked for", paths)};

    const auto link = named(*files, "contexts", "context", chosen);
    if (!link)
        return Error{link.error()};
    Fields names(**link);
    const std::string cluster_name = names.text("cluster"), user_name = names.text("user");
    if (names.error())
        return *names.error();
    if (cluster_name.empty())
        return (*link)->error("the context names no cluster");
    const auto cluster = named(*files, "clusters", "cluster", cluster_name);
    if (!cluster)
        return Error{cluster.error()};
    Credentials out;
    if (auto error = read_cluster(**cluster, check, out))
        return *error;
    if (!user_name.empty()) {
        const auto user = named(*files, "users", "user", user_name);
        if (!user)
            return Error{user.error()};
        if (auto error = read_user(**user, check, out))
            return *error;
    }
    out.reload = [paths, context, check] {
        return load_kubeconfig(paths, context, check);
    };
    return out;
}

Result<Credentials> load_kubeconfig(const std::string &paths, const std::string &context) { return load_kubeconfig(paths, context, {}); }

}  // namespace berth::kube
