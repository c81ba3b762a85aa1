// What earlier releases have written, byte for byte (golden/VERSION/), and how releases of two versions meet. A file in golden/ is never
// changed: a job may have waited with such a ticket, and a node may hold such a record, since before the update.
#include <fstream>
#include <iterator>

#include "proto/seal.h"
#include "proto/version.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

constexpr const char *pod_uid = "5b2f0c1e-0000-4000-8000-000000000011";

std::string golden(const std::string &name) {
    std::ifstream file(BERTH_SRCDIR "/proto/golden/1/" + name, std::ios::binary);
    ck_assert_msg(file.good(), "golden/1/%s is there", name.c_str());
    return {std::istreambuf_iterator<char>(file), {}};
}

Message read_message(const std::string &name) {
    std::string why;
    const auto message = decode(golden(name), why);
    ck_assert_msg(message.has_value(), "%s: %s", name.c_str(), why.c_str());
    return *message;
}

Ticket read_ticket(const std::string &text) {
    std::string why;
    const auto ticket = parse_ticket(text, why);
    ck_assert_msg(ticket.has_value(), "%s", why.c_str());
    return *ticket;
}

Ticket pod_ticket() {
    return {.cluster = "green", .ns = "team-a", .kind = "Pod", .name = "train-0", .uid = pod_uid, .nonce = "0123456789abcdef", .user = 1001,
            .group = 2002, .size = 1, .cpus = 4, .memory_mib = 2048, .plain = true};
}

Ticket gang_ticket() {
    Ticket t = pod_ticket();
    t.kind = "LeaderWorkerSet";
    t.name = "serve-0";
    t.uid = "5b2f0c1e-0000-4000-8000-000000000012/0";
    t.nonce = "fedcba9876543210";
    t.size = 7;
    t.cpus = 2;
    t.memory_mib = 4096;
    t.gres = "gpu:a100:2,shard:4";
    t.plain = false;
    t.part = 1;
    t.parts = 2;
    t.shape = "2c 4096m gpu:a100:2";
    t.gang = 8;
    t.selector = "leaderworkerset.sigs.k8s.io/name=serve";
    t.tenant = "alice:users";
    t.per_node = 4;
    t.over = true;
    return t;
}

std::string with_line(const std::string &name, const std::string &line) { return golden(name) + line + "\n"; }

std::string with_member(const std::string &name, const std::string &member) {
    std::string text = golden(name);
    text.pop_back();
    return text + "," + member + "}";
}

}  // namespace

START_TEST(messages_of_version_1_are_read_for_ever) {
    const Message allocated = read_message("allocated.message");
    ck_assert_text(allocated.verb, "allocated");
    ck_assert(allocated.number("job") == 12 && allocated.number("user") == 1001);
    ck_assert_text(std::string(allocated.get("node")), "n1");
    ck_assert_text(std::string(allocated.get("nodelist")), "n[1-2]");
    ck_assert_text(std::string(allocated.get("cpus_per_node")), "4(x2)");
    ck_assert_text(std::string(allocated.get("ticket")), golden("pod.sealed"));
    for (const char *verb : {"ended", "gone"}) {
        const Message message = read_message(std::string(verb) + ".message");
        ck_assert_text(message.verb, verb);
        ck_assert(message.number("job") == 12);
        ck_assert_text(std::string(message.get("nonce")), "0123456789abcdef");
    }
    ck_assert_text(read_message("check.message").verb, "check");
    ck_assert(read_message("stuck.message").get("reason").ends_with("cannot be killed"));
}
END_TEST

START_TEST(records_of_version_1_are_read_for_ever) {
    const Message held = read_message("held.record"), member = read_message("held-member.record");
    ck_assert(held.number("job") == 12 && held.get("slot").empty());
    ck_assert_text(std::string(held.get("uid")), pod_uid);
    ck_assert_text(std::string(held.get("ns")) + "/" + std::string(held.get("name")), "team-a/train-0");
    ck_assert(member.number("job") == 13);
    ck_assert_text(std::string(member.get("slot")), "1.0");
}
END_TEST

START_TEST(tickets_of_version_1_are_read_for_ever) {
    ck_assert(read_ticket(golden("pod.ticket")) == pod_ticket());
    ck_assert(read_ticket(golden("gang.ticket")) == gang_ticket());
    std::string key = golden("key");
    key.pop_back();
    const std::string sealed = golden("pod.sealed");
    const auto opened = open_seal(key, sealed);
    ck_assert(opened && *opened == golden("pod.ticket"));
}
END_TEST

// So that the release before reads what this one writes, as long as both write version 1.
START_TEST(what_is_written_today_is_version_1_to_the_byte) {
    for (const char *name : {"allocated.message", "ended.message", "check.message", "gone.message", "stuck.message", "held.record",
                             "held-member.record"})
        ck_assert_text(encode(read_message(name)), golden(name));
    ck_assert_text(to_json(pod_ticket()), golden("pod.ticket"));
    ck_assert_text(to_json(gang_ticket()), golden("gang.ticket"));
    std::string key = golden("key");
    key.pop_back();
    ck_assert_text(seal(key, golden("pod.ticket")), golden("pod.sealed"));
}
END_TEST

// Of a newer release, which has more to say, and of an older one, which has less.
START_TEST(what_the_next_release_adds_is_ignored) {
    std::string why;
    for (const char *name : {"allocated.message", "ended.message", "check.message", "gone.message", "held.record"}) {
        const auto message = decode(with_line(name, "added_later=7"), why);
        ck_assert_msg(message && message->verb == read_message(name).verb && message->number("job") == read_message(name).number("job"), "%s", name);
    }
    ck_assert(read_ticket(with_member("pod.ticket", R"("added_later":7)")) == pod_ticket());
    ck_assert(read_ticket(with_member("gang.ticket", R"("added_later":{"much":["more"]})")) == gang_ticket());
}
END_TEST

START_TEST(new_version_takes_two_releases_and_any_two_neighbours_agree) {
    constexpr Versions before{1, 1, 1}, learns{1, 1, 2}, speaks{2, 1, 2}, forgets{2, 2, 2};
    constexpr Versions releases[] = {before, learns, speaks, forgets};
    for (const Versions &release : releases)
        ck_assert(release.keeps_the_rule());
    for (std::size_t i = 0; i + 1 < std::size(releases); ++i)
        ck_assert(releases[i].understands(releases[i + 1]) && releases[i + 1].understands(releases[i]));
    ck_assert(!before.understands(speaks));            // two releases apart
    ck_assert(!(Versions{1, 1, 3}).keeps_the_rule());  // nobody tests what nobody wrote
    ck_assert(!(Versions{2, 1, 1}).keeps_the_rule());
}
END_TEST

START_TEST(neighbouring_releases_read_each_others_messages_and_tickets) {
    constexpr Versions learns{1, 1, 2}, speaks{2, 1, 2}, before{1, 1, 1};
    const Message message = read_message("ended.message");
    std::string why;
    for (const auto &[writer, reader] : {std::pair{learns, speaks}, {speaks, learns}, {before, learns}, {learns, before}}) {
        const auto read = decode(encode(message, writer), why, reader);
        ck_assert(read && read->fields == message.fields);
        const auto ticket = parse_ticket(to_json(gang_ticket(), writer), why, reader);
        ck_assert(ticket && *ticket == gang_ticket());
    }
    ck_assert(!decode(encode(message, speaks), why, before));
    ck_assert(why.find("more than one release apart") != std::string::npos);
    ck_assert(!parse_ticket(to_json(gang_ticket(), speaks), why, before));
    ck_assert(why.find("more than one release apart") != std::string::npos);
}
END_TEST

int main() {
    return test::run_suite("golden", {messages_of_version_1_are_read_for_ever, records_of_version_1_are_read_for_ever,
                                      tickets_of_version_1_are_read_for_ever, what_is_written_today_is_version_1_to_the_byte,
                                      what_the_next_release_adds_is_ignored, new_version_takes_two_releases_and_any_two_neighbours_agree,
                                      neighbouring_releases_read_each_others_messages_and_tickets});
}
