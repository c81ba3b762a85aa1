#include "proto/trusted_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

constexpr uid_t stranger = 54321;

std::string refusal(const std::string &path, bool secret = false) {
    std::string why;
    return trusted_file(path, secret, why) ? "" : why;
}

bool says(const std::string &why, const char *words) { return why.find(words) != std::string::npos; }

}  // namespace

START_TEST(own_file_in_own_directory_is_trusted) {
    const test::Scratch scratch;
    ck_assert_text(refusal(scratch.write("f", "x", 0644)), "");
    ck_assert_text(refusal(scratch.write("f", "x", 0640), true), "");
}
END_TEST

START_TEST(file_that_others_may_change_is_refused) {
    const test::Scratch scratch;
    for (const mode_t mode : {0664, 0646, 0620, 0602})
        ck_assert(says(refusal(scratch.write("f", "x", mode)), "others may write to it; chmod go-w"));
}
END_TEST

START_TEST(secret_that_everybody_may_read_is_refused) {
    const test::Scratch scratch;
    const std::string file = scratch.write("f", "x", 0644);
    ck_assert(says(refusal(file, true), "everybody may read the secret in it; chmod o-r"));
}
END_TEST

START_TEST(file_of_a_stranger_is_refused) {
    if (geteuid() != 0)
        return;
    const test::Scratch scratch;
    const std::string file = scratch.write("f", "x");
    ck_assert_int_eq(chown(file.c_str(), stranger, static_cast<gid_t>(-1)), 0);
    ck_assert(says(refusal(file), "belongs to uid 54321"));
}
END_TEST

START_TEST(directory_that_others_may_write_to_is_refused) {
    const test::Scratch scratch;
    const std::string inner = scratch.path("d");
    mkdir(inner.c_str(), 0700);
    const std::string file = scratch.write("d/f", "x");
    chmod(inner.c_str(), 0777);
    ck_assert(says(refusal(file), "others may write to the directory"));
    chmod(inner.c_str(), 01777);  // like /tmp: there nobody can take away what is another's
    ck_assert_text(refusal(file), "");
    chmod(inner.c_str(), 0700);
    chmod(scratch.path().c_str(), 0770);  // further up
    ck_assert(says(refusal(file), "others may write to the directory"));
    std::string why;
    ck_assert(!trusted_directories(file, why));
    chmod(scratch.path().c_str(), 0700);
    ck_assert(trusted_directories(file, why));
}
END_TEST

START_TEST(directory_of_a_stranger_is_refused) {
    if (geteuid() != 0)
        return;
    const test::Scratch scratch;
    const std::string file = scratch.write("f", "x");
    ck_assert_int_eq(chown(scratch.path().c_str(), stranger, static_cast<gid_t>(-1)), 0);
    ck_assert(says(refusal(file), "belongs to uid 54321, who may put another file in its place"));
}
END_TEST

START_TEST(symlink_is_judged_by_both_its_places) {
    const test::Scratch scratch;
    const std::string link = scratch.path("link"), open = scratch.path("open");
    const std::string file = scratch.write("f", "x");
    ck_assert_int_eq(symlink(file.c_str(), link.c_str()), 0);
    ck_assert_text(refusal(link), "");
    mkdir(open.c_str(), 0700);
    chmod(open.c_str(), 0777);
    ck_assert_int_eq(symlink(file.c_str(), (open + "/link").c_str()), 0);
    ck_assert(says(refusal(open + "/link"), "others may write to the directory"));
    const std::string loose = scratch.write("open/f", "x");
    unlink(link.c_str());
    ck_assert_int_eq(symlink(loose.c_str(), link.c_str()), 0);
    ck_assert(says(refusal(link), "others may write to the directory"));
}
END_TEST

START_TEST(what_is_no_file_is_refused) {
    const test::Scratch scratch;
    ck_assert(says(refusal(scratch.path()), "not a plain file"));
    ck_assert(says(refusal(scratch.path("none")), "No such file"));
}
END_TEST

int main() {
    return berth::test::run_suite(
        "trusted_path", {own_file_in_own_directory_is_trusted, file_that_others_may_change_is_refused,
                         secret_that_everybody_may_read_is_refused, file_of_a_stranger_is_refused,
                         directory_that_others_may_write_to_is_refused, directory_of_a_stranger_is_refused,
                         symlink_is_judged_by_both_its_places, what_is_no_file_is_refused});
}
