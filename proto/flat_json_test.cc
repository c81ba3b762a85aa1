#include "proto/flat_json.h"

#include "test/unit/suite.h"

using namespace berth;

namespace {

std::optional<FlatJson> parsed(std::string_view json) {
    std::size_t at = 0;
    auto out = FlatJson::parse(json, at);
    ck_assert(out || at <= json.size());
    return out;
}

// What a text of JSON means, between its quotes.
std::string text_of(const std::string &json) {
    const auto object = parsed("{\"a\":\"" + json + "\"}");
    return object ? std::string(object->text("a").value_or("not a text")) : "refused";
}

}  // namespace

START_TEST(members_come_back_by_their_kind) {
    const auto object = parsed(" { \"a\" : \"x\" ,\t\"b\":12,\r\n\"c\":true,\"d\":false,\"e\":null,\"\":\"empty\"} ");
    ck_assert(object.has_value());
    ck_assert(object->text("a") == "x" && object->number("b") == 12 && object->truth("c") == true && object->truth("d") == false);
    ck_assert(object->has("e") && !object->text("e") && !object->number("e") && !object->truth("e"));
    ck_assert(object->text("") == "empty" && !object->has("f"));
    ck_assert(!object->text("b") && !object->number("a") && !object->number("c") && !object->truth("b"));
    ck_assert(parsed("{}").has_value() && parsed("{ }").has_value());
}
END_TEST

START_TEST(only_whole_numbers_that_fit_are_numbers) {
    const auto number = [](const std::string &json) {
        const auto object = parsed("{\"a\":" + json + "}");
        ck_assert_msg(object.has_value(), "%s", json.c_str());
        return object->number("a");
    };
    ck_assert(number("0") == 0u && number("9223372036854775807") == 9223372036854775807u);
    for (const char *other : {"-0", "-1", "1.0", "0.5", "1e3", "1E+3", "1e-3", "-1.5e2", "9223372036854775808", "99999999999999999999999"})
        ck_assert_msg(!number(other), "%s", other);
    for (const char *bad : {"", "-", "01", "00", "1.", ".5", "1e", "1e+", "+1", "0x1", "1a", "NaN", "Infinity", "-a"})
        ck_assert_msg(!parsed("{\"a\":" + std::string(bad) + "}"), "%s", bad);
}
END_TEST

START_TEST(escapes_mean_what_they_mean) {
    ck_assert_text(text_of(R"(\"\\\/\b\f\n\r\t)"), "\"\\/\b\f\n\r\t");
    ck_assert_text(text_of(R"(\u0041\u00e9\u20AC\ud83d\ude00)"), "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    for (const char *bad : {R"(\u0000)", R"(\ud83d)", R"(\ud83dx)", R"(\ud83d\u0041)", R"(\ude00)", R"(\u12)", R"(\u12g4)", R"(\x41)", R"(\a)", "\\", "\n", "\x01", "\x1f"})
        ck_assert_text(text_of(bad), "refused");
    ck_assert_text(text_of("\x7f"), "\x7f");
}
END_TEST

START_TEST(texts_are_utf_8_or_refused) {
    for (const char *good : {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
        ck_assert_text(text_of(good), good);
        ck_assert_text(FlatJsonWriter().text("a", good).finish(), std::string("{\"a\":\"") + good + "\"}");
    }
    for (const char *bad : {"\x80", "\xbf", "\xc0\xaf", "\xc1\xbf", "\xc2", "\xc2x", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80", "\xef\xbf", "\xf0\x8f\xbf\xbf",
                            "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x90\x80", "\xff", "\xfe"}) {
        ck_assert_text(text_of(bad), "refused");
        ck_assert_text(FlatJsonWriter().text("a", bad).finish(), "");
    }
}
END_TEST

START_TEST(what_is_no_single_object_is_refused) {
    for (const char *bad : {"", " ", "{", "}", "[]", "[{}]", "1", "\"a\"", "null", "{}x", "{}{}", "{,}", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{\"a\":1 \"b\":2}", "{a:1}",
                            "{'a':1}", "{\"a\":1]", "{\"a\":[1,]}", "{\"a\":[1}", "{\"a\":{\"b\"}}", "{\"a\":tru}", "{\"a\":nul}", "{\"a\":True}", "{\"a\":\"x}", "{\"a\":1//\n}",
                            "\xef\xbb\xbf{}", "{\"a\":\v1}"})
        ck_assert_msg(!parsed(bad), "%s", bad);
    ck_assert(!parsed(std::string_view("{}\0", 3)) && !parsed(std::string_view("{\0}", 3)) && !parsed(std::string_view("{\"a\":\"\0\"}", 9)));
}
END_TEST

START_TEST(a_key_stands_once_at_each_place) {
    ck_assert(!parsed(R"({"a":1,"b":2,"a":1})"));
    ck_assert(!parsed(R"({"a":1,"\u0061":1})"));
    ck_assert(!parsed(R"({"x":{"a":1,"a":2}})"));
    ck_assert(!parsed(R"({"x":[{"a":1,"a":2}]})"));
    const auto object = parsed(R"({"a":1,"x":{"a":2},"y":[{"a":3},{"a":4}]})");
    ck_assert(object.has_value() && object->number("a") == 1u && object->has("x") && !object->has("b"));
}
END_TEST

START_TEST(depth_is_bounded) {
    const auto nested = [](const std::string &open, const std::string &close, int depth) {
        std::string json = "{\"a\":";
        for (int i = 0; i < depth; ++i)
            json += open;
        json += "1";
        for (int i = 0; i < depth; ++i)
            json += close;
        return json + "}";
    };
    for (const auto &[open, close] : {std::pair<std::string, std::string>{"[", "]"}, {"{\"a\":", "}"}}) {
        ck_assert(parsed(nested(open, close, 7)).has_value());
        ck_assert(!parsed(nested(open, close, 8)));
        ck_assert(!parsed(nested(open, close, 1000)));
    }
}
END_TEST

START_TEST(what_is_written_reads_back) {
    std::string all;
    for (int c = 1; c < 0x80; ++c)
        all.push_back(static_cast<char>(c));
    const std::string json = FlatJsonWriter().text("a", all).number("b", 0).number("c", 9223372036854775807u).truth("d", true).truth("e", false).text("f", "").finish();
    const auto object = parsed(json);
    ck_assert(object.has_value() && object->text("a") == all && object->number("b") == 0u && object->number("c") == 9223372036854775807u);
    ck_assert(object->truth("d") == true && object->truth("e") == false && object->text("f") == "");
    ck_assert_text(FlatJsonWriter().text("a", "\x01\x1f\n\"\\/").number("n", 7).finish(), R"({"a":"\u0001\u001f\n\"\\/","n":7})");
    ck_assert_text(FlatJsonWriter().finish(), "{}");
    ck_assert_text(FlatJsonWriter().number("a", 9223372036854775808u).finish(), "");
    ck_assert_text(FlatJsonWriter().text("a", std::string(1, '\0')).finish(), "");
}
END_TEST

int main() {
    return test::run_suite("flat_json", {members_come_back_by_their_kind, only_whole_numbers_that_fit_are_numbers, escapes_mean_what_they_mean, texts_are_utf_8_or_refused,
                                         what_is_no_single_object_is_refused, a_key_stands_once_at_each_place, depth_is_bounded, what_is_written_reads_back});
}
