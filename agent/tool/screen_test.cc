// What people see on a terminal: colours, and the picture that --watch draws again.
#include <string>

#include "agent/tool/finding.h"
#include "agent/tool/paint.h"
#include "agent/tool/table.h"
#include "agent/tool/watch.h"
#include "test/unit/suite.h"

using namespace berth::tool;

namespace {

START_TEST(colours_are_for_terminals) {
    ck_assert(wants_colour(Colour::automatic, true, nullptr, "xterm"));
    ck_assert(!wants_colour(Colour::automatic, false, nullptr, "xterm"));
    ck_assert(!wants_colour(Colour::automatic, true, nullptr, "dumb"));
    ck_assert(!wants_colour(Colour::automatic, true, nullptr, nullptr));
}
END_TEST

START_TEST(no_color_counts_where_it_says_something) {
    ck_assert(!wants_colour(Colour::automatic, true, "1", "xterm"));
    ck_assert(wants_colour(Colour::automatic, true, "", "xterm"));
}
END_TEST

START_TEST(the_option_beats_everything) {
    ck_assert(wants_colour(Colour::always, false, "1", "dumb"));
    ck_assert(!wants_colour(Colour::never, true, nullptr, "xterm"));
}
END_TEST

START_TEST(a_coloured_table_has_the_columns_of_a_plain_one) {
    Table table({"NODE", "STATE", "REASON"});
    table.add({"n1", Cell("down", Tone::bad), "disk"});
    table.add({"long-name", "idle", ""});
    ck_assert_text(table.text(),
                   "NODE       STATE  REASON\n"
                   "n1         down   disk\n"
                   "long-name  idle\n");
    std::string coloured = table.text(Paint(true));
    ck_assert_part(coloured, "\x1b[1;31mdown\x1b[0m   disk");
    for (std::size_t at = 0; (at = coloured.find('\x1b')) != std::string::npos;)
        coloured.erase(at, coloured.find('m', at) - at + 1);
    ck_assert_text(coloured, table.text());
}
END_TEST

START_TEST(findings_have_the_colour_of_their_grade) {
    Findings findings;
    Section section("Slurm", findings);
    section.ok("one", "good");
    section.problem("two", "bad", "mend it");
    ck_assert_part(to_text(findings, Paint(true)), "\x1b[32mok     \x1b[0m  good");
    ck_assert_part(to_text(findings, Paint(true)), "\x1b[1;31mproblem\x1b[0m  bad");
    ck_assert(to_text(findings).find('\x1b') == std::string::npos);
}
END_TEST

// Each row erases only what is right of it, and what is below goes last: no moment shows an empty screen.
START_TEST(a_picture_replaces_the_last_one_row_by_row) {
    ck_assert_text(redraw("title", "one\ntwo\n", {24, 80}), "\x1b[Htitle\x1b[K\r\n\x1b[K\r\none\x1b[K\r\ntwo\x1b[K\r\n\x1b[J");
}
END_TEST

START_TEST(a_picture_that_is_too_high_says_so) {
    const std::string rows = redraw("t", "1\n2\n3\n4\n", {6, 80});
    ck_assert_part(rows, "1\x1b[K\r\n2\x1b[K\r\n(there is more)\x1b[K\r\n\x1b[J");
    ck_assert_part(redraw("t", "1\n2\n3\n", {6, 80}), "2\x1b[K\r\n3\x1b[K\r\n\x1b[J");
}
END_TEST

START_TEST(long_lines_are_folded_at_words) {
    ck_assert_part(redraw("t", "what to do about it\n", {24, 12}), "what to do \x1b[K\r\nabout it\x1b[K\r\n\x1b[J");
    ck_assert_part(redraw("t", "0123456789abcdef", {24, 11}), "0123456789\x1b[K\r\nabcdef\x1b[K\r\n");
    // Neither colours nor the later bytes of a letter take room.
    ck_assert_part(redraw("t", "\x1b[32m0123456789\x1b[0m\n", {24, 11}), "\x1b[32m0123456789\x1b[0m\x1b[K\r\n\x1b[J");
    ck_assert_part(redraw("t", "\u00fc123456789\n", {24, 11}), "\u00fc123456789\x1b[K\r\n\x1b[J");
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite("screen", {colours_are_for_terminals, no_color_counts_where_it_says_something, the_option_beats_everything,
                                             a_coloured_table_has_the_columns_of_a_plain_one, findings_have_the_colour_of_their_grade,
                                             a_picture_replaces_the_last_one_row_by_row, a_picture_that_is_too_high_says_so,
                                             long_lines_are_folded_at_words});
}
