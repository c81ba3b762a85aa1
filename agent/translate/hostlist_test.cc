#include "agent/translate/hostlist.h"

#include "agent/translate/text.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

std::string expanded(const std::string &text) {
    const auto names = expand_hostlist(text);
    return names ? joined(*names) : "refused";
}

START_TEST(lists_are_expanded_as_slurm_writes_them) {
    const std::pair<const char *, const char *> rows[] = {
        {"n1", "n1"},
        {"n[1-3,7],gpu-02", "n1, n2, n3, n7, gpu-02"},
        {"n[08-10]", "n08, n09, n10"},
        {"n[8-10]", "n8, n9, n10"},
        {"n[1-1]", "n1"},
        {"n[3,1]", "n3, n1"},
        {"n1,n1,n[1-2]", "n1, n2"},
        {"r[1-2]n[1-2]", "r1n1, r1n2, r2n1, r2n2"},
        {"r[1-2]-eth", "r1-eth, r2-eth"},
        {"a.b_c-d", "a.b_c-d"},
        {"[1-2]", "1, 2"},
        {"n[1,01,001]", "n1, n01, n001"},
    };
    for (const auto &[text, expected] : rows)
        ck_assert_text(expanded(text), expected);
}
END_TEST

START_TEST(what_is_no_list_is_refused) {
    const std::string rows[] = {
        "",       ",",        "n1,", ",n1",     "n[1-3",   "n1-3]",      "n[]",              "n[3-1]", "n[a-b]",
        "n[1-]",  "n[-1]",    "n 1", "n1;n2",   "n[1--2]", "n[1,2",      "n[[1]]",           "n\n",    "n/1",
        "n[1 -2]", "n[1-2]]", "n*",  "n[1-9999999999]",    "n[0-65536]", "n[0-255]x[0-256]", "n[0-999999999]",
        std::string(70000, 'a')};
    for (const std::string &row : rows)
        ck_assert_msg(expanded(row) == "refused", "accepted: %s", row.substr(0, 50).c_str());
    const std::string why = expand_hostlist("n[3-1]").error();
    ck_assert_text(why, "\"n[3-1]\" is not a list of nodes; accepted are up to 65536 names separated by commas, such as n7 or "
                        "n[1-3,7],gpu-02");
    ck_assert_uint_eq(expand_hostlist("n[0-65535]")->size(), 65536);
    ck_assert_uint_eq(expand_hostlist("n[0-255]x[0-255]")->size(), 65536);
}
END_TEST

START_TEST(names_are_compressed_into_ranges) {
    const std::pair<std::vector<std::string>, const char *> rows[] = {
        {{}, ""},
        {{"n1"}, "n1"},
        {{"n2", "n1"}, "n[1-2]"},
        {{"n1", "n2", "n3", "n7", "gpu-02"}, "gpu-02,n[1-3,7]"},
        {{"n9", "n10", "n11"}, "n[9-11]"},
        {{"n08", "n09", "n10"}, "n[08-10]"},
        {{"n1", "n01"}, "n[1,01]"},
        {{"n9", "n10", "n09"}, "n[9,09-10]"},
        {{"n", "n1"}, "n,n1"},
        {{"login", "login", "n1"}, "login,n1"},
        {{"1", "2"}, "[1-2]"},
        {{"n0", "n1", "n00"}, "n[0-1,00]"},
        {{"n1234567890123"}, "n1234567890123"},
        {{"r1n1", "r1n2", "r2n1"}, "r1n[1-2],r2n1"},
        {{"a1b", "a2b"}, "a1b,a2b"},
    };
    for (const auto &[names, expected] : rows)
        ck_assert_text(compress_hostlist(names), expected);
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite("hostlist", {lists_are_expanded_as_slurm_writes_them, what_is_no_list_is_refused,
                                               names_are_compressed_into_ranges});
}
