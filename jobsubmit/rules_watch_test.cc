#include "jobsubmit/rules_watch.h"

#include <fcntl.h>

#include <atomic>
#include <cstdarg>
#include <mutex>

#include "jobsubmit/file_watch.h"
#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using berth::test::Scratch;
using berth::test::wait_until;

namespace {

std::mutex log_mutex;
std::string log_text;
std::atomic<unsigned> complaints{0}, readings{0};

void keep(const char *format, va_list arguments) {
    char line[1024];
    vsnprintf(line, sizeof line, format, arguments);
    const std::lock_guard lock(log_mutex);
    log_text.append(line).push_back('\n');
}

bool logged(std::string_view text) {
    const std::lock_guard lock(log_mutex);
    return log_text.find(text) != std::string::npos;
}

}  // namespace

extern "C" {
// In place of slurmctld's.
void slurm_error(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
    ++complaints;
}
void slurm_info(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
    ++readings;
}
}

namespace {

// So long that no test lives to see it: what these tests see came by inotify.
constexpr std::chrono::milliseconds never = std::chrono::hours(1);

struct Site : Scratch {
    Site() { write("key", std::string(32, 'a')); }
    // The table must be root's or the bridge's: whoever runs the tests is the bridge.
    const std::string bridge = "BridgeUser=" + std::to_string(geteuid()) + "\n";
    std::string rules(const std::string &more = "") const {
        return bridge + "KeyFile=" + path("key") + "\nPlaceholderTable=" + path("placeholders") + "\n" + more;
    }
    std::string table(std::uint32_t job, std::uint32_t owner) const {
        std::string text((job + 1) * sizeof owner, '\0');
        text.replace(job * sizeof owner, sizeof owner, reinterpret_cast<const char *>(&owner), sizeof owner);
        return text;
    }
};

std::uint32_t min_uid(const RulesWatch &watch) { return watch.current() ? watch.current()->min_uid : 0; }
std::uint32_t owner(const RulesWatch &watch, std::uint32_t job) {
    return watch.table() ? watch.table()->owner_of(job) : 0;
}

}  // namespace

START_TEST(rules_and_table_are_there_before_the_constructor_returns) {
    const Site site;
    site.write("berth.conf", site.rules("MinUid=500"));
    site.write("placeholders", site.table(12, 1001));
    const RulesWatch watch(site.path("berth.conf"), never);
    ck_assert(watch.current() != nullptr);
    ck_assert_uint_eq(watch.current()->bridge_uid, geteuid());
    ck_assert_uint_eq(min_uid(watch), 500);
    ck_assert_text(watch.current()->key, std::string(32, 'a'));
    ck_assert_uint_eq(owner(watch, 12), 1001);
    ck_assert_uint_eq(owner(watch, 11), 0);
    ck_assert_uint_eq(owner(watch, 13), 0);
    ck_assert_uint_eq(owner(watch, 4294967295), 0);
}
END_TEST

START_TEST(without_a_good_file_there_are_no_rules) {
    const Site site;
    const RulesWatch watch(site.path("berth.conf"), never);
    ck_assert(watch.current() == nullptr);
    ck_assert(watch.table() == nullptr);
    ck_assert(logged("placeholders are refused until this is mended"));
    site.write("berth.conf", site.rules());
    ck_assert(wait_until([&] { return watch.current() != nullptr; }));
}
END_TEST

START_TEST(changes_are_seen_in_place_and_by_rename) {
    const Site site;
    site.write("berth.conf", site.rules("MinUid=500"));
    const RulesWatch watch(site.path("berth.conf"), never);
    site.write("berth.conf", site.rules("MinUid=501"));
    ck_assert(wait_until([&] { return min_uid(watch) == 501; }));
    for (std::uint32_t uid = 502; uid < 506; ++uid) {
        site.replace("berth.conf", site.rules("MinUid=" + std::to_string(uid)));
        ck_assert(wait_until([&] { return min_uid(watch) == uid; }));
    }
}
END_TEST

START_TEST(mistake_is_logged_once_and_the_old_rules_stay) {
    const Site site;
    site.write("berth.conf", site.rules("MinUid=500"));
    const RulesWatch watch(site.path("berth.conf"), never);
    const auto before = watch.current();
    site.replace("berth.conf", site.rules("MinUid=many"));
    ck_assert(wait_until([] { return logged("MinUid must be a whole number above 0; the rules stay as they were"); }));
    ck_assert(watch.current() == before);
    // The same mistake again is no news. Another one is, and shows that the first has been looked at.
    site.replace("berth.conf", site.rules("MinUid=many"));
    site.replace("berth.conf", site.rules("MinUid=many\n"));
    site.replace("berth.conf", site.rules("MaxUid=1"));
    ck_assert(wait_until([] { return logged("unknown key \"MaxUid\"") && complaints == 2; }));
    site.replace("berth.conf", site.rules("MinUid=501"));
    ck_assert(wait_until([&] { return min_uid(watch) == 501; }));
}
END_TEST

START_TEST(file_that_others_may_write_is_refused_until_its_mode_is_mended) {
    const Site site;
    site.write("berth.conf", site.rules(), 0666);
    const RulesWatch watch(site.path("berth.conf"), never);
    ck_assert(watch.current() == nullptr);
    ck_assert(logged("writable by its owner alone"));
    chmod(site.path("berth.conf").c_str(), 0644);
    ck_assert(wait_until([&] { return watch.current() != nullptr; }));
}
END_TEST

START_TEST(changed_key_is_taken_up) {
    const Site site;
    site.write("berth.conf", site.rules());
    const RulesWatch watch(site.path("berth.conf"), never);
    site.replace("key", std::string(32, 'b'));
    ck_assert(wait_until([&] { return watch.current()->key == std::string(32, 'b'); }));
    site.replace("key", "short");
    ck_assert(wait_until([] { return logged("a key has 32 to 4096 bytes"); }));
    ck_assert_text(watch.current()->key, std::string(32, 'b'));
    site.write("key", std::string(32, 'c'));
    ck_assert(wait_until([&] { return watch.current()->key == std::string(32, 'c'); }));
}
END_TEST

START_TEST(key_that_comes_after_the_rules_is_found) {
    const Site site;
    site.write("berth.conf", site.bridge + "KeyFile=" + site.path("later/key"));
    const RulesWatch watch(site.path("berth.conf"), std::chrono::milliseconds(20));
    ck_assert(watch.current() == nullptr);
    mkdir(site.path("later").c_str(), 0755);
    site.write("later/key", std::string(32, 'k'));
    ck_assert(wait_until([&] { return watch.current() != nullptr; }));
    ck_assert_text(watch.current()->key, std::string(32, 'k'));
}
END_TEST

START_TEST(table_may_appear_later_and_be_replaced) {
    const Site site;
    site.write("berth.conf", site.rules());
    const RulesWatch watch(site.path("berth.conf"), never);
    ck_assert(watch.table() == nullptr);
    site.write("placeholders", site.table(12, 1001));
    ck_assert(wait_until([&] { return owner(watch, 12) == 1001; }));
    site.replace("placeholders", site.table(13, 1002));
    ck_assert(wait_until([&] { return owner(watch, 13) == 1002; }));
    ck_assert_uint_eq(owner(watch, 12), 0);
}
END_TEST

START_TEST(table_that_its_writer_keeps_open_is_seen_and_read_live) {
    const Site site;
    site.write("berth.conf", site.rules());
    const RulesWatch watch(site.path("berth.conf"), never);
    const int fd = open(site.path("placeholders").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert(wait_until([&] { return watch.table() != nullptr; }));
    const std::uint32_t alice = 1001, gone = 0;
    ck_assert_int_eq(pwrite(fd, &alice, sizeof alice, 12 * sizeof alice), sizeof alice);
    ck_assert_uint_eq(owner(watch, 12), 1001);
    ck_assert_int_eq(pwrite(fd, &gone, sizeof gone, 12 * sizeof gone), sizeof gone);
    ck_assert_uint_eq(owner(watch, 12), 0);
    close(fd);
}
END_TEST

START_TEST(table_of_a_stranger_is_ignored) {
    const Site site;
    site.write("berth.conf", site.rules());
    site.write("placeholders", site.table(12, 1001), 0666);
    const RulesWatch watch(site.path("berth.conf"), never);
    ck_assert(watch.table() == nullptr);
    ck_assert(logged("ignored"));
}
END_TEST

START_TEST(another_table_in_berth_conf_takes_the_place_of_the_old) {
    const Site site;
    site.write("berth.conf", site.rules());
    site.write("placeholders", site.table(12, 1001));
    const RulesWatch watch(site.path("berth.conf"), never);
    ck_assert_uint_eq(owner(watch, 12), 1001);
    site.replace("berth.conf",
                 site.bridge + "KeyFile=" + site.path("key") + "\nPlaceholderTable=" + site.path("other"));
    ck_assert(wait_until([&] { return watch.table() == nullptr; }));
    site.replace("other", site.table(12, 1002));
    ck_assert(wait_until([&] { return owner(watch, 12) == 1002; }));
}
END_TEST

START_TEST(directory_removed_or_moved_and_made_anew_is_followed) {
    const Site site;
    mkdir(site.path("etc").c_str(), 0755);
    site.write("etc/berth.conf", site.rules("MinUid=500"));
    // The short look finds the directory again; without it that takes two seconds.
    const RulesWatch watch(site.path("etc/berth.conf"), std::chrono::milliseconds(20));
    std::filesystem::remove_all(site.path("etc"));
    ck_assert(wait_until([] { return logged("the rules stay as they were"); }));
    ck_assert_uint_eq(min_uid(watch), 500);
    mkdir(site.path("etc").c_str(), 0755);
    site.write("etc/berth.conf", site.rules("MinUid=501"));
    ck_assert(wait_until([&] { return min_uid(watch) == 501; }));
    std::filesystem::rename(site.path("etc"), site.path("etc.old"));
    mkdir(site.path("etc").c_str(), 0755);
    site.write("etc/berth.conf", site.rules("MinUid=502"));
    ck_assert(wait_until([&] { return min_uid(watch) == 502; }));
    site.write("etc/berth.conf", site.rules("MinUid=503"));
    ck_assert(wait_until([&] { return min_uid(watch) == 503; }));
}
END_TEST

START_TEST(change_behind_a_symlink_is_seen_by_the_slow_look) {
    const Site site;
    mkdir(site.path("shared").c_str(), 0755);
    site.write("shared/berth.conf", site.rules("MinUid=500"));
    ck_assert_int_eq(symlink(site.path("shared/berth.conf").c_str(), site.path("berth.conf").c_str()), 0);
    const RulesWatch watch(site.path("berth.conf"), std::chrono::milliseconds(20));
    ck_assert_uint_eq(min_uid(watch), 500);
    site.replace("shared/berth.conf", site.rules("MinUid=50100"));
    ck_assert(wait_until([&] { return min_uid(watch) == 50100; }));
}
END_TEST

START_TEST(burst_of_changes_ends_with_the_last) {
    const Site site;
    site.write("berth.conf", site.rules());
    const RulesWatch watch(site.path("berth.conf"), never);
    std::atomic<bool> stop{false};
    std::thread reader([&] {
        while (!stop) {
            ck_assert(watch.current() != nullptr);
            std::this_thread::yield();
        }
    });
    for (int i = 0; i < 1000; ++i)
        site.replace("berth.conf", site.rules("MinUid=" + std::to_string(1000 + i)));
    site.replace("berth.conf", site.rules("MinUid=77"));
    ck_assert(wait_until([&] { return min_uid(watch) == 77; }));
    stop = true;
    reader.join();
    ck_assert_uint_eq(complaints, 0);
}
END_TEST

START_TEST(lost_events_make_all_files_worth_a_look) {
    const Site site;
    const std::string conf = site.write("berth.conf", ""), other = site.write("other", ""),
                      another = site.write("another", "");
    FileWatch files;
    ck_assert(files.follow({conf}));
    ck_assert(files.take() == std::set<std::string>{conf});
    ck_assert(files.take().empty());
    long queue = 16384;
    std::ifstream("/proc/sys/fs/inotify/max_queued_events") >> queue;
    for (long i = 0; i <= queue; ++i)
        chmod((i % 2 == 0 ? other : another).c_str(), 0600);
    ck_assert(files.take() == std::set<std::string>{conf});
    ck_assert(files.follow({conf}));  // and all is as before
    ck_assert(files.take() == std::set<std::string>{conf});
    ck_assert(files.take().empty());
}
END_TEST

START_TEST(nothing_new_is_not_logged) {
    const Site site;
    site.write("berth.conf", site.rules());
    const RulesWatch watch(site.path("berth.conf"), never);
    for (int i = 0; i < 10; ++i)
        site.replace("berth.conf", site.rules("# comment " + std::to_string(i)));
    site.replace("berth.conf", site.rules("MinUid=500"));
    ck_assert(wait_until([&] { return min_uid(watch) == 500; }));
    ck_assert_uint_eq(readings, 2);
}
END_TEST

START_TEST(watches_come_and_go_without_waiting) {
    const Site site;
    site.write("berth.conf", site.rules());
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 200; ++i)
        const RulesWatch watch(site.path("berth.conf"), never);
    ck_assert(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}
END_TEST

int main() {
    return test::run_suite(
        "rules_watch",
        {rules_and_table_are_there_before_the_constructor_returns, without_a_good_file_there_are_no_rules,
         changes_are_seen_in_place_and_by_rename, mistake_is_logged_once_and_the_old_rules_stay,
         file_that_others_may_write_is_refused_until_its_mode_is_mended, changed_key_is_taken_up,
         key_that_comes_after_the_rules_is_found, table_may_appear_later_and_be_replaced,
         table_that_its_writer_keeps_open_is_seen_and_read_live, table_of_a_stranger_is_ignored,
         another_table_in_berth_conf_takes_the_place_of_the_old, directory_removed_or_moved_and_made_anew_is_followed,
         change_behind_a_symlink_is_seen_by_the_slow_look, burst_of_changes_ends_with_the_last,
         lost_events_make_all_files_worth_a_look, nothing_new_is_not_logged,
         watches_come_and_go_without_waiting},
        60);
}
