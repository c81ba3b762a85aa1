// bench_driver: what of the benchmark must be quick and exact. It speaks to both servers with the agent's own code.
//
//     bench_driver --kubeconfig FILE                                   takes commands (commands.h) until its standard input ends
//     bench_driver --kubeconfig FILE --method=poll --scheduler NAME --user UID [--rest SOCKET] [--threads N]
//                                                                      starts pods by the poll method (poll.h) until its standard input ends,
//                                                                      and prints then what it took
#include <fmt/core.h>
#include <getopt.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "agent/kube/credentials.h"
#include "agent/kube/http.h"
#include "agent/log.h"
#include "agent/loop.h"
#include "agent/slurm/client.h"
#include "test/bench/commands.h"
#include "test/bench/poll.h"

namespace {

using namespace berth;
using namespace berth::bench;

struct Options {
    std::string kubeconfig, method = "commands";
    Poll::Options poll;
};

bool parse(int argc, char **argv, Options &o) {
    const option known[] = {{"kubeconfig", 1, nullptr, 'k'}, {"method", 1, nullptr, 'm'}, {"scheduler", 1, nullptr, 's'},
                            {"user", 1, nullptr, 'u'},       {"rest", 1, nullptr, 'r'},   {"threads", 1, nullptr, 't'},
                            {nullptr, 0, nullptr, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, nullptr)) != -1;) {
        switch (c) {
        case 'k': o.kubeconfig = optarg; break;
        case 'm': o.method = optarg; break;
        case 's': o.poll.scheduler = optarg; break;
        case 'u': o.poll.user = static_cast<std::uint32_t>(std::strtoul(optarg, nullptr, 10)); break;
        case 'r': o.poll.rest = optarg; break;
        case 't': o.poll.threads = static_cast<unsigned>(std::strtoul(optarg, nullptr, 10)); break;
        default: return false;
        }
    }
    return optind == argc && !o.kubeconfig.empty() && (o.method == "commands" || (o.method == "poll" && !o.poll.scheduler.empty()));
}

void print(const Json &json) {
    char *text = json_dumps(json.get(), JSON_COMPACT | JSON_REAL_PRECISION(17));
    fmt::print("{}\n", text);
    std::fflush(stdout);
    std::free(text);
}

// Hands each line of standard input to take(); at its end calls over() and leaves. Nothing is worth an orderly stop here.
class Lines {
  public:
    Lines(Loop &loop, std::function<void(const std::string &)> take, std::function<void()> over)
        : take_(std::move(take)), over_(std::move(over)) {
        source_ = loop.watch_fd(STDIN_FILENO, EPOLLIN | EPOLLHUP, [this](std::uint32_t) { read_some(); });
    }

  private:
    void read_some() {
        char buffer[65536];
        const ssize_t n = read(STDIN_FILENO, buffer, sizeof buffer);
        if (n <= 0) {
            over_();
            std::fflush(stdout);
            std::_Exit(EXIT_SUCCESS);
        }
        text_.append(buffer, static_cast<std::size_t>(n));
        std::size_t begin = 0;
        for (std::size_t end; (end = text_.find('\n', begin)) != std::string::npos; begin = end + 1)
            take_(text_.substr(begin, end - begin));
        text_.erase(0, begin);
    }

    std::function<void(const std::string &)> take_;
    std::function<void()> over_;
    std::string text_;
    SourcePtr source_;
};

}  // namespace

int main(int argc, char **argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        std::fprintf(stderr, "usage: bench_driver --kubeconfig FILE [--method=poll --scheduler NAME --user UID [--rest SOCKET] [--threads N]]\n");
        return EXIT_FAILURE;
    }
    auto credentials = kube::load_kubeconfig(options.kubeconfig);
    if (!credentials) {
        std::fprintf(stderr, "bench_driver: %s\n", credentials.error().c_str());
        return EXIT_FAILURE;
    }
    log::start(log::Level::warning, "bench-driver");
    slurm::start();
    Loop loop;
    kube::Http::Options http_options;
    http_options.user_agent = "bench-driver";
    auto http = kube::Http::create(loop, std::move(*credentials), http_options);
    if (options.method == "poll") {
        Poll poll(loop, *http, options.poll);
        poll.start();
        const auto tell = [&poll] {
            const auto &calls = poll.calls();
            fmt::print("{{\"slurm\": {}, \"writes\": {}, \"tries\": {}}}\n", calls.slurm, calls.writes, calls.tries);
        };
        const Lines lines(loop, [](const std::string &) {}, tell);
        return loop.run();
    }
    Commands commands(loop, *http);
    const Lines lines(loop, [&](const std::string &line) { commands.run(line, print); }, [] {});
    return loop.run();
}
