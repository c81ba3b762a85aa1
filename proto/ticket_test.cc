#include "proto/ticket.h"

#include <limits>
#include <random>

#include "test/unit/suite.h"

using namespace berth;

namespace {

Ticket sample() {
    return {.cluster = "green",
            .ns = "team-a",
            .kind = "Pod",
            .name = "train-0",
            .uid = "5b2f-11",
            .nonce = "0123456789abcdef",
            .user = 1001,
            .group = 2002,
            .size = 1,
            .cpus = 4,
            .memory_mib = 2048};
}

const std::string sample_json =
    R"({"berth":1,"cluster":"green","ns":"team-a","kind":"Pod","name":"train-0","uid":"5b2f-11",)"
    R"("nonce":"0123456789abcdef","user":1001,"group":2002,"size":1,"cpus":4,"memory":2048})";

Ticket gang_sample() {
    Ticket t = sample();
    t.kind = "LeaderWorkerSet";
    t.name = "serve-0";
    t.uid = "5b2f-11/0";
    t.gres = "gpu:a100:2,shard:4";
    t.part = 1;
    t.parts = 2;
    t.shape = "2c 4096m gpu:a100:2";
    t.gang = 8;
    t.size = 7;
    t.selector = "leaderworkerset.sigs.k8s.io/name=serve,leaderworkerset.sigs.k8s.io/group-index=0";
    t.tenant = "alice:staff";
    t.per_node = 2;
    return t;
}

const std::string gang_json =
    R"({"berth":1,"cluster":"green","ns":"team-a","kind":"LeaderWorkerSet","name":"serve-0","uid":"5b2f-11/0",)"
    R"("nonce":"0123456789abcdef","user":1001,"group":2002,"size":7,"cpus":4,"memory":2048,)"
    R"("gres":"gpu:a100:2,shard:4","part":1,"parts":2,"shape":"2c 4096m gpu:a100:2","gang":8,)"
    R"("selector":"leaderworkerset.sigs.k8s.io/name=serve,leaderworkerset.sigs.k8s.io/group-index=0","tenant":"alice:staff","per_node":2})";

// The sample with one member's text replaced, or taken out.
std::string with(const std::string &member, const std::string &text) {
    std::string json = sample_json;
    const std::size_t key = json.find("\"" + member + "\":"), begin = json.find(':', key) + 1;
    std::size_t end = json.find_first_of(",}", begin);
    json.replace(begin, end - begin, text);
    return json;
}

std::string without(const std::string &member) {
    std::string json = sample_json;
    const std::size_t key = json.find(",\"" + member + "\":");
    json.erase(key, json.find_first_of(",}", key + 1) - key);
    return json;
}

std::string refusal(std::string_view json) {
    std::string why;
    ck_assert_msg(!parse_ticket(json, why), "%.*s", static_cast<int>(json.size()), json.data());
    ck_assert(!why.empty());
    return why;
}

}  // namespace

START_TEST(ticket_is_written_as_documented) { ck_assert_text(to_json(sample()), sample_json); }
END_TEST

START_TEST(ticket_comes_back_as_it_went) {
    Ticket t = sample();
    t.name = "quote\" back\\ slash/ line\nend \xc3\xa9";
    t.user = t.group = t.size = t.cpus = std::numeric_limits<std::uint32_t>::max();
    t.memory_mib = std::numeric_limits<std::int64_t>::max();
    std::string why;
    for (const Ticket &ticket : {sample(), t}) {
        const auto back = parse_ticket(to_json(ticket), why);
        ck_assert(back.has_value());
        ck_assert(*back == ticket);
    }
    ck_assert(to_json(t).find('\n') == std::string::npos);  // it must fit on a message's line
}
END_TEST

START_TEST(a_refusal_repeats_no_byte_that_a_log_should_not_hold) {
    for (const char *bytes : {"\x01", "\x1b[2J", "\n", "\xff"})
        for (const char c : refusal(std::string("{\"berth\":1,") + bytes))
            ck_assert(c >= ' ' && c < 0x7f);
}
END_TEST

START_TEST(a_gangs_ticket_is_written_as_documented) {
    ck_assert_text(to_json(gang_sample()), gang_json);
    Ticket t = sample();
    t.plain = true;
    std::string json = sample_json, why;
    json.insert(json.size() - 1, R"(,"plain":true)");
    ck_assert_text(to_json(t), json);
    ck_assert(parse_ticket(json, why) == t);
}
END_TEST

START_TEST(a_gangs_ticket_comes_back_as_it_went) {
    std::string why;
    Ticket by_group = gang_sample();
    by_group.selector.clear();
    by_group.scheduling_group = "ring";
    Ticket one_shape = gang_sample();
    one_shape.part = 0;
    one_shape.parts = 1;
    one_shape.shape.clear();
    Ticket largest = gang_sample();
    largest.part = 127;
    largest.parts = 128;
    largest.gang = largest.size = largest.per_node = std::numeric_limits<std::uint32_t>::max();
    for (const Ticket &ticket : {gang_sample(), by_group, one_shape, largest}) {
        const auto back = parse_ticket(to_json(ticket), why);
        ck_assert_msg(back.has_value(), "%s", why.c_str());
        ck_assert(*back == ticket);
    }
    Ticket bad = gang_sample();
    bad.selector = "\xff";
    ck_assert(to_json(bad).empty());
}
END_TEST

START_TEST(optional_members_must_be_right_when_they_are_there) {
    const auto add = [](const std::string &json, const std::string &member) {
        std::string out = json;
        out.insert(out.size() - 1, "," + member);
        return out;
    };
    for (const char *member : {"gres", "shape", "selector", "scheduling_group"})
        for (const char *value : {"\"\"", "null", "[]", "{}", "true", "1"})
            ck_assert_text(refusal(add(sample_json, "\"" + std::string(member) + "\":" + value)),
                           "the ticket's " + std::string(member) + " is missing or wrong");
    for (const char *member : {"part", "parts", "gang", "per_node"})
        for (const char *value : {"\"1\"", "null", "[]", "true", "-1", "1.5", "4294967296"})
            ck_assert_text(refusal(add(sample_json, "\"" + std::string(member) + "\":" + value)),
                           "the ticket's " + std::string(member) + " is missing or wrong");
    for (const char *value : {"\"1\"", "null", "[]", "true", "-1", "1.5"})
        ck_assert_text(refusal(add(sample_json, "\"term\":" + std::string(value))), "the ticket's term is missing or wrong");
    for (const char *value : {"\"\"", "null", "1"})
        ck_assert_text(refusal(add(sample_json, "\"plain\":" + std::string(value))), "the ticket's plain is missing or wrong");
    ck_assert_text(refusal(add(sample_json, R"("parts":0)")), "the ticket's parts is missing or wrong");
    ck_assert_text(refusal(add(sample_json, R"("parts":129,"shape":"x")")), "the ticket's parts is missing or wrong");
    ck_assert_text(refusal(add(sample_json, R"("part":1)")), "the ticket's part is missing or wrong");
    ck_assert_text(refusal(add(sample_json, R"("part":2,"parts":2,"shape":"x")")), "the ticket's part is missing or wrong");
    ck_assert_text(refusal(add(sample_json, R"("parts":2)")), "the ticket's shape is missing or wrong");
    ck_assert_text(refusal(add(sample_json, R"("gang":0)")), "the ticket's gang is missing or wrong");
}
END_TEST

START_TEST(a_gang_without_a_word_on_its_members_is_refused) {
    ck_assert_text(refusal(with("kind", "\"Job\"")), "the ticket's selector is missing or wrong");
}
END_TEST

START_TEST(unknown_members_are_ignored) {
    std::string json = sample_json, why;
    json.insert(json.size() - 1, R"(,"next":{"a":[1]})");
    ck_assert(parse_ticket(json, why) == sample());
}
END_TEST

START_TEST(other_versions_are_refused) {
    for (const char *version : {"2", "0", "-1", "1.0", "\"1\"", "true", "null", "4294967297"})
        ck_assert(refusal(with("berth", version)).find("version that is not spoken here") != std::string::npos);
}
END_TEST

START_TEST(missing_or_wrong_members_are_refused_by_name) {
    const auto check = [](const char *member, std::initializer_list<const char *> wrong) {
        const std::string why = "the ticket's " + std::string(member) + " is missing or wrong";
        ck_assert_text(refusal(without(member)), why);
        for (const char *value : wrong)
            ck_assert_text(refusal(with(member, value)), why);
    };
    for (const char *member : {"cluster", "ns", "kind", "name", "uid", "nonce"})
        check(member, {"\"\"", "null", "[]", "{}", "true", "1"});
    for (const char *member : {"user", "group", "size", "cpus", "memory"})
        check(member, {"\"1\"", "null", "[]", "{}", "true", "-1", "1.5", "1.0"});
    for (const char *nonce :
         {"\"0123456789abcde\"", "\"0123456789abcdef0\"", "\"0123456789ABCDEF\"", "\"0123456789abcde/\""})
        refusal(with("nonce", nonce));
    refusal(with("size", "0"));
    refusal(with("user", "4294967296"));
    refusal(with("cpus", "18446744073709551616"));
    refusal(with("memory", "9223372036854775808"));
    std::string why;
    ck_assert(parse_ticket(with("memory", "9223372036854775807"), why).has_value());
    ck_assert(parse_ticket(with("user", "0"), why).has_value());  // who may be a tenant is for the rules to say
}
END_TEST

START_TEST(doubled_members_and_trailing_text_are_refused) {
    std::string json = sample_json;
    json.insert(json.size() - 1, R"(,"user":0)");
    refusal(json);
    refusal(sample_json + "x");
    refusal(sample_json + sample_json);
    refusal(sample_json.substr(0, sample_json.size() - 1));
    refusal("");
    refusal("[]");
    refusal(R"(["berth",1])");
    std::string nul = sample_json;
    nul.insert(nul.find("team-a"), R"(\u0000)");
    refusal(nul);
}
END_TEST

START_TEST(long_tickets_are_refused_and_not_written) {
    std::string why;
    const std::string room(8 * 1024 - sample_json.size(), ' ');
    ck_assert(parse_ticket(sample_json + room, why).has_value());
    ck_assert_text(refusal(sample_json + room + " "), "the ticket is longer than 8 KiB");
    Ticket t = sample();
    t.name.assign(8 * 1024, 'x');
    ck_assert(to_json(t).empty());
}
END_TEST

START_TEST(text_that_is_not_utf_8_is_not_written) {
    Ticket t = sample();
    t.name = "\xff\xfe";
    ck_assert(to_json(t).empty());
}
END_TEST

START_TEST(blanks_do_not_hide_a_claim) {
    for (const char *claim : {"{\"berth\":", "{\"berth\":1}", "{\"berth\":2,", " {\"berth\":1",
                              "\n\t\r {\n\"berth\"\t:\r1", "{ \"berth\" : ", "{\"berth\":\"nonsense"})
        ck_assert_msg(looks_like_ticket(claim), "%s", claim);
    ck_assert(looks_like_ticket(std::string(100000, ' ') + sample_json));
    for (const char *text : {"", " ", "{", "{\"berth\"", "{\"berth\"}", "berth", "{\"birth\":1}", "{\"Berth\":1}",
                             "x{\"berth\":1}", "{'berth':1}", "{\"berthing\":1}", "a note by an admin"})
        ck_assert_msg(!looks_like_ticket(text), "%s", text);
}
END_TEST

// The guard asks the cheap question, the node and the controller the thorough one: there must be no way in between.
START_TEST(no_ticket_escapes_the_cheap_look) {
    std::string why;
    std::string later = R"({"user":1001,)" + sample_json.substr(1);
    later.replace(later.rfind("\"user\":1001,"), 12, "");
    refusal(later);
    std::string escaped = sample_json;
    escaped.replace(escaped.find("berth"), 1, R"(\u0062)");
    refusal(escaped);
    ck_assert(!looks_like_ticket(later));
    ck_assert(!looks_like_ticket(escaped));
    refusal("\xef\xbb\xbf" + sample_json);
    refusal("\v" + sample_json);
    ck_assert(parse_ticket(" \t\r\n" + sample_json, why).has_value());
}
END_TEST

START_TEST(damaged_tickets_are_refused_or_stay_what_they_say) {
    std::mt19937 random(19700101);
    const std::string alphabet = "{}[]\",:0123456789ab \\\n-.e";
    unsigned taken = 0;
    for (int round = 0; round < 30000; ++round) {
        std::string text = sample_json, why;
        for (unsigned changes = 1 + random() % 3; changes > 0 && !text.empty(); --changes) {
            const std::size_t at = random() % text.size();
            const char c = random() % 4 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
            switch (random() % 4) {
            case 0: text[at] = c; break;
            case 1: text.insert(at, 1, c); break;
            case 2: text.erase(at, 1 + random() % 8); break;
            default: text.insert(at, text.substr(random() % text.size(), random() % 24));
            }
        }
        const bool claim = looks_like_ticket(text);
        if (const auto ticket = parse_ticket(text, why)) {
            ck_assert(claim);
            ck_assert(parse_ticket(to_json(*ticket), why) == ticket);
            ++taken;
        } else {
            ck_assert(!why.empty());
        }
    }
    ck_assert_uint_gt(taken, 1000);
}
END_TEST

int main() {
    return test::run_suite(
        "ticket", {ticket_is_written_as_documented, ticket_comes_back_as_it_went, a_refusal_repeats_no_byte_that_a_log_should_not_hold, a_gangs_ticket_is_written_as_documented,
                   a_gangs_ticket_comes_back_as_it_went, optional_members_must_be_right_when_they_are_there,
                   a_gang_without_a_word_on_its_members_is_refused, unknown_members_are_ignored,
                   other_versions_are_refused, missing_or_wrong_members_are_refused_by_name,
                   doubled_members_and_trailing_text_are_refused, long_tickets_are_refused_and_not_written,
                   text_that_is_not_utf_8_is_not_written, blanks_do_not_hide_a_claim, no_ticket_escapes_the_cheap_look,
                   damaged_tickets_are_refused_or_stay_what_they_say});
}
