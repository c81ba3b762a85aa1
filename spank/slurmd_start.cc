#include <glob.h>

#include "spank/hooks.h"
#include "spank/roll.h"

namespace berth {

namespace {

constexpr long keep_seconds = 24 * 60 * 60;

void start_anew(const RunDir &run_dir) {
    Roll::forget(run_dir);
    // Left by placeholders whose epilog never ran. One that was needed after all costs its epilog a question.
    std::vector<std::string> names;
    run_dir.list(RunDir::begun, names);
    for (const std::string &name : names)
        if (run_dir.age_seconds(RunDir::begun, name).value_or(0) > keep_seconds)
            run_dir.remove(RunDir::begun, name);
}

}  // namespace

// Where several slurmd share a host, the others' rolls go too: that costs them a few questions.
void on_slurmd(const Options &options) {
    glob_t found{};
    if (glob(options.run_dir.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
        for (std::size_t i = 0; i < found.gl_pathc; ++i)
            start_anew(RunDir(found.gl_pathv[i]));
    globfree(&found);
}

}  // namespace berth
