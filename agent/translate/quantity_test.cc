#include "agent/translate/quantity.h"

#include <limits>
#include <string>

#include "test/unit/suite.h"

using namespace berth;

namespace {

constexpr std::int64_t kRefused = -1;
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

struct Row {
    std::string text;
    std::int64_t expected;
};

template <class Parse, std::size_t N>
void check_rows(const Row (&rows)[N], Parse parse) {
    for (const Row &row : rows) {
        const auto got = parse(row.text);
        const std::int64_t value = got ? static_cast<std::int64_t>(*got) : kRefused;
        ck_assert_msg(value == row.expected, "\"%s\": %lld, expected %lld", row.text.c_str(),
                      static_cast<long long>(value), static_cast<long long>(row.expected));
        if (!got)
            ck_assert_msg(got.error().find('"') == 0, "error does not start with the value: %s", got.error().c_str());
    }
}

START_TEST(milli_is_exact_and_rounds_up) {
    const Row rows[] = {
        {"0", 0},          {"2", 2000},       {"200m", 200},   {"0.1", 100},    {"1.5", 1500},      {".5", 500},
        {"5.", 5000},      {"+1", 1000},      {"1u", 1},       {"1n", 1},       {"1000001n", 2},    {"1000000n", 1},
        {"0.0001", 1},     {"1e-400", 1},     {"0e400", 0},    {"2e3", 2000000}, {"2E3", 2000000},  {"1e-3", 1},
        {"1k", 1000000},   {"1Ki", 1024000},  {"0.5Ki", 512000}, {"000", 0},    {"007", 7000},      {"1e+2", 100000},
        {"0.0000000000000000000000000000000001", 1},
        {"9223372036854775807m", kMax},       {"9223372036854775808m", kRefused},
    };
    check_rows(rows, parse_milli);
}
END_TEST

START_TEST(units_are_exact_and_round_up) {
    const Row rows[] = {
        {"1Gi", 1073741824},
        {"100m", 1},
        {"1000m", 1},
        {"1001m", 2},
        {"100Mi", 104857600},
        {"128974848", 128974848},
        {"129e6", 129000000},
        {"129M", 129000000},
        {"128974848000m", 128974848},
        {"0.1Ki", 103},
        {"1.5Gi", 1610612736},
        {"0.0009765625Ki", 1},
        {"0.0009765626Ki", 2},
        {"1E", 1000000000000000000},
        {"1E1", 10},
        {"7Ei", 8070450532247928832},
        {"8Ei", kRefused},
        {"10E", kRefused},
        {"9223372036854775807", kMax},
        {"9223372036854775808", kRefused},
        {"9223372036854775806.5", kMax},
        {"9223372036854775807.5", kRefused},
        {"1e400", kRefused},
        {"1e99999999999", kRefused},
        {"7.9999999999999999999Ei", kRefused},
    };
    check_rows(rows, parse_units);
}
END_TEST

START_TEST(what_is_no_quantity_is_refused) {
    const Row rows[] = {
        {"", kRefused},
        {"foo", kRefused},
        {"-1", kRefused},
        {"-0", kRefused},
        {"1 ", kRefused},
        {" 1", kRefused},
        {"1gi", kRefused},
        {"1KI", kRefused},
        {"1K", kRefused},
        {"1e", kRefused},
        {"1e+", kRefused},
        {"1e1.5", kRefused},
        {".", kRefused},
        {"+", kRefused},
        {"1..2", kRefused},
        {"1,5", kRefused},
        {"0x10", kRefused},
        {"1mm", kRefused},
        {"1e3Ki", kRefused},
        {"inf", kRefused},
        {"nan", kRefused},
        {"1\n", kRefused},
        {std::string(65, '1'), kRefused},
        {std::string("1\0", 2), kRefused},
    };
    check_rows(rows, parse_milli);
    check_rows(rows, parse_units);
}
END_TEST

START_TEST(errors_are_bounded_and_printable) {
    const auto got = parse_units(std::string(5000, '\n'));
    ck_assert(!got);
    ck_assert_int_lt(got.error().size(), 200);
    ck_assert(got.error().find('\n') == std::string::npos);
}
END_TEST

START_TEST(mib_rounds_up) {
    ck_assert_int_eq(mib_rounded_up(0), 0);
    ck_assert_int_eq(mib_rounded_up(1), 1);
    ck_assert_int_eq(mib_rounded_up(1048576), 1);
    ck_assert_int_eq(mib_rounded_up(1048577), 2);
    ck_assert_int_eq(mib_rounded_up(kMax), kMax / 1048576 + 1);
}
END_TEST

START_TEST(time_limits_come_in_all_of_slurms_notations) {
    const Row rows[] = {
        {"30", 30},
        {"0", 0},
        {"90s", 2},
        {"60s", 1},
        {"5m", 5},
        {"2h", 120},
        {"1d", 1440},
        {"1w", 10080},
        {"10:30", 11},
        {"10:00", 10},
        {"1:30:00", 90},
        {"00:00:01", 1},
        {"1-0", 1440},
        {"1-12", 2160},
        {"1-12:30", 2190},
        {"1-00:00:01", 1441},
        {"35791394", 35791394},
        {"35791395", kRefused},
        {"999999999w", kRefused},
        {"", kRefused},
        {"foo", kRefused},
        {"-5", kRefused},
        {"1-", kRefused},
        {"1:2:3:4", kRefused},
        {":30", kRefused},
        {"30:", kRefused},
        {"1.5h", kRefused},
        {"m", kRefused},
        {"1h30m", kRefused},
        {"UNLIMITED", kRefused},
        {"9999999999", kRefused},
        {"1-2-3", kRefused},
        {" 5", kRefused},
    };
    check_rows(rows, parse_time_limit);
}
END_TEST

START_TEST(durations_need_a_unit) {
    const Row rows[] = {
        {"500ms", 500},   {"30s", 30000},    {"5m", 300000},   {"2h", 7200000}, {"1d", 86400000}, {"0s", 0},
        {"30", kRefused}, {"", kRefused},    {"s", kRefused},  {"-1s", kRefused}, {"1.5s", kRefused}, {"1w", kRefused},
        {"1s ", kRefused}, {"9999999999s", kRefused},
    };
    check_rows(rows, parse_duration_ms);
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite(
        "quantity", {milli_is_exact_and_rounds_up, units_are_exact_and_round_up, what_is_no_quantity_is_refused,
                     errors_are_bounded_and_printable, mib_rounds_up, time_limits_come_in_all_of_slurms_notations,
                     durations_need_a_unit});
}
