#include "agent/kube/frames.h"

#include "test/unit/suite.h"

using namespace berth::kube;

namespace {

std::string next(Frames &frames) {
    const auto line = frames.next();
    return line ? std::string(*line) : "(none)";
}

START_TEST(lines_come_out_whole_however_they_are_cut) {
    const std::string text = "first\nsecond one\n\nthird\r\nrest";
    for (std::size_t step = 1; step <= text.size(); ++step) {
        Frames frames(100);
        std::string got;
        for (std::size_t at = 0; at < text.size(); at += step) {
            frames.append(std::string_view(text).substr(at, step));
            while (const auto line = frames.next())
                got += std::string(*line) + "|";
        }
        ck_assert_text(got, "first|second one|third|");
    }
}
END_TEST

START_TEST(a_line_without_its_end_is_kept_back) {
    Frames frames(100);
    frames.append("half");
    ck_assert_text(next(frames), "(none)");
    frames.append(" a line\nmore");
    ck_assert_text(next(frames), "half a line");
    ck_assert_text(next(frames), "(none)");
    frames.clear();
    frames.append("new\n");
    ck_assert_text(next(frames), "new");
}
END_TEST

START_TEST(a_line_beyond_the_bound_stops_the_stream) {
    Frames frames(10);
    frames.append("0123456789\n");
    ck_assert_text(next(frames), "0123456789");
    frames.append("0123456789a");
    ck_assert(!frames.next());
    ck_assert(frames.overlong());
    frames.append("\nfine\n");
    ck_assert(!frames.next());
    frames.clear();
    ck_assert(!frames.overlong());
    frames.append("0123456789a\nfine\n");
    ck_assert(!frames.next());
    ck_assert(frames.overlong());
}
END_TEST

START_TEST(bytes_behind_a_line_may_be_read) {
    Frames frames(1000);
    frames.append("x\n");
    const auto line = frames.next();
    ck_assert(line);
    volatile char sum = 0;  // a sanitizer would object here
    for (std::size_t i = 0; i < Frames::padding; ++i)
        sum = static_cast<char>(sum + line->data()[line->size() + i]);
}
END_TEST

// Quadratic scanning would take minutes for this.
START_TEST(a_long_line_in_tiny_chunks_is_scanned_once) {
    Frames frames(8 << 20);
    const std::string chunk(16, 'x');
    for (int i = 0; i < 250'000; ++i) {
        frames.append(chunk);
        ck_assert(!frames.next());
    }
    frames.append("\n");
    const auto line = frames.next();
    ck_assert(line && line->size() == 4'000'000);
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite("frames",
                                  {lines_come_out_whole_however_they_are_cut, a_line_without_its_end_is_kept_back,
                                   a_line_beyond_the_bound_stops_the_stream, bytes_behind_a_line_may_be_read,
                                   a_long_line_in_tiny_chunks_is_scanned_once});
}
