// The words of `berthd --check-config` and `berth config check`, which must not differ: scripts read them.
#pragma once

#include <cstdio>
#include <string>

namespace berth {

// Reads the file as berthd would. Writes "FILE: ok" to `out` and returns 0, or writes the error, one line, to `err` and
// returns 1. Starts nothing and asks no server.
int check_config(const std::string &path, std::FILE *out, std::FILE *err);

// Where the configuration is when the command line does not say.
std::string default_config_path();

}  // namespace berth
