// CgroupTree: plain files that look like the kernel's, with one pod's cgroups among them.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "agent/node/pod_cgroup.h"
#include "test/unit/scratch.h"

namespace berth::test {

constexpr const char *pod_uid = "11111111-2222-3333-4444-555555555555";

class CgroupTree : public Scratch {
  public:
    void make(const std::string &directory, const std::string &file, const std::string &text) const {
        std::filesystem::create_directories(path(directory));
        write(directory + "/" + file, text);
    }
    std::string read(const std::string &name) const {
        std::string word;
        std::ifstream(path(name)) >> word;
        return word;
    }
    node::PodCgroup pod() const { return node::PodCgroup(path(), "/", pod_uid); }
};

}  // namespace berth::test
