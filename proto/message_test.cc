#include "proto/message.h"

#include <random>

#include "test/unit/suite.h"

using namespace berth;

namespace {

std::string refusal(std::string_view text) {
    std::string why;
    ck_assert(!decode(text, why));
    ck_assert(!why.empty());
    return why;
}

Message allocated() {
    Message m{"allocated", {}};
    m.set("job", 12).set("user", 1001).set("node", "n1").set("nodelist", "n[1-3]").set("ticket", "aa.{\"berth\":1}");
    return m;
}

std::string line(std::string_view key, std::size_t length) {
    return std::string(key) + "=" + std::string(length - key.size() - 2, 'x') + "\n";
}

}  // namespace

START_TEST(message_is_plain_text_with_a_version) {
    ck_assert_text(encode(Message{"check", {}}), "berth 1 check\n");
    ck_assert_text(encode(Message{"ended", {}}.set("job", 7).set("nonce", "00ff")),
                     "berth 1 ended\njob=7\nnonce=00ff\n");
}
END_TEST

START_TEST(message_comes_back_as_it_went) {
    std::string why;
    const auto back = decode(encode(allocated()), why);
    ck_assert(back.has_value());
    ck_assert_text(back->verb, "allocated");
    ck_assert(back->fields == allocated().fields);
    ck_assert(back->number("job") == 12);
}
END_TEST

START_TEST(values_may_hold_anything_but_newline_and_nul) {
    std::string odd, why;
    for (int c = 1; c < 256; ++c)
        if (c != '\n')
            odd.push_back(static_cast<char>(c));
    const auto back = decode(encode(Message{"x", {}}.set("odd", odd).set("none", "").set("equals", "=a=b=")), why);
    ck_assert(back.has_value());
    ck_assert(back->get("odd") == odd);
    ck_assert(back->get("none").empty());
    ck_assert(back->get("equals") == "=a=b=");
}
END_TEST

START_TEST(unknown_verbs_and_keys_are_kept) {
    std::string why;
    const auto back = decode("berth 1 from_the_future\nnew_key=1\n", why);
    ck_assert(back.has_value());
    ck_assert(back->get("new_key") == "1");
}
END_TEST

START_TEST(other_versions_are_refused) {
    for (const char *text :
         {"berth 2 check\n", "berth 10 check\n", "berth check\n", "Berth 1 check\n", " berth 1 check\n",
          "berth 1\tcheck\n", "GET / HTTP/1.1\r\n\r\n", "", "\n", "berth 1", "berth 1 "})
        ck_assert_msg(!refusal(text).empty(), "%s", text);
}
END_TEST

START_TEST(broken_messages_are_refused) {
    using namespace std::string_view_literals;
    for (const std::string_view text :
         {"berth 1 \n"sv, "berth 1 Check\n"sv, "berth 1 check now\n"sv, "berth 1 check\r\n"sv, "berth 1 check\n\n"sv,
          "berth 1 check\njob\n"sv, "berth 1 check\n=1\n"sv, "berth 1 check\nJob=1\n"sv, "berth 1 check\njob =1\n"sv,
          "berth 1 check\n job=1\n"sv, "berth 1 check\nj0b=1\n"sv, "berth 1 check\njob=1\0\n"sv,
          "berth 1 check\n\0=1\n"sv, "berth 1 ch\0eck\n"sv, "berth 1 check\0\n"sv})
        refusal(text);
}
END_TEST

START_TEST(every_cut_off_message_is_refused) {
    const std::string whole = encode(allocated());
    std::string why;
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const auto part = decode(std::string_view(whole).substr(0, length), why);
        // A cut at a line's end cannot be told from a shorter message: a packet or file comes whole or not at all.
        ck_assert(part.has_value() == (length > 0 && whole[length - 1] == '\n'));
    }
}
END_TEST

START_TEST(key_that_stands_twice_is_refused) {
    ck_assert_text(refusal("berth 1 ended\njob=1\njob=1\n"), "a key stands twice");
    ck_assert(encode(Message{"ended", {}}.set("job", 1).set("job", 2)).empty());
}
END_TEST

START_TEST(message_over_32_kib_is_refused) {
    const std::string head = "berth 1 big\n";
    const std::string fits = head + line("a", max_message - head.size());
    std::string why;
    ck_assert_uint_eq(fits.size(), max_message);
    const auto big = decode(fits, why);
    ck_assert(big.has_value());
    ck_assert(encode(*big) == fits);
    refusal(head + line("a", max_message - head.size() + 1));
    Message bigger = *big;
    bigger.fields[0].second += 'x';
    ck_assert(encode(bigger).empty());
}
END_TEST

START_TEST(what_cannot_be_read_is_not_written) {
    using namespace std::string_literals;
    for (const std::string &verb : {""s, "Check"s, "a b"s, "a\nb"s, std::string(65, 'a')})
        ck_assert(encode(Message{verb, {}}).empty());
    for (const std::string &key : {""s, "Key"s, "a=b"s, "a\n"s, std::string(65, 'a')})
        ck_assert(encode(Message{"x", {}}.set(key, "1")).empty());
    for (const std::string &value : {"a\nb"s, "\n"s, "a\0b"s})
        ck_assert(encode(Message{"x", {}}.set("key", value)).empty());
    ck_assert(!encode(Message{std::string(64, 'a'), {}}.set(std::string(64, 'b'), "1")).empty());
}
END_TEST

START_TEST(numbers_are_whole_and_plain) {
    Message m{"x", {}};
    m.set("good", "0").set("high", "18446744073709551615").set("over", "18446744073709551616").set("sign", "-1");
    m.set("plus", "+1").set("blank", " 1").set("tail", "1 ").set("hex", "0x10").set("none", "").set("real", "1.0");
    ck_assert(m.number("good") == 0);
    ck_assert(m.number("high") == 18446744073709551615UL);
    for (const char *key : {"over", "sign", "plus", "blank", "tail", "hex", "none", "real", "absent"})
        ck_assert_msg(!m.number(key).has_value(), "%s", key);
}
END_TEST

// Thousands of damaged messages: none crashes the decoder, and what it takes, encode() writes back byte for byte.
START_TEST(damaged_messages_are_refused_or_written_back_alike) {
    std::mt19937 random(20240611);
    const std::string alphabet("\n\n==\0\r abcdjob_1berth \xff", 24);
    unsigned taken = 0;
    for (int round = 0; round < 50000; ++round) {
        std::string text = encode(allocated()), why;
        for (unsigned changes = 1 + random() % 4; changes > 0 && !text.empty(); --changes) {
            const std::size_t at = random() % text.size();
            const char c = random() % 4 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
            switch (random() % 5) {
            case 0: text[at] = c; break;
            case 1: text.insert(at, 1, c); break;
            case 2: text.erase(at, 1 + random() % 8); break;
            case 3: text.insert(at, text.substr(random() % text.size(), random() % 32)); break;
            default: text.resize(at);
            }
        }
        if (const auto message = decode(text, why)) {
            ck_assert(encode(*message) == text);
            ++taken;
        } else {
            ck_assert(!why.empty());
        }
    }
    ck_assert_uint_gt(taken, 1000);  // else the test damages too much to test anything
}
END_TEST

int main() {
    return test::run_suite(
        "message",
        {message_is_plain_text_with_a_version, message_comes_back_as_it_went,
         values_may_hold_anything_but_newline_and_nul, unknown_verbs_and_keys_are_kept, other_versions_are_refused,
         broken_messages_are_refused, every_cut_off_message_is_refused, key_that_stands_twice_is_refused,
         message_over_32_kib_is_refused, what_cannot_be_read_is_not_written, numbers_are_whole_and_plain,
         damaged_messages_are_refused_or_written_back_alike});
}
