#include "spank/options.h"

#include <cstdarg>
#include <string>
#include <vector>

#include "test/unit/suite.h"

using namespace berth;

namespace {
std::vector<std::string> complaints;
}

extern "C" {
// In place of slurmd's.
void slurm_error(const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    complaints.emplace_back(line);
}
}

namespace {

Options parse(std::vector<std::string> arguments, const char *node = "n1") {
    std::vector<char *> pointers;
    for (std::string &argument : arguments)
        pointers.push_back(argument.data());
    complaints.clear();
    return parse_options(static_cast<int>(pointers.size()), pointers.data(), node);
}

}  // namespace

START_TEST(without_arguments_all_is_default) {
    const Options options = parse({});
    ck_assert_text(options.run_dir, "/run/berth");
    ck_assert_text(options.key_file, "/etc/berth/key");
    ck_assert_int_eq(options.hold.count(), 900);
    ck_assert_int_eq(options.gate.count(), 900);
    ck_assert(complaints.empty());
}
END_TEST

START_TEST(arguments_are_taken_in_any_order) {
    const Options options = parse({"gate=1", "key=/k=1", "run_dir=/run/%n/%n", "hold=86400"}, "node-7");
    ck_assert_text(options.run_dir, "/run/node-7/node-7");
    ck_assert_text(options.key_file, "/k=1");
    ck_assert_int_eq(options.hold.count(), 86400);
    ck_assert_int_eq(options.gate.count(), 1);
    ck_assert(complaints.empty());
}
END_TEST

START_TEST(wrong_arguments_are_named_and_their_defaults_stay) {
    for (const char *wrong : {"run_dir=run", "run_dir=", "run_dir", "key=key", "key=", "hold=0",           "hold=-1",
                              "hold=86401",  "hold=1s",  "hold= 1", "hold=",   "hold", "hold=99999999999", "gate=0",
                              "gate=x",      "Hold=5",   "holds=5", "",        "=",    "verbose"}) {
        const Options options = parse({wrong});
        ck_assert_text(options.run_dir, "/run/berth");
        ck_assert_text(options.key_file, "/etc/berth/key");
        ck_assert_int_eq(options.hold.count(), 900);
        ck_assert_int_eq(options.gate.count(), 900);
        ck_assert_uint_eq(complaints.size(), 1);
        ck_assert_msg(complaints[0].find("\"" + std::string(wrong) + "\"") != std::string::npos, "%s",
                      complaints[0].c_str());
    }
}
END_TEST

START_TEST(one_mistake_costs_no_other_argument) {
    const Options options = parse({"hold=60", "typo=1", "gate=never", "key=/k"});
    ck_assert_int_eq(options.hold.count(), 60);
    ck_assert_int_eq(options.gate.count(), 900);
    ck_assert_text(options.key_file, "/k");
    ck_assert_uint_eq(complaints.size(), 2);
}
END_TEST

int main() {
    return test::run_suite("options",
                           {without_arguments_all_is_default, arguments_are_taken_in_any_order,
                            wrong_arguments_are_named_and_their_defaults_stay, one_mistake_costs_no_other_argument});
}
