#include "agent/translate/hostlist.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

#include "agent/translate/text.h"

namespace berth {
namespace {

constexpr std::size_t kMostNames = 65536;
constexpr std::size_t kLongestNumber = 9;  // digits; whatever stands before them belongs to the name
constexpr std::size_t kLongestList = 64 * 1024;

std::string padded(std::uint64_t number, std::size_t width) { return fmt::format("{:0{}}", number, width); }

// What stands inside one pair of brackets; false when malformed or too many.
bool expand_ranges(std::string_view text, std::vector<std::string> &out) {
    for (const std::string_view range : split(text, ',')) {
        const std::size_t dash = range.find('-');
        const std::string_view low_text = range.substr(0, dash);
        const std::string_view high_text = dash == std::string_view::npos ? low_text : range.substr(dash + 1);
        std::uint64_t low = 0, high = 0;
        if (low_text.size() > kLongestNumber || high_text.size() > kLongestNumber || !parse_number(low_text, low) ||
            !parse_number(high_text, high) || high < low || high - low >= kMostNames - out.size())
            return false;
        for (std::uint64_t number = low; number <= high; number++)
            out.push_back(padded(number, low_text.size()));
    }
    return true;
}

// One name of the list with all its brackets; false when malformed or too many.
bool expand_name(std::string_view text, std::vector<std::string> &out) {
    std::vector<std::string> begun = {""};
    while (!text.empty()) {
        const std::size_t open = text.find('[');
        const std::string_view literal = text.substr(0, open);
        if (!literal.empty() && !is_safe_name(literal))
            return false;
        for (std::string &name : begun)
            name += literal;
        if (open == std::string_view::npos)
            break;
        const std::size_t close = text.find(']', open);
        std::vector<std::string> numbers;
        if (close == std::string_view::npos || !expand_ranges(text.substr(open + 1, close - open - 1), numbers) ||
            begun.size() * numbers.size() > kMostNames)
            return false;
        std::vector<std::string> longer;
        longer.reserve(begun.size() * numbers.size());
        for (const std::string &name : begun)
            for (const std::string &number : numbers)
                longer.push_back(name + number);
        begun = std::move(longer);
        text.remove_prefix(close + 1);
    }
    if (begun.front().empty() || out.size() + begun.size() > kMostNames)
        return false;
    std::move(begun.begin(), begun.end(), std::back_inserter(out));
    return true;
}

// The numbers of names that differ in nothing else: by width when written with leading zeros, width 0 for the others.
using Numbers = std::map<std::size_t, std::set<std::uint64_t>>;

void add_ranges(const std::set<std::uint64_t> &numbers, std::size_t width, std::string &out) {
    for (auto it = numbers.begin(); it != numbers.end();) {
        const std::uint64_t low = *it;
        std::uint64_t high = low;
        while (++it != numbers.end() && *it == high + 1)
            high++;
        out += (out.empty() ? "" : ",") + padded(low, width);
        if (high > low)
            out += "-" + padded(high, width);
    }
}

}  // namespace

Result<std::vector<std::string>> expand_hostlist(std::string_view text) {
    const auto refused = [&] {
        return Error{fmt::format("\"{}\" is not a list of nodes; accepted are up to {} names separated by commas, such as "
                                 "n7 or n[1-3,7],gpu-02",
                                 shown(text), kMostNames)};
    };
    if (text.size() > kLongestList)
        return refused();
    std::vector<std::string> names;
    for (std::string_view rest = text;;) {
        std::size_t end = 0;
        for (bool inside = false; end < rest.size() && (inside || rest[end] != ','); end++)
            inside = rest[end] == '[' || (inside && rest[end] != ']');
        if (!expand_name(rest.substr(0, end), names))
            return refused();
        if (end == rest.size())
            break;
        rest.remove_prefix(end + 1);
    }
    std::set<std::string_view> seen;
    std::vector<std::string> once;
    for (const std::string &name : names)
        if (seen.insert(name).second)
            once.push_back(name);
    return once;
}

std::string compress_hostlist(const std::vector<std::string> &names) {
    struct Family {
        bool bare = false;  // the name without any number is there as well
        Numbers numbers;
        std::set<std::string> unpadded;
    };
    std::map<std::string, Family> families;
    for (const std::string &name : names) {
        const std::size_t last = name.find_last_not_of("0123456789");
        std::size_t begin = last == std::string::npos ? 0 : last + 1;
        if (name.size() - begin > kLongestNumber)
            begin = name.size() - kLongestNumber;
        Family &family = families[name.substr(0, begin)];
        const std::string digits = name.substr(begin);
        std::uint64_t number = 0;
        if (!parse_number(digits, number))
            family.bare = true;
        else if (digits.size() > 1 && digits[0] == '0')
            family.numbers[digits.size()].insert(number);
        else
            family.unpadded.insert(digits);
    }
    std::string out;
    for (auto &[prefix, family] : families) {
        // "10" belongs to "08" and "09" where those are, else to "9".
        for (const std::string &digits : family.unpadded) {
            const auto same_width = family.numbers.find(digits.size());
            std::uint64_t number = 0;
            parse_number(digits, number);
            (same_width != family.numbers.end() ? same_width->second : family.numbers[0]).insert(number);
        }
        if (family.bare && !prefix.empty())
            out += (out.empty() ? "" : ",") + prefix;
        std::string ranges;
        std::size_t count = 0;
        for (const auto &[width, numbers] : family.numbers) {
            add_ranges(numbers, width, ranges);
            count += numbers.size();
        }
        if (count > 0)
            out += (out.empty() ? "" : ",") + prefix + (count > 1 ? "[" + ranges + "]" : ranges);
    }
    return out;
}

}  // namespace berth
