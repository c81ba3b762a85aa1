// A request goes through the pipe to the submitting child and comes out as it went in.
#include "agent/slurm/request.h"

#include "test/unit/suite.h"

using namespace berth;
using namespace berth::slurm;

namespace {

// No member has its default.
Placeholder full() {
    Placeholder p;
    p.job_name = "ring \"0\"\n";
    p.comment = "Job ns/ring: 8 pods \xc3\xa9";
    p.uid = 4294967293U;
    p.gid = 2001;
    p.account = "a";
    p.partition = "p,q";
    p.qos = "high";
    p.reservation = "r";
    p.constraints = "x&y";
    p.prefer = "fast";
    p.licenses = "matlab:1";
    p.wckey = "w";
    p.tasks = 8;
    p.cpus_per_task = 65534;
    p.memory_mib = 0xfffffffffffffffeULL;
    p.gres = {{"gpu:a100", 2}, {"shard", 4}};
    p.tmp_disk_mib = 12;
    p.min_nodes = 2;
    p.max_nodes = 0;
    p.tasks_per_node = 4;
    p.time_limit_minutes = 90;
    p.priority = 0;
    p.nice = -100;
    p.exclusive = p.spread = p.pack = true;
    p.begin = 1900000000;
    p.deadline = 1900000001;
    p.dependency = "afterok:12:13";
    p.switches = 1;
    p.switches_wait_seconds = 60;
    p.excluded_nodes = "n[1-3]";
    return p;
}

}  // namespace

START_TEST(request_comes_back_as_it_was) {
    const Request request{{full(), Placeholder{}}, {R"({"berth":1,"x":"y"})", "t"}, 6818};
    const std::string text = to_text(request);
    ck_assert(text.find('\n') == std::string::npos);
    const auto back = parse_request(text);
    ck_assert_msg(back.ok(), "%s", back ? "" : back.error().c_str());
    ck_assert_text(to_text(*back), text);
    ck_assert_uint_eq(back->doorbell_port, 6818);
    ck_assert_uint_eq(back->parts.size(), 2);
    ck_assert_text(back->tickets[0], R"({"berth":1,"x":"y"})");
    const Placeholder &p = back->parts[0];
    ck_assert_text(p.job_name, "ring \"0\"\n");
    ck_assert_uint_eq(p.uid, 4294967293U);
    ck_assert(p.memory_mib == 0xfffffffffffffffeULL);
    ck_assert(p.gres == full().gres);
    ck_assert(p.priority == 0U && p.nice == -100);
    ck_assert(p.exclusive && p.spread && p.pack);
    ck_assert_text(p.excluded_nodes, "n[1-3]");
    ck_assert(!back->parts[1].priority && !back->parts[1].nice && !back->parts[1].exclusive);
}
END_TEST

START_TEST(half_a_request_is_none) {
    const std::string text = to_text(Request{{full()}, {"t"}, 1});
    for (std::size_t length = 0; length < text.size(); ++length)
        ck_assert(!parse_request(std::string_view(text).substr(0, length)));
    std::string wrong = text;
    wrong.replace(wrong.find("\"tasks\":8"), 9, "\"tasks\":-8");
    const auto refused = parse_request(wrong);
    ck_assert(!refused);
    ck_assert_text(refused.error(), "part 0 of the request: tasks is missing or of the wrong type");
    ck_assert(!parse_request("{}"));
    ck_assert(!parse_request(R"({"port":1,"parts":[]})"));
}
END_TEST

START_TEST(text_that_is_not_utf8_is_not_sent) {
    Placeholder p = full();
    p.comment = "\xff";
    ck_assert_text(to_text(Request{{p}, {"t"}, 1}), "");
    ck_assert_text(to_text(Request{{full()}, {"\xff"}, 1}), "");
}
END_TEST

START_TEST(answer_comes_back_as_it_was) {
    for (const auto outcome : {Submission::Outcome::queued, Submission::Outcome::running, Submission::Outcome::refused,
                               Submission::Outcome::limit, Submission::Outcome::full, Submission::Outcome::unsure}) {
        const auto back = parse_submission(to_text(Submission{outcome, 12, "Invalid account\n\"x\""}));
        ck_assert(back && back->outcome == outcome && back->job == 12 && back->problem == "Invalid account\n\"x\"");
    }
    ck_assert(parse_submission(to_text(Submission{Submission::Outcome::refused, 0, "\xff"})).ok());
    for (const char *text : {"", "{}", "12", R"({"outcome":6,"job":1,"problem":""})", R"({"outcome":0,"job":-1,"problem":""})"})
        ck_assert(!parse_submission(text));
}
END_TEST

int main() {
    return test::run_suite("request", {request_comes_back_as_it_was, half_a_request_is_none, text_that_is_not_utf8_is_not_sent,
                                       answer_comes_back_as_it_was});
}
