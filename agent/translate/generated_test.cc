// Properties of quantities and hostlists, tried on generated input. RC_PARAMS="seed=N" repeats a run.
#include <fmt/core.h>
#include <rapidcheck.h>

#include <algorithm>
#include <set>

#include "agent/translate/gres.h"
#include "agent/translate/hostlist.h"
#include "agent/translate/moment.h"
#include "agent/translate/quantity.h"
#include "test/unit/suite.h"

using namespace berth;

namespace {

using Wide = unsigned __int128;

constexpr Wide kLargest = INT64_MAX;

// A quantity and its exact value.
struct Quantity {
    std::string text;
    Wide numerator = 0, denominator = 1;
};

Wide power(Wide base, int exponent) {
    Wide out = 1;
    for (int i = 0; i < exponent; i++)
        out *= base;
    return out;
}

// Up to 12 digits with a point somewhere, and any suffix whose exact value still fits into 128 bits.
rc::Gen<Quantity> any_quantity() {
    struct Suffix {
        const char *text;
        Wide factor, divisor;
    };
    static const std::vector<Suffix> suffixes = {
        {"", 1, 1},           {"n", 1, power(10, 9)}, {"u", 1, power(10, 6)}, {"m", 1, 1000},       {"k", 1000, 1},
        {"M", power(10, 6), 1}, {"G", power(10, 9), 1}, {"T", power(10, 12), 1}, {"P", power(10, 15), 1}, {"E", power(10, 18), 1},
        {"Ki", power(2, 10), 1}, {"Mi", power(2, 20), 1}, {"Gi", power(2, 30), 1}, {"Ti", power(2, 40), 1}, {"Pi", power(2, 50), 1},
        {"Ei", power(2, 60), 1}, {"e3", 1000, 1},       {"E-2", 1, 100},        {"e+1", 10, 1},
    };
    return rc::gen::exec([] {
        const auto digits = *rc::gen::inRange<std::uint64_t>(0, 1000000000000);
        const int behind = *rc::gen::inRange(0, 10);
        const Suffix suffix = *rc::gen::elementOf(suffixes);
        const auto whole = digits / static_cast<std::uint64_t>(power(10, behind));
        const auto fraction = digits % static_cast<std::uint64_t>(power(10, behind));
        Quantity out;
        out.text = behind == 0 ? fmt::format("{}{}", whole, suffix.text) : fmt::format("{}.{:0{}}{}", whole, fraction, behind, suffix.text);
        out.numerator = Wide(digits) * suffix.factor;
        out.denominator = power(10, behind) * suffix.divisor;
        return out;
    });
}

// The exact value times `scale`, rounded up.
Wide exactly(const Quantity &q, unsigned scale) { return (q.numerator * scale + q.denominator - 1) / q.denominator; }

// a <= b, exactly. The remainders are below 10^18, so their products fit.
bool at_most(const Quantity &a, const Quantity &b) {
    const Wide whole_a = a.numerator / a.denominator, whole_b = b.numerator / b.denominator;
    if (whole_a != whole_b)
        return whole_a < whole_b;
    return a.numerator % a.denominator * b.denominator <= b.numerator % b.denominator * a.denominator;
}

std::int64_t checked(const Result<std::int64_t> &got, Wide expected, const std::string &text) {
    if (expected > kLargest) {
        if (got)
            RC_FAIL(text + " is too large and accepted");
        return INT64_MAX;
    }
    if (!got)
        RC_FAIL(text + " is refused: " + got.error());
    RC_ASSERT((Wide(*got) == expected));
    return *got;
}

START_TEST(quantities_are_their_exact_value_rounded_up) {
    const bool good = rc::check([] {
        const Quantity q = *any_quantity();
        checked(parse_units(q.text), exactly(q, 1), q.text);
        checked(parse_milli(q.text), exactly(q, 1000), q.text);
    });
    ck_assert(good);
}
END_TEST

START_TEST(a_larger_quantity_is_never_read_as_less) {
    const bool good = rc::check([] {
        const Quantity a = *any_quantity(), b = *any_quantity();
        const std::int64_t ga = checked(parse_units(a.text), exactly(a, 1), a.text);
        const std::int64_t gb = checked(parse_units(b.text), exactly(b, 1), b.text);
        RC_ASSERT((at_most(a, b) ? ga <= gb : ga >= gb));
        RC_ASSERT(mib_rounded_up(std::min(ga, gb)) <= mib_rounded_up(std::max(ga, gb)));
        RC_ASSERT((Wide(mib_rounded_up(ga)) * 1048576 >= Wide(ga)));
        RC_ASSERT((Wide(mib_rounded_up(ga)) * 1048576 < Wide(ga) + 1048576));
    });
    ck_assert(good);
}
END_TEST

START_TEST(any_text_is_a_quantity_or_a_bounded_error) {
    const bool good = rc::check([](const std::string &text) {
        for (const auto &got : {parse_units(text), parse_milli(text)}) {
            if (got)
                RC_ASSERT(*got >= 0);
            else
                RC_ASSERT(got.error().size() < 250);
        }
        if (const auto limit = parse_time_limit(text); !limit)
            RC_ASSERT(limit.error().size() < 250);
        if (const auto moment = parse_moment(text); !moment)
            RC_ASSERT(moment.error().size() < 300);
        if (const auto gres = parse_gres(text); !gres)
            RC_ASSERT(gres.error().size() < 300);
        if (const auto names = expand_hostlist(text); !names)
            RC_ASSERT(names.error().size() < 250);
    });
    ck_assert(good);
}
END_TEST

// Names as sites have them: few words, many numbers, with and without leading zeros.
rc::Gen<std::string> any_host() {
    return rc::gen::exec([] {
        std::string name = *rc::gen::element<std::string>("n", "gpu-", "rack1-n", "login", "a.b", "", "x_", "n0", "c12345678901");
        const int width = *rc::gen::inRange(0, 5);
        if (*rc::gen::inRange(0, 8) > 0 || name.empty())
            name += fmt::format("{:0{}}", *rc::gen::inRange(0, 120), width);
        if (*rc::gen::inRange(0, 6) == 0)
            name += *rc::gen::element<std::string>("-eth", "b");
        return name;
    });
}

START_TEST(compressed_hostlists_expand_to_the_same_names) {
    const bool good = rc::check([] {
        const auto names = *rc::gen::container<std::vector<std::string>>(any_host());
        const std::set<std::string> expected(names.begin(), names.end());
        const std::string text = compress_hostlist(names);
        RC_LOG() << text;
        if (expected.empty()) {
            RC_ASSERT(text.empty());
            return;
        }
        const auto got = expand_hostlist(text);
        RC_ASSERT(got.ok());
        RC_ASSERT(got->size() == expected.size());
        RC_ASSERT(std::set<std::string>(got->begin(), got->end()) == expected);
        RC_ASSERT(compress_hostlist(*got) == text);
    });
    ck_assert(good);
}
END_TEST

START_TEST(a_run_of_nodes_is_one_range) {
    const bool good = rc::check([] {
        const int low = *rc::gen::inRange(0, 2000), count = *rc::gen::inRange(2, 300), width = *rc::gen::inRange(1, 6);
        std::vector<std::string> names;
        for (int i = low; i < low + count; i++)
            names.push_back(fmt::format("n{:0{}}", i, width));
        const std::string text = compress_hostlist(names);
        RC_ASSERT(expand_hostlist(text).ok());
        auto back = *expand_hostlist(text);
        std::sort(back.begin(), back.end());
        std::sort(names.begin(), names.end());
        RC_ASSERT(back == names);
        // A width that the numbers outgrow costs one more range.
        RC_ASSERT(std::count(text.begin(), text.end(), '-') + std::count(text.begin(), text.end(), ',') <= 3);
    });
    ck_assert(good);
}
END_TEST

START_TEST(lists_of_generic_resources_read_back_as_they_were) {
    const bool good = rc::check([] {
        GresList list;
        for (int i = *rc::gen::inRange(1, 10); i > 0; i--)
            add_gres(list, *rc::gen::element<std::string>("gpu", "gpu:a100", "gpu:1g.5gb", "shard", "fpga", "nic:x"),
                     *rc::gen::inRange<std::uint64_t>(1, 1ULL << 40));
        std::string text;
        for (const auto &[name, count] : list)
            text += fmt::format("{}{}:{}", text.empty() ? "" : ",", name, count);
        const auto got = parse_gres(text);
        RC_ASSERT(got.ok());
        RC_ASSERT(*got == list);
    });
    ck_assert(good);
}
END_TEST

}  // namespace

int main() {
    return berth::test::run_suite("generated", {quantities_are_their_exact_value_rounded_up, a_larger_quantity_is_never_read_as_less,
                                                any_text_is_a_quantity_or_a_bounded_error, compressed_hostlists_expand_to_the_same_names,
                                                a_run_of_nodes_is_one_range, lists_of_generic_resources_read_back_as_they_were});
}
