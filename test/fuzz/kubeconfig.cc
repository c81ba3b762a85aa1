// A kubeconfig. It is read from memory; files that it names are looked for as always.
#include <sys/mman.h>
#include <unistd.h>

#include "agent/kube/credentials.h"
#include "test/fuzz/fuzz.h"

using namespace berth;

int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    static const int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
    static const std::string path = "/proc/self/fd/" + std::to_string(fd);
    if (ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))
        return 0;
    const auto credentials = kube::load_kubeconfig(path);
    if (!credentials) {
        fuzz::require(!credentials.error().empty() && credentials.error().size() < 6000, "an error is bounded", credentials.error());
        return 0;
    }
    const std::string &server = credentials->server;
    const std::string host = kube::host_of(server);
    fuzz::require(server.starts_with("https://") || (server.starts_with("http://") && kube::is_loopback(host)),
                  "plain http is for loopback alone", server);
    fuzz::require(!credentials->insecure, "TLS is always verified");
    fuzz::require(!server.ends_with('/') && !fuzz::has_control(server), "a server's address is one", server);
    fuzz::require(!fuzz::has_control(credentials->token), "a token fits into a header");
    fuzz::require(credentials->client_cert_pem.empty() == credentials->client_key_pem.empty(), "certificate and key come together");
    return 0;
}
