#include "agent/translate/annotations.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "agent/translate/quantity.h"

namespace berth {
namespace {

constexpr std::size_t kLongestName = 64;
constexpr std::size_t kLongestText = 256;
constexpr std::size_t kMostGres = 16;
constexpr std::uint64_t kMostOfOneGres = 1ULL << 56;
// What Slurm keeps for "infinite" and "no value" lies above this.
constexpr std::uint32_t kMaxPriority = 0xfffffffd;

bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '-';
}

bool is_printable(std::string_view s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return c >= ' ' && c < 127; });
}

bool is_digits(std::string_view s) {
    return std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Decimal digits only; false also for what does not fit.
bool parse_number(std::string_view s, std::uint64_t &value) {
    if (s.empty() || s.size() > 18 || !is_digits(s))
        return false;
    value = 0;
    for (char c : s)
        value = value * 10 + (c - '0');
    return true;
}

// Readers: check one value and store it. Their errors are the end of the sentence that annotation_words() begins,
// except those of quantity.h, which begin with the value themselves; see Failure.
struct Failure {
    std::string text;
    bool has_value = false;  // text begins with the value
};
using Outcome = std::optional<Failure>;

Outcome read_name(std::string_view value, std::string &field) {
    if (!is_safe_name(value))
        return Failure{
            fmt::format("is refused; accepted are 1 to {} of the characters A-Z a-z 0-9 _ . -", kLongestName)};
    field = value;
    return {};
}

Outcome read_text(std::string_view value, std::string &field) {
    if (value.size() > kLongestText || !is_printable(value))
        return Failure{fmt::format("is refused; accepted are up to {} printable ASCII characters", kLongestText)};
    field = value;
    return {};
}

template <std::string Annotations::*Field>
Outcome name(std::string_view value, Annotations &a) {
    return read_name(value, a.*Field);
}

template <std::string Annotations::*Field>
Outcome text(std::string_view value, Annotations &a) {
    return read_text(value, a.*Field);
}

Outcome gres(std::string_view value, Annotations &a) {
    std::string checked;
    if (Outcome bad = read_text(value, checked))
        return bad;
    Result<GresList> list = parse_gres(checked);
    if (!list)
        return Failure{list.error(), true};
    a.gres = *list;
    return {};
}

Outcome cpus(std::string_view value, Annotations &a) {
    const Result<std::int64_t> milli = parse_milli(value);
    if (!milli)
        return Failure{milli.error(), true};
    const std::int64_t whole = *milli / 1000 + (*milli % 1000 > 0);
    if (whole < 1 || whole > kMaxCpus)
        return Failure{fmt::format("is out of range; accepted are quantities above 0 and up to {} CPUs", kMaxCpus)};
    a.cpus = static_cast<std::uint16_t>(whole);
    return {};
}

// Zero must not pass: it would mean all of the node's memory to Slurm.
Outcome memory(std::string_view value, Annotations &a) {
    const Result<std::int64_t> bytes = parse_units(value);
    if (!bytes)
        return Failure{bytes.error(), true};
    if (*bytes == 0)
        return Failure{"is out of range; accepted are quantities above 0, such as 512Mi"};
    a.memory_mib = static_cast<std::uint64_t>(mib_rounded_up(*bytes));
    return {};
}

Outcome one_node(std::string_view value, Annotations &) {
    std::uint64_t number = 0;
    if (!parse_number(value, number))
        return Failure{"is not a whole number; accepted for a single pod is 1"};
    if (number != 1)
        return Failure{"is refused, because a single pod takes one node; accepted is 1"};
    return {};
}

// Zero would hold the job, and nobody would know why the pod waits.
Outcome priority(std::string_view value, Annotations &a) {
    std::uint64_t number = 0;
    if (!parse_number(value, number) || number < 1 || number > kMaxPriority)
        return Failure{fmt::format("is not a priority; accepted are whole numbers from 1 to {}", kMaxPriority)};
    a.priority = static_cast<std::uint32_t>(number);
    return {};
}

Outcome time_limit(std::string_view value, Annotations &a) {
    const Result<std::uint32_t> minutes = parse_time_limit(value);
    if (!minutes)
        return Failure{minutes.error(), true};
    if (*minutes > 0)
        a.time_limit_minutes = *minutes;
    return {};
}

Outcome exclusive(std::string_view value, Annotations &a) {
    if (value != "true" && value != "false")
        return Failure{R"(is refused; accepted are "true" (whole node) and "false" (may share))"};
    a.exclusive = value == "true";
    return {};
}

struct Reader {
    std::string_view key;
    Outcome (*read)(std::string_view value, Annotations &a);
};

constexpr Reader kReaders[] = {
    {"account", name<&Annotations::account>},
    {"constraints", text<&Annotations::constraints>},
    {"cpu-per-task", cpus},
    {"exclusive", exclusive},
    {"gres", gres},
    {"group-id", name<&Annotations::group_id>},
    {"job-name", text<&Annotations::job_name>},
    {"licenses", text<&Annotations::licenses>},
    {"max-nodes", one_node},
    {"mem-per-node", memory},
    {"min-nodes", one_node},
    {"partition", name<&Annotations::partition>},
    {"priority", priority},
    {"qos", name<&Annotations::qos>},
    {"reservation", name<&Annotations::reservation>},
    {"timelimit", time_limit},
    {"user-id", name<&Annotations::user_id>},
    {"wckey", name<&Annotations::wckey>},
};

std::string known_keys() {
    std::string out;
    for (const Reader &reader : kReaders)
        out += (out.empty() ? "" : ", ") + std::string(reader.key);
    return out;
}

// Shown values come from anybody who may create a pod: bounded and printable.
std::string shown(std::string_view value) {
    constexpr std::size_t longest = 64;
    std::string out;
    for (char c : value.substr(0, longest))
        out += (c >= ' ' && c < 127) ? c : '?';
    return value.size() > longest ? out + "..." : out;
}

bool parse_count(std::string_view s, std::uint64_t &count) {
    int shift = 0;
    if (!s.empty()) {
        const std::size_t at = std::string_view("KMGTP").find(static_cast<char>(s.back() & ~0x20));
        if (at != std::string_view::npos) {
            shift = 10 * (static_cast<int>(at) + 1);
            s.remove_suffix(1);
        }
    }
    if (!parse_number(s, count) || count > (kMostOfOneGres >> shift))
        return false;
    count <<= shift;
    return true;
}

}  // namespace

bool is_safe_name(std::string_view name) {
    return !name.empty() && name.size() <= kLongestName && std::all_of(name.begin(), name.end(), is_name_char);
}

std::string annotation_words(std::string_view key, std::string_view value) {
    return fmt::format("annotation {}{}: \"{}\"", kAnnotationPrefix, key, shown(value));
}

void add_gres(GresList &list, std::string_view name, std::uint64_t count) {
    const auto at = std::find_if(list.begin(), list.end(), [&](const auto &entry) { return entry.first == name; });
    if (at == list.end())
        list.emplace_back(name, count);
    else
        at->second = sum_of(at->second, count);
}

std::uint64_t sum_of(std::uint64_t a, std::uint64_t b) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    return b > most - a ? most : a + b;
}

Result<GresList> parse_gres(std::string_view text) {
    const auto refused = [&] {
        return Error{
            fmt::format("\"{}\" is not a list of generic resources; accepted are up to {} of NAME, NAME:COUNT or "
                        "NAME:TYPE:COUNT, separated by commas, such as gpu:2 or gpu:a100:2",
                        shown(text), kMostGres)};
    };
    GresList list;
    std::size_t entries = 0;
    for (std::string_view rest = text;;) {
        const std::size_t comma = rest.find(',');
        std::string_view item = rest.substr(0, comma);
        if (item.starts_with("gres/") || item.starts_with("gres:"))
            item.remove_prefix(5);
        // The last field is the count if it is one; what stands before it is NAME or NAME:TYPE.
        std::uint64_t count = 1;
        const std::size_t last = item.rfind(':');
        if (last != std::string_view::npos && parse_count(item.substr(last + 1), count))
            item = item.substr(0, last);
        else
            count = 1;
        const std::size_t colon = item.find(':');
        const bool typed = colon != std::string_view::npos;
        const std::string_view type = typed ? item.substr(colon + 1) : std::string_view();
        // A type of digits alone is a count that was too large or came twice.
        if (!is_safe_name(item.substr(0, colon)) || (typed && (!is_safe_name(type) || is_digits(type))) || count == 0 ||
            ++entries > kMostGres)
            return refused();
        add_gres(list, item, count);
        if (comma == std::string_view::npos)
            return list;
        rest.remove_prefix(comma + 1);
    }
}

Result<Annotations> read_annotations(const kube::KeyValues &annotations) {
    Annotations out;
    for (const auto &[full_key, value] : annotations) {
        std::string_view key = full_key;
        if (!key.starts_with(kAnnotationPrefix))
            continue;
        key.remove_prefix(kAnnotationPrefix.size());
        const auto reader =
            std::find_if(std::begin(kReaders), std::end(kReaders), [&](const Reader &r) { return r.key == key; });
        if (reader == std::end(kReaders))
            return Error{fmt::format("annotation {}{} is unknown; known under {} are {}", kAnnotationPrefix, shown(key),
                                     kAnnotationPrefix, known_keys())};
        if (value.empty())
            continue;
        if (const Outcome bad = reader->read(value, out)) {
            if (bad->has_value)
                return Error{fmt::format("annotation {}{}: {}", kAnnotationPrefix, key, bad->text)};
            return Error{annotation_words(key, value) + " " + bad->text};
        }
    }
    return out;
}

}  // namespace berth
