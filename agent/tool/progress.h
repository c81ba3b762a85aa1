// Progress: a line on a terminal that says what is being waited for, gone when the answer is there. Elsewhere it says nothing.
#pragma once

#include <cstdio>
#include <string_view>

namespace berth::tool {

class Progress {
  public:
    explicit Progress(std::FILE *err);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    // "asking slurmctld"; replaces what was said before.
    void say(std::string_view what);
    // Before something else is written.
    void clear();

  private:
    std::FILE *err_;  // nullptr: nobody looks
    bool shown_ = false;
};

}  // namespace berth::tool
