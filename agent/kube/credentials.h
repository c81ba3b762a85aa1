// Credentials: where the API server is and how we prove who we are, from a kubeconfig or from the service account of
// the pod we run in. Secrets stay in memory. Not thread-safe: owned by one Http.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/result.h"

namespace berth::kube {

struct Credentials {
    std::string server;           // "https://host:port", no trailing slash
    std::string tls_server_name;  // empty: the host in server
    std::string proxy_url;
    std::string ca_pem;  // empty: the system's authorities
    std::string client_cert_pem, client_key_pem;
    std::string token;       // a fixed one
    std::string token_file;  // re-read at most once a minute, and on 401
    bool insecure = false;   // insecure-skip-tls-verify: always refused by the loaders, and ignored by Http

    // users[].user.exec: a program that prints a token or certificate, run without a shell.
    struct Exec {
        std::string command;
        std::vector<std::string> args;
        std::vector<std::pair<std::string, std::string>> env;
        std::string api_version;    // client.authentication.k8s.io/v1 or /v1beta1
        bool cluster_info = false;  // provideClusterInfo: tell the program which cluster it is for
        std::string install_hint;   // shown when the program cannot be started
    };
    std::optional<Exec> exec;

    // Reads the same source again, after a 401 (rotated certificates and tokens). Empty: nothing to read again.
    std::function<Result<Credentials>()> reload;
};

// `paths` is one file or a colon-separated list as in KUBECONFIG (first definition of a name wins, files of a list that
// do not exist are passed over); context empty: current-context. Errors name file, line and key, never a value.
// Refused, because to ignore them would change who we are or whom we trust: user names with passwords, auth-provider,
// impersonation, insecure-skip-tls-verify, and plain http to any address but loopback.
Result<Credentials> load_kubeconfig(const std::string &paths, const std::string &context = "");
// The service account mounted into a pod, `root` being /var/run/secrets/kubernetes.io/serviceaccount.
Result<Credentials> load_in_cluster(const std::string &root, const std::string &host, const std::string &port);

// A bearer token as a file holds it: without the white space around it; an error when it could not stand in a header.
Result<std::string> read_token(const std::string &path);

// The host of an http(s) URL: "10.0.0.1" in "https://10.0.0.1:6443/x", "::1" in "https://[::1]:6443".
std::string host_of(const std::string &url);
bool is_loopback(const std::string &host);

}  // namespace berth::kube
