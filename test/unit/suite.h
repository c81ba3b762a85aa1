// One Check program per *_test.cc: tests are listed in a table, and the program's exit code says whether all passed.
#pragma once

#include <check.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

// Like ck_assert_str_eq, which must not be given the c_str() of a temporary: it keeps the pointer for its message.
#define ck_assert_text(got, want)                        \
    do {                                                 \
        const std::string ck_got = (got), ck_want = (want); \
        ck_assert_str_eq(ck_got.c_str(), ck_want.c_str()); \
    } while (0)

#define ck_assert_part(got, part)                                                                                      \
    do {                                                                                                               \
        const std::string ck_got = (got), ck_part = (part);                                                            \
        ck_assert_msg(ck_got.find(ck_part) != std::string::npos, "\"%s\" lacks \"%s\"", ck_got.c_str(), ck_part.c_str()); \
    } while (0)

namespace berth::test {

inline int run_suite(const char *name, std::initializer_list<const TTest *> tests, double timeout_seconds = 30) {
    Suite *suite = suite_create(name);
    TCase *tcase = tcase_create(name);
    tcase_set_timeout(tcase, timeout_seconds);
    for (const TTest *test : tests)
        tcase_add_test(tcase, test);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace berth::test
