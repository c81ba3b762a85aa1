// What of a Lease is believed: anybody who may write it can write anything into it.
#include "agent/kube/lease.h"

#include <fmt/core.h>

#include "test/unit/suite.h"

using namespace berth;
using namespace std::chrono_literals;

namespace {

std::string lease(std::string_view term, std::string_view spec) {
    return fmt::format(R"({{"metadata":{{"resourceVersion":"7","annotations":{{"berth.dev/term":"{}"}}}},"spec":{{{}}}}})", term, spec);
}

LeaseRecord decoded(const std::string &body) {
    const auto record = kube::decode_lease(body);
    ck_assert_msg(record.ok(), "%s: %s", body.c_str(), record ? "" : record.error().c_str());
    return *record;
}

}  // namespace

START_TEST(what_is_written_reads_back) {
    LeaseRecord record;
    record.holder = "ctl1.example";
    record.term = 1'700'000'000;
    record.transitions = 3;
    record.duration = 15s;
    record.acquired = "2026-01-31T12:00:00.000000Z";
    record.version = "7";
    const LeaseRecord back = decoded(kube::encode_lease(record, "slurm-bridge-scheduler"));
    ck_assert_text(back.holder, record.holder);
    ck_assert(back.term == record.term && back.transitions == 3 && back.duration == 15s);
    ck_assert_text(back.acquired, record.acquired);
    ck_assert_text(back.version, "7");
    ck_assert(!back.renewed.empty());
}
END_TEST

START_TEST(absurd_numbers_are_brought_within_bounds) {
    // In nanoseconds, as they are compared, each is far from an overflow.
    for (const char *seconds : {"9223372036854775807", "9223372037", "2147483648"})
        ck_assert(decoded(lease("1", fmt::format(R"("leaseDurationSeconds":{})", seconds))).duration == std::chrono::seconds(2147483647));
    for (const char *seconds : {"-1", "-9223372036854775808", "18446744073709551615", "1e300", "\"15\"", "null"})
        ck_assert(decoded(lease("1", fmt::format(R"("leaseDurationSeconds":{})", seconds))).duration == 0s);
    ck_assert(decoded(lease("1", R"("leaseTransitions":9223372036854775807)")).transitions == most_transitions);
    ck_assert(decoded(lease("1", R"("leaseTransitions":-5)")).transitions == 0);
    ck_assert(decoded(lease("9223372036854775807", "")).term == most_term);
    for (const char *term : {"9223372036854775808", "18446744073709551615", "18446744073709551616", "7a", " 7", "+7", "-7", ""})
        ck_assert_msg(decoded(lease(term, "")).term == 0, "%s", term);
}
END_TEST

START_TEST(holder_is_one_line_and_never_lost) {
    ck_assert_text(decoded(lease("1", R"("holderIdentity":"a\nMAINPID=1")")).holder, "a MAINPID=1");
    ck_assert(decoded(lease("1", fmt::format(R"("holderIdentity":"{}")", std::string(5000, 'a')))).holder.size() < 310);
    ck_assert(!decoded(lease("1", R"("holderIdentity":"\u0000")")).holder.empty());
    for (const char *released : {"\"\"", "null"})
        ck_assert(decoded(lease("1", fmt::format(R"("holderIdentity":{})", released))).holder.empty());
    // One that cannot be read is not none: it would be taken at once.
    for (const char *wrong : {"5", "{}", "[\"a\"]", "true"})
        ck_assert(!kube::decode_lease(lease("1", fmt::format(R"("holderIdentity":{})", wrong))));
    ck_assert(!kube::decode_lease(R"({"metadata":{"resourceVersion":"7"},"spec":["a"]})"));
    ck_assert(!kube::decode_lease(R"({"metadata":{},"spec":{"holderIdentity":"a"}})"));
    ck_assert(!kube::decode_lease(R"({"metadata":{"resourceVersion":"7"},"spec":{"holderIdentity":"a")"));
    ck_assert(decoded(R"({"metadata":{"resourceVersion":"7"}})").holder.empty());
}
END_TEST

int main() {
    return berth::test::run_suite("lease", {what_is_written_reads_back, absurd_numbers_are_brought_within_bounds, holder_is_one_line_and_never_lost});
}
