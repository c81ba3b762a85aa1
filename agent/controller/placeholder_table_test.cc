#include "agent/controller/placeholder_table.h"

#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using berth::test::Scratch;

namespace {

constexpr std::uint32_t alice = 20001, bob = 20002;

// Whose placeholder slurmctld's plugin takes the job for; 0: nobody's.
std::uint32_t owner_of(const std::string &path, std::uint32_t job) {
    std::ifstream file(path, std::ios::binary);
    file.seekg(static_cast<std::streamoff>(job) * 4);
    std::uint32_t owner = 0;
    return file.read(reinterpret_cast<char *>(&owner), sizeof owner) ? owner : 0;
}

// A write beyond this many bytes fails, as it would on a file system without room. Check's own files as well: nothing is asserted meanwhile.
void room_for(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
}

struct Scene {
    Scratch scratch;
    const std::string path = scratch.path("placeholders");
    PlaceholderTable table{path};

    Scene() { ck_assert(table.open().ok()); }
};

}  // namespace

START_TEST(it_says_exactly_what_it_is_told) {
    Scene s;
    s.table.set(5, alice);
    ck_assert_uint_eq(owner_of(s.path, 5), 0);  // not before the first comparison
    s.table.replace({{5, alice}, {7, bob}});
    ck_assert_uint_eq(owner_of(s.path, 5), alice);
    ck_assert_uint_eq(owner_of(s.path, 7), bob);
    s.table.set(7, 0);
    s.table.replace({{6, bob}});
    ck_assert_uint_eq(owner_of(s.path, 5), 0);
    ck_assert_uint_eq(owner_of(s.path, 6), bob);
    ck_assert_uint_eq(owner_of(s.path, 7), 0);
}
END_TEST

START_TEST(a_job_that_found_no_room_is_written_once_there_is_some) {
    Scene s;
    s.table.replace({{5, alice}});
    room_for(100);
    s.table.set(50, bob);
    s.table.replace({{5, alice}, {50, bob}});
    room_for(RLIM_INFINITY);
    ck_assert_uint_eq(owner_of(s.path, 50), 0);
    s.table.replace({{5, alice}, {50, bob}});
    ck_assert_uint_eq(owner_of(s.path, 50), bob);
    ck_assert_uint_eq(owner_of(s.path, 5), alice);
}
END_TEST

START_TEST(a_table_with_gaps_does_not_take_the_place_of_one_without) {
    Scene before;
    before.table.replace({{5, alice}, {50, bob}});
    PlaceholderTable next(before.path);
    ck_assert(next.open().ok());
    room_for(100);
    next.replace({{5, alice}, {50, bob}});
    room_for(RLIM_INFINITY);
    ck_assert_uint_eq(owner_of(before.path, 50), bob);
    next.replace({{5, alice}, {51, bob}});
    ck_assert_uint_eq(owner_of(before.path, 50), 0);
    ck_assert_uint_eq(owner_of(before.path, 51), bob);
}
END_TEST

START_TEST(a_table_with_gaps_is_better_than_none) {
    Scene s;
    room_for(100);
    s.table.replace({{5, alice}, {50, bob}});
    room_for(RLIM_INFINITY);
    ck_assert_uint_eq(owner_of(s.path, 5), alice);
}
END_TEST

int main() {
    return berth::test::run_suite("placeholder_table",
                                  {it_says_exactly_what_it_is_told, a_job_that_found_no_room_is_written_once_there_is_some,
                                   a_table_with_gaps_does_not_take_the_place_of_one_without, a_table_with_gaps_is_better_than_none});
}
