// Credentials: where the API server is and how we prove who we are, from a kubeconfig or from the service account of
// the pod we run in. Secrets stay in memory. Not thread-safe: owned by one Http.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "agent/result.h"

namespace berth::kube {

struct Credentials {
    std::string server;           // "https://host:port", no trailing slash
    std::string tls_server_name;  // empty: the host in server
    std::string proxy_url;
    std::string ca_pem;           // empty: the system's authorities
    std::string client_cert_pem, client_key_pem;
    std::string token;            // a fixed one
    std::string token_file;       // re-read at most once a minute, and on 401
    bool insecure = false;        // insecure-skip-tls-verify: refused by load unless the server is on loopback

    // users[].user.exec: a program that prints a token or certificate, run without a shell.
    struct Exec {
        std::string command;
        std::vector<std::string> args;
        std::vector<std::pair<std::string, std::string>> env;
        std::string api_version;
    };
    std::optional<Exec> exec;
};

// `paths` is one file or a colon-separated list as in KUBECONFIG (first definition of a name wins); context empty: current-context.
Result<Credentials> load_kubeconfig(const std::string &paths, const std::string &context = "");
// The service account mounted into a pod, `root` being /var/run/secrets/kubernetes.io/serviceaccount.
Result<Credentials> load_in_cluster(const std::string &root, const std::string &host, const std::string &port);

}  // namespace berth::kube
