#include "agent/translate/annotations.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "agent/translate/hostlist.h"
#include "agent/translate/quantity.h"

namespace berth {
namespace {

constexpr std::size_t kLongestText = 256;
constexpr std::size_t kLongestComment = 1024;  // Slurm keeps no more of one
// What Slurm keeps for "infinite" and "no value" lies above this.
constexpr std::uint32_t kMaxPriority = 0xfffffffd;
constexpr std::int64_t kMaxNice = 0x7ffffffd;
constexpr std::uint64_t kMaxNodes = 65533;

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

Outcome read_text(std::string_view value, std::string &field, std::size_t longest = kLongestText) {
    if (value.size() > longest || !is_printable(value))
        return Failure{fmt::format("is refused; accepted are up to {} printable ASCII characters", longest)};
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

template <std::optional<std::uint32_t> Annotations::*Field>
Outcome nodes(std::string_view value, Annotations &a) {
    std::uint64_t number = 0;
    if (!parse_number(value, number))
        return Failure{"is not a whole number; accepted are numbers of nodes, and 1 for a single pod"};
    if (number < 1 || number > kMaxNodes)
        return Failure{fmt::format("is out of range; accepted are whole numbers from 1 to {}, and 1 for a single pod", kMaxNodes)};
    a.*Field = static_cast<std::uint32_t>(number);
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

// --- ours

Outcome nice(std::string_view value, Annotations &a) {
    const bool negative = value.starts_with('-');
    std::uint64_t number = 0;
    if (!parse_number(value.substr(negative), number) || number > static_cast<std::uint64_t>(kMaxNice))
        return Failure{fmt::format("is not a nice value; accepted are whole numbers from -{} to {}", kMaxNice, kMaxNice)};
    const auto magnitude = static_cast<std::int32_t>(number);
    a.nice = negative ? -magnitude : magnitude;
    return {};
}

Outcome comment(std::string_view value, Annotations &a) { return read_text(value, a.comment, kLongestComment); }

template <std::optional<Moment> Annotations::*Field>
Outcome moment(std::string_view value, Annotations &a) {
    const Result<Moment> parsed = parse_moment(value);
    if (!parsed)
        return Failure{parsed.error(), true};
    a.*Field = *parsed;
    return {};
}

Outcome dependency(std::string_view value, Annotations &a) {
    Result<std::vector<Dependency>> parsed = parse_dependencies(value);
    if (!parsed)
        return Failure{parsed.error(), true};
    a.dependencies = std::move(*parsed);
    return {};
}

Outcome switches(std::string_view value, Annotations &a) {
    constexpr std::int64_t longest = 365LL * 86400;
    const std::size_t at = value.find('@');
    std::uint64_t number = 0;
    std::int64_t wait = 0;
    bool good = parse_number(value.substr(0, at), number) && number >= 1 && number <= kMaxNodes;
    if (good && at != std::string_view::npos) {
        const Result<std::int64_t> ms = parse_duration_ms(value.substr(at + 1));
        good = ms && *ms <= longest * 1000;
        wait = good ? *ms / 1000 + (*ms % 1000 > 0) : 0;
    }
    if (!good)
        return Failure{R"(is refused; accepted are a number of switches ("1"), and with it how long to wait for them ("1@5m"))"};
    a.switches = static_cast<std::uint32_t>(number);
    a.switches_wait_seconds = static_cast<std::uint32_t>(wait);
    return {};
}

Outcome exclude(std::string_view value, Annotations &a) {
    Result<std::vector<std::string>> names = expand_hostlist(value);
    if (!names)
        return Failure{names.error(), true};
    a.exclude = std::move(*names);
    return {};
}

Outcome spread(std::string_view value, Annotations &a) {
    std::uint64_t number = 0;
    if (value == "true" || value == "false") {
        a.spread = value == "true";
    } else if (parse_number(value, number) && number >= 1 && number <= static_cast<std::uint64_t>(kMaxCpus)) {
        a.tasks_per_node = static_cast<std::uint16_t>(number);
    } else {
        return Failure{R"(is refused; accepted are "true" (as many nodes as possible), "false" and a number )"
                       "(so many pods per node at most)"};
    }
    return {};
}

Outcome read_bool(std::string_view value, bool &field) {
    if (value != "true" && value != "false")
        return Failure{R"(is refused; accepted are "true" and "false")"};
    field = value == "true";
    return {};
}

Outcome pack(std::string_view value, Annotations &a) { return read_bool(value, a.pack); }

// What it means is decided where pods are grouped; here only its form is looked at.
Outcome gang(std::string_view value, Annotations &) {
    bool ignored = false;
    return read_bool(value, ignored);
}

Outcome warn(std::string_view value, Annotations &a) {
    const Result<std::chrono::seconds> parsed = parse_warn(value);
    if (!parsed)
        return Failure{parsed.error(), true};
    a.warn = *parsed;
    return {};
}

Outcome passed_over(std::string_view, Annotations &) { return {}; }

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
    {"max-nodes", nodes<&Annotations::max_nodes>},
    {"mem-per-node", memory},
    {"min-nodes", nodes<&Annotations::min_nodes>},
    {"partition", name<&Annotations::partition>},
    {"priority", priority},
    {"qos", name<&Annotations::qos>},
    {"reservation", name<&Annotations::reservation>},
    {"timelimit", time_limit},
    {"user-id", name<&Annotations::user_id>},
    {"wckey", name<&Annotations::wckey>},
};

constexpr Reader kOwnReaders[] = {
    {"begin", moment<&Annotations::begin>},
    {"comment", comment},
    {"deadline", moment<&Annotations::deadline>},
    {"dependency", dependency},
    {"exclude", exclude},
    {"gang", gang},
    {"nice", nice},
    {"nonce", passed_over},  // Berth writes it
    {"pack", pack},
    {"prefer", text<&Annotations::prefer>},
    {"slot", passed_over},  // likewise
    {"spread", spread},
    {"switches", switches},
    {"warn", warn},
};

struct Family {
    std::string_view prefix;
    std::span<const Reader> readers;
};
constexpr Family kFamilies[] = {{kAnnotationPrefix, kReaders}, {kOwnPrefix, kOwnReaders}};

constexpr std::array<std::string_view, 3> kSizes = {"cpu-per-task", "gres", "mem-per-node"};

bool is_size(std::string_view full_key) {
    return full_key.starts_with(kAnnotationPrefix) &&
           std::find(kSizes.begin(), kSizes.end(), full_key.substr(kAnnotationPrefix.size())) != kSizes.end();
}

const Reader *find_reader(const Family &family, std::string_view key) {
    const auto at = std::find_if(family.readers.begin(), family.readers.end(), [&](const Reader &r) { return r.key == key; });
    return at == family.readers.end() ? nullptr : &*at;
}

std::string known_keys(const Family &family) {
    std::string out;
    for (const Reader &reader : family.readers)
        if (reader.read != passed_over)
            out += (out.empty() ? "" : ", ") + std::string(reader.key);
    return out;
}

Result<void> read_one(const Family &family, std::string_view key, std::string_view value, Annotations &out) {
    const Reader *reader = find_reader(family, key);
    if (reader == nullptr)
        return Error{fmt::format("annotation {}{} is unknown; known under {} are {}", family.prefix, shown(key), family.prefix,
                                 known_keys(family))};
    if (value.empty())
        return {};
    if (const Outcome bad = reader->read(value, out)) {
        if (bad->has_value)
            return Error{fmt::format("annotation {}{}: {}", family.prefix, key, bad->text)};
        return Error{annotation_words(family.prefix, key, value) + " " + bad->text};
    }
    return {};
}

}  // namespace

Result<std::chrono::seconds> parse_warn(std::string_view text) {
    constexpr std::int64_t longest = 365LL * 86400;
    if (text == "0")
        return std::chrono::seconds(0);
    const Result<std::int64_t> ms = parse_duration_ms(text);
    if (!ms || *ms % 1000 != 0 || *ms / 1000 > longest)
        return Error{fmt::format("\"{}\" is refused; accepted are whole seconds, minutes, hours or days, such as 90s, 5m and 2h, and 0 for no "
                                 "warning",
                                 shown(text))};
    return std::chrono::seconds(*ms / 1000);
}

std::string annotation_words(std::string_view prefix, std::string_view key, std::string_view value) {
    return fmt::format("annotation {}{}: \"{}\"", prefix, key, shown(value));
}

kube::KeyValues merge_layers(const std::vector<kube::KeyValues> &layers) {
    std::map<std::string, std::string> merged;
    for (const kube::KeyValues &layer : layers)
        for (const auto &[key, value] : layer) {
            std::string &slot = merged[key];
            if (slot.empty())
                slot = value;
        }
    return {merged.begin(), merged.end()};
}

Result<Annotations> read_annotations(const kube::KeyValues &annotations) {
    Annotations out;
    for (const auto &[key, value] : annotations)
        for (const Family &family : kFamilies)
            if (key.starts_with(family.prefix))
                if (Result<void> read = read_one(family, std::string_view(key).substr(family.prefix.size()), value, out); !read)
                    return Error{read.error()};
    if (out.pack && (out.spread || out.tasks_per_node > 0))
        return Error{fmt::format("{} is refused beside {}spread, which asks for the opposite; accepted is one of the two",
                                 annotation_words(kOwnPrefix, "pack", "true"), kOwnPrefix)};
    return out;
}

Result<Annotations> read_sizes(const kube::KeyValues &annotations) {
    kube::KeyValues sizes;
    std::copy_if(annotations.begin(), annotations.end(), std::back_inserter(sizes),
                 [](const auto &entry) { return is_size(entry.first); });
    return read_annotations(sizes);
}

kube::KeyValues job_wide(const kube::KeyValues &annotations) {
    kube::KeyValues out;
    for (const auto &[key, value] : annotations)
        for (const Family &family : kFamilies) {
            if (value.empty() || !key.starts_with(family.prefix) || is_size(key))
                continue;
            const Reader *reader = find_reader(family, std::string_view(key).substr(family.prefix.size()));
            if (reader == nullptr || reader->read != passed_over)
                out.emplace_back(key, value);
        }
    return out;
}

}  // namespace berth
