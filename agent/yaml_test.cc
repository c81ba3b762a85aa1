#include "agent/yaml.h"

#include <string>

#include "test/unit/suite.h"

using namespace berth;

namespace {

std::string error_of(std::string_view text, const yaml::Limits &limits = {}) {
    const auto root = yaml::parse(text, "x.yaml", limits);
    return root ? "(no error)" : root.error();
}

bool begins(const std::string &text, std::string_view with) { return text.starts_with(with); }

START_TEST(values_know_their_line_and_key) {
    const auto root = yaml::parse("a: 1\nb:\n  c: [x, 'y']\n  d:\n", "x.yaml");
    ck_assert(root.ok());
    ck_assert(root->is_map());
    ck_assert_int_eq(*root->find("a")->as_int(), 1);
    const yaml::Node *list = root->find("b")->find("c");
    ck_assert(list && list->is_list());
    ck_assert_uint_eq(list->line(), 3);
    ck_assert_text(list->children()[1].key(), "c[1]");
    ck_assert(list->children()[1].quoted());
    ck_assert(root->find("b")->find("d")->is_null());
    ck_assert_ptr_null(root->find("z"));
    ck_assert_ptr_null(list->find("z"));
    ck_assert_text(root->find("a")->error("is odd").text, "x.yaml:1: a: is odd");
}
END_TEST

START_TEST(wrong_types_are_named_with_file_line_and_key) {
    const auto root =
        yaml::parse("n: many\nflag: yes\nlist: {a: b}\nbig: 99999999999999999999\nnone:\nq: '5'\n", "x.yaml");
    ck_assert(root.ok());
    ck_assert_text(root->find("n")->as_int().error(), "x.yaml:1: n: a whole number is expected");
    ck_assert_text(root->find("flag")->as_bool().error(), "x.yaml:2: flag: true or false is expected");
    ck_assert_text(root->find("list")->as_strings().error(), "x.yaml:3: list: a list is expected");
    ck_assert_text(root->find("big")->as_int().error(), "x.yaml:4: big: the number is too large");
    ck_assert_text(root->find("none")->as_string().error(), "x.yaml:5: none: a value is expected");
    ck_assert(!root->find("q")->as_int());
    ck_assert(root->find("none")->as_strings().ok());
}
END_TEST

START_TEST(quoted_words_are_texts) {
    const auto root = yaml::parse("a: 'null'\nb: \"true\"\nc: ~\nd: ''\ne: true\n", "x.yaml");
    ck_assert(root.ok());
    ck_assert_text(*root->find("a")->as_string(), "null");
    ck_assert(!root->find("b")->as_bool());
    ck_assert(root->find("c")->is_null());
    ck_assert(root->find("d")->is_scalar());
    ck_assert(*root->find("e")->as_bool());
}
END_TEST

START_TEST(duplicate_keys_are_refused) {
    ck_assert_text(error_of("a: 1\nb: 2\na: 3\n"), "x.yaml:3: a: given twice, first in line 1");
}
END_TEST

START_TEST(aliases_are_refused_so_no_text_can_unfold) {
    ck_assert(begins(error_of("a: &x [1]\nb: *x\n"), "x.yaml:2: aliases"));
    ck_assert(begins(error_of("a: &x k\n*x : 1\n"), "x.yaml:2: "));
}
END_TEST

START_TEST(size_depth_and_count_are_bounded) {
    ck_assert(begins(error_of(std::string(100, '[') + std::string(100, ']')), "x.yaml:1: nested more than 32"));
    ck_assert(begins(error_of(std::string(1'000'000, '[')), "x.yaml:1: nested more than 32"));
    ck_assert(begins(error_of("[1, 2, 3, 4]", {.bytes = 100, .nodes = 4, .depth = 3}), "x.yaml:1: more than 4 values"));
    ck_assert(begins(error_of("a: 1", {.bytes = 3, .nodes = 4, .depth = 3}), "x.yaml: larger than 3 bytes"));
    ck_assert(begins(error_of(std::string(2000, 'k') + ": 1"), "x.yaml:1: "));
}
END_TEST

START_TEST(broken_texts_give_an_error_with_a_line) {
    for (const char *text :
         {"a: [1\nb: 2", "a: b: c", "\t- x", "a: 'open", "{a: 1", "? [x]\n: 1", "a: \xff\xfe", "%FOO\n- x", "]"}) {
        const auto root = yaml::parse(text, "x.yaml");
        ck_assert_msg(!root.ok(), "accepted: %s", text);
        ck_assert_msg(begins(root.error(), "x.yaml:"), "%s", root.error().c_str());
    }
    ck_assert(begins(error_of("a: 1\n---\nb: 2\n"), "x.yaml:2: a second document"));
}
END_TEST

START_TEST(an_empty_text_is_null) {
    for (const char *text : {"", "\n", "# only words\n", "---\n"}) {
        const auto root = yaml::parse(text, "x.yaml");
        ck_assert(root.ok() && root->is_null());
    }
}
END_TEST

START_TEST(files_that_cannot_be_read_are_named) {
    ck_assert_text(yaml::parse_file("/nonexistent/x.yaml").error(), "/nonexistent/x.yaml: No such file or directory");
    ck_assert_text(yaml::parse_file("/").error(), "/: not a regular file");
    ck_assert_text(yaml::read_file("/dev/null", 10).error(), "/dev/null: not a regular file");
}
END_TEST

}  // namespace

int main() {
    return test::run_suite(
        "yaml",
        {values_know_their_line_and_key, wrong_types_are_named_with_file_line_and_key, quoted_words_are_texts,
         duplicate_keys_are_refused, aliases_are_refused_so_no_text_can_unfold, size_depth_and_count_are_bounded,
         broken_texts_give_an_error_with_a_line, an_empty_text_is_null, files_that_cannot_be_read_are_named});
}
