#include "proto/records.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <utime.h>

#include <algorithm>
#include <atomic>
#include <ctime>

#include "test/unit/scratch.h"
#include "test/unit/suite.h"

using namespace berth;
using berth::test::Scratch;

namespace {

struct Run : Scratch {
    RunDir dir{path("run")};
    std::string why;
    Run() { ck_assert_msg(dir.make(why), "%s", why.c_str()); }

    using Scratch::write;
    bool write(RunDir::Kind kind, const std::string &name) {
        return dir.write(kind, name, Message{"x", {}}.set("name", name), why);
    }
    std::vector<std::string> names(RunDir::Kind kind) const {
        std::vector<std::string> found;
        ck_assert(dir.list(kind, found));
        std::sort(found.begin(), found.end());
        return found;
    }
};

mode_t mode_of(const std::string &path) {
    struct stat st {};
    ck_assert_int_eq(lstat(path.c_str(), &st), 0);
    return st.st_mode & 07777;
}

}  // namespace

START_TEST(node_name_replaces_every_percent_n) {
    ck_assert_text(RunDir::expand("/run/berth", "n1"), "/run/berth");
    ck_assert_text(RunDir::expand("/run/%n/berth-%n", "n1"), "/run/n1/berth-n1");
    ck_assert_text(RunDir::expand("/run/%n", "%n%n"), "/run/%n%n");
    ck_assert_text(RunDir::expand("/run/%n/x", ""), "/run//x");
    ck_assert_text(RunDir::job_name(4294967294, "0123456789abcdef"), "4294967294.0123456789abcdef");
}
END_TEST

START_TEST(directory_is_made_with_its_parents_and_records_are_private) {
    const Scratch scratch;
    const RunDir dir(scratch.path("a/b/run"));
    std::string why;
    umask(022);
    ck_assert(dir.make(why));
    ck_assert(dir.make(why));  // again is no trouble
    ck_assert_uint_eq(mode_of(scratch.path("a/b/run")), 0755);  // slurmctld's user finds the controller's files in it
    for (const char *kind : {"jobs", "ended", "held", "begun", "gate"})
        ck_assert_uint_eq(mode_of(scratch.path("a/b/run/") + kind), 0700);
    ck_assert_text(dir.socket_path(), scratch.path("a/b/run/agent.sock"));
}
END_TEST

START_TEST(unsafe_directories_are_refused) {
    std::string why;
    const Scratch scratch;
    ck_assert(!RunDir(scratch.write("file", "")).make(why));
    ck_assert(why.ends_with("is not a directory"));
    Run run;
    ck_assert_int_eq(chmod(run.path("run/held").c_str(), 0777), 0);
    ck_assert(!run.dir.make(why));
    ck_assert(why.ends_with("others than its owner may write there"));
    ck_assert_int_eq(chmod(run.path("run/held").c_str(), 0700), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chown(run.path("run").c_str(), 54321, 0), 0);
        ck_assert(!run.dir.make(why));
        ck_assert(why.find("belongs to uid 54321") != std::string::npos);
        ck_assert_int_eq(chown(run.path("run").c_str(), 0, 0), 0);
    }
    ck_assert_int_eq(rmdir(run.path("run/held").c_str()), 0);
    ck_assert_int_eq(symlink(run.path("run/jobs").c_str(), run.path("run/held").c_str()), 0);
    ck_assert(!run.dir.make(why));
}
END_TEST

START_TEST(record_comes_back_as_it_went_and_only_in_its_kind) {
    Run run;
    const Message record = Message{"held", {}}.set("job", 12).set("nonce", "0123456789abcdef").set("name", "pod");
    ck_assert(run.dir.write(RunDir::held, "5b2f-11", record, run.why));
    const auto back = run.dir.read(RunDir::held, "5b2f-11");
    ck_assert(back.has_value());
    ck_assert(back->verb == "held" && back->fields == record.fields);
    ck_assert(run.dir.exists(RunDir::held, "5b2f-11"));
    ck_assert(!run.dir.exists(RunDir::jobs, "5b2f-11") && !run.dir.exists(RunDir::ended, "5b2f-11"));
    ck_assert(!run.dir.read(RunDir::ended, "5b2f-11"));
    ck_assert_uint_eq(mode_of(run.path("run/held/5b2f-11")), 0600);
    run.dir.remove(RunDir::held, "5b2f-11");
    ck_assert(!run.dir.exists(RunDir::held, "5b2f-11"));
    run.dir.remove(RunDir::held, "5b2f-11");
    ck_assert(run.names(RunDir::held).empty());
}
END_TEST

START_TEST(names_that_could_lead_elsewhere_are_refused) {
    using namespace std::string_literals;
    Run run;
    run.write(RunDir::jobs, "12.aa");
    for (const std::string &name : {""s, "."s, ".."s, "../jobs/12.aa"s, "/etc/passwd"s, "a/b"s, ".hidden"s, "a b"s,
                                    "a\nb"s, "a\0b"s, "a_b"s, "a%n"s, std::string(129, 'a')}) {
        ck_assert_msg(!run.write(RunDir::held, name), "%s", name.c_str());
        ck_assert(!run.why.empty());
        ck_assert(!run.dir.exists(RunDir::held, name));
        ck_assert(!run.dir.read(RunDir::held, name));
        ck_assert(!run.dir.age_seconds(RunDir::held, name));
        run.dir.remove(RunDir::held, name);
    }
    ck_assert(run.dir.exists(RunDir::jobs, "12.aa"));
    ck_assert(run.write(RunDir::held, std::string(128, 'a')));
    ck_assert(run.write(RunDir::held, "AZaz09.-"));
}
END_TEST

START_TEST(list_names_records_and_nothing_else) {
    Run run;
    ck_assert(run.write(RunDir::jobs, "12.bb") && run.write(RunDir::jobs, "12.aa") && run.write(RunDir::held, "uid"));
    run.write("run/jobs/.12.cc.4711", "half a rec");  // what a writer that was killed leaves
    ck_assert(run.names(RunDir::jobs) == std::vector<std::string>({"12.aa", "12.bb"}));
    ck_assert(run.names(RunDir::ended).empty());
}
END_TEST

START_TEST(absent_directory_is_an_empty_one_and_an_unreadable_one_is_not) {
    const Scratch scratch;
    std::vector<std::string> names;
    ck_assert(RunDir(scratch.path("absent")).list(RunDir::held, names));
    ck_assert(names.empty());
    mkdir(scratch.path("run").c_str(), 0755);
    scratch.write("run/held", "a file where a directory should be");
    ck_assert(!RunDir(scratch.path("run")).list(RunDir::held, names));
}
END_TEST

START_TEST(record_that_cannot_be_written_leaves_nothing) {
    Run run;
    ck_assert(!run.dir.write(RunDir::held, "uid", Message{"x", {}}.set("name", "a\nb"), run.why));
    ck_assert_int_eq(rmdir(run.path("run/held").c_str()), 0);
    ck_assert(!run.write(RunDir::held, "uid"));
    ck_assert(run.why.find("/held/uid: ") != std::string::npos);
    ck_assert(!run.dir.exists(RunDir::held, "uid"));
    // A directory in the record's place: the rename fails, and its temporary file goes again.
    mkdir(run.path("run/jobs/12.aa").c_str(), 0700);
    ck_assert(!run.write(RunDir::jobs, "12.aa"));
    rmdir(run.path("run/jobs/12.aa").c_str());
    ck_assert(std::filesystem::is_empty(run.path("run/jobs")));
}
END_TEST

START_TEST(broken_or_foreign_files_are_no_records) {
    Run run;
    run.write("run/held/cut", "berth 1 held\njob=1");
    run.write("run/held/new", "berth 2 held\njob=1\n");
    run.write("run/held/big", "berth 1 held\na=" + std::string(40000, 'x') + "\n");
    run.write("run/held/empty", "");
    run.write("elsewhere", "berth 1 held\njob=1\n");
    ck_assert_int_eq(symlink(run.path("elsewhere").c_str(), run.path("run/held/link").c_str()), 0);
    mkdir(run.path("run/held/dir").c_str(), 0700);
    for (const char *name : {"cut", "new", "big", "empty", "link", "dir", "absent"})
        ck_assert_msg(!run.dir.read(RunDir::held, name), "%s", name);
    ck_assert(run.dir.exists(RunDir::held, "new"));  // unreadable, but there: who looks for held pods can tell
}
END_TEST

// Readers see the old record or the new one, and the list never the temporary name.
START_TEST(records_are_replaced_whole) {
    Run run;
    const std::string long_text(20000, 'x');
    ck_assert(run.dir.write(RunDir::held, "uid", Message{"a", {}}.set("text", long_text), run.why));
    std::atomic<bool> stop{false};
    std::thread writer([&] {
        std::string why;
        for (int i = 0; !stop; ++i)
            run.dir.write(RunDir::held, "uid",
                          Message{i % 2 == 0 ? "b" : "a", {}}.set("text", i % 2 == 0 ? "" : long_text), why);
    });
    bool seen_a = false, seen_b = false, whole = true;
    for (int i = 0; i < 200000 && whole && (i < 2000 || !seen_a || !seen_b); ++i) {
        const auto record = run.dir.read(RunDir::held, "uid");
        whole = record && record->get("text") == (record->verb == "a" ? long_text : "") &&
                run.names(RunDir::held) == std::vector<std::string>({"uid"});
        (record && record->verb == "a" ? seen_a : seen_b) = true;
    }
    stop = true;
    writer.join();
    ck_assert(whole);
    ck_assert(seen_a && seen_b);
}
END_TEST

START_TEST(age_counts_from_the_last_write) {
    Run run;
    ck_assert(!run.dir.age_seconds(RunDir::ended, "12.aa"));
    run.write(RunDir::ended, "12.aa");
    ck_assert(run.dir.age_seconds(RunDir::ended, "12.aa").value_or(-1) <= 1);
    const utimbuf yesterday{time(nullptr) - 86400, time(nullptr) - 86400};
    ck_assert_int_eq(utime(run.path("run/ended/12.aa").c_str(), &yesterday), 0);
    const long age = run.dir.age_seconds(RunDir::ended, "12.aa").value_or(-1);
    ck_assert(age >= 86400 && age <= 86405);
    run.write(RunDir::ended, "12.aa");
    ck_assert(run.dir.age_seconds(RunDir::ended, "12.aa").value_or(-1) <= 1);
}
END_TEST

int main() {
    return test::run_suite(
        "records",
        {node_name_replaces_every_percent_n, directory_is_made_with_its_parents_and_records_are_private,
         unsafe_directories_are_refused, record_comes_back_as_it_went_and_only_in_its_kind,
         names_that_could_lead_elsewhere_are_refused, list_names_records_and_nothing_else,
         absent_directory_is_an_empty_one_and_an_unreadable_one_is_not, record_that_cannot_be_written_leaves_nothing,
         broken_or_foreign_files_are_no_records, records_are_replaced_whole, age_counts_from_the_last_write});
}
