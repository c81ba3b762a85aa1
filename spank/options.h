// Options: the arguments of spank_berth.so in plugstack.conf. Defaults first; an argument that is wrong or unknown is
// logged by name and its default stays: a typing error must not drain a cluster.
#pragma once

#include <chrono>
#include <string>

namespace berth {

struct Options {
    std::string run_dir = "/run/berth";    // run_dir=DIR, "%n" is the node's name
    std::string key_file = "/etc/berth/key";  // key=FILE
    std::chrono::seconds hold{900};        // hold=SECONDS: the longest that an epilog waits for its pods to be gone
    std::chrono::seconds gate{900};        // gate=SECONDS: the longest that another job waits for them
};

Options parse_options(int count, char **arguments, const char *node);

}  // namespace berth
