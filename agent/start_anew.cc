#include "agent/start_anew.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "agent/log.h"

namespace berth {

namespace {

// libslurm's connections too: slurmctld then cannot answer what is under way, and takes it back.
void close_all_on_exec() {
    DIR *open_files = opendir("/proc/self/fd");
    if (open_files == nullptr)
        return;
    while (const dirent *entry = readdir(open_files))
        if (const int fd = std::atoi(entry->d_name); fd > STDERR_FILENO)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
    closedir(open_files);
}

}  // namespace

void start_anew() {
    log::stop();
    std::vector<std::string> words;
    std::ifstream arguments("/proc/self/cmdline", std::ios::binary);
    for (std::string word; std::getline(arguments, word, '\0');)
        words.push_back(word);
    std::vector<char *> argv;
    for (std::string &word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    close_all_on_exec();
    if (!words.empty())
        execv("/proc/self/exe", argv.data());
    _exit(EXIT_FAILURE);  // whoever started us does it again
}

}  // namespace berth
