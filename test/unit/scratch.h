// Scratch: a directory of one test's own, removed with it; files in it; and waiting for a condition, never for a time.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

namespace berth::test {

class Scratch {
  public:
    Scratch() {
        const char *base = std::getenv("TMPDIR");
        path_ = std::string(base != nullptr ? base : "/tmp") + "/berth-test-XXXXXX";
        if (mkdtemp(path_.data()) == nullptr) {
            std::perror(path_.c_str());
            std::abort();
        }
    }
    ~Scratch() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    const std::string &path() const { return path_; }
    std::string path(const std::string &name) const { return path_ + "/" + name; }

    // Writes a file in place (`write`) or as editors and careful daemons do, under another name and moved (`replace`).
    std::string write(const std::string &name, std::string_view text, mode_t mode = 0600) const {
        const std::string file = path(name);
        std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
        chmod(file.c_str(), mode);
        return file;
    }
    std::string replace(const std::string &name, std::string_view text, mode_t mode = 0600) const {
        const std::string temporary = write(name + ".new", text, mode), file = path(name);
        std::rename(temporary.c_str(), file.c_str());
        return file;
    }

  private:
    std::string path_;
};

template <class Condition>
bool wait_until(Condition condition, std::chrono::seconds longest = std::chrono::seconds(10)) {
    const auto deadline = std::chrono::steady_clock::now() + longest;
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline)
            return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

}  // namespace berth::test
