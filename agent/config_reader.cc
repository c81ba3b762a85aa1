#include "agent/config_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "agent/translate/quantity.h"

namespace berth {
namespace {

// Words that differ only in case, '-' and '_' count as equal.
std::string normalised(std::string_view word) {
    std::string out;
    for (char c : word.substr(0, 64))
        if (c != '_' && c != '-')
            out += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
    return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); i++) {
        std::size_t diagonal = row[0];
        row[0] = i + 1;
        for (std::size_t j = 0; j < b.size(); j++) {
            const std::size_t replaced = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
        }
    }
    return row[b.size()];
}

std::string shown(std::string_view text) {
    constexpr std::size_t longest = 64;
    std::string out;
    for (char c : text.substr(0, longest))
        out += (static_cast<unsigned char>(c) < ' ' || c == 127) ? '?' : c;
    return text.size() > longest ? out + "..." : out;
}

std::string child_path(const Place &at, std::string_view key) {
    return at.path.empty() ? std::string(key) : fmt::format("{}.{}", at.path, key);
}

Error unknown_key(const Place &at, const yaml::Node &child, const std::vector<ConfigKey> &keys) {
    std::vector<std::string_view> names;
    std::string list;
    for (const ConfigKey &key : keys) {
        names.push_back(key.name);
        list += (list.empty() ? "" : ", ") + std::string(key.name);
    }
    const std::string_view near = nearest(child.key(), names);
    return Place{child, child_path(at, shown(child.key()))}.wrong(fmt::format(
        "unknown key{}; accepted are {}", near.empty() ? "" : fmt::format(", perhaps {} is meant", near), list));
}

Result<void> need_scalar(const Place &at) {
    if (at.node.is_null())
        return at.wrong("has no value; accepted is a single value, or leave the key out");
    if (!at.node.is_scalar())
        return at.wrong("is a list or map; accepted is a single value");
    return {};
}

template <class Duration>
ReadValue read_duration(Duration &field) {
    return [&field](const Place &at) -> Result<void> {
        if (Result<void> scalar = need_scalar(at); !scalar)
            return scalar;
        const Result<std::int64_t> ms = parse_duration_ms(at.node.text());
        if (!ms)
            return at.wrong(ms.error());
        const auto value = std::chrono::duration_cast<Duration>(std::chrono::milliseconds(*ms));
        if (*ms == 0)
            return at.wrong(
                fmt::format("\"{}\" is no time at all; accepted are durations above 0, such as 30s", at.node.text()));
        if (value != std::chrono::milliseconds(*ms))
            return at.wrong(fmt::format("\"{}\" is too fine; accepted are whole seconds, such as 30s", at.node.text()));
        field = value;
        return {};
    };
}

}  // namespace

Error Place::wrong(std::string_view what) const {
    const std::string_view between = path.empty() ? "" : ": ";
    return Error{fmt::format("{}:{}: {}{}{}", node.file(), node.key_line(), path, between, what)};
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view> &known) {
    const std::string wanted = normalised(word);
    std::string_view best;
    std::size_t best_distance = std::max<std::size_t>(2, wanted.size() / 3) + 1;
    for (std::string_view candidate : known) {
        const std::string plain = normalised(candidate);
        const std::size_t distance = edit_distance(wanted, plain);
        // A word that shares no letter is not "near", however short both are.
        if (distance < best_distance && distance < std::max(plain.size(), wanted.size())) {
            best = candidate;
            best_distance = distance;
        }
    }
    return best;
}

Result<void> read_map(const Place &at, const std::vector<ConfigKey> &keys) {
    if (!at.node.is_null() && !at.node.is_map())
        return at.wrong("is not a map; accepted are lines of KEY: VALUE");
    for (const yaml::Node &child : at.node.children()) {
        const auto key =
            std::find_if(keys.begin(), keys.end(), [&](const ConfigKey &k) { return k.name == child.key(); });
        if (key == keys.end())
            return unknown_key(at, child, keys);
        if (Result<void> done = key->read(Place{child, child_path(at, key->name)}); !done)
            return done;
    }
    for (const ConfigKey &key : keys)
        if (key.required && at.node.find(key.name) == nullptr)
            return Place{at.node, child_path(at, key.name)}.wrong("is missing; a value is required here");
    return {};
}

Result<void> read_list(const Place &at, const ReadValue &item) {
    if (!at.node.is_null() && !at.node.is_list())
        return at.wrong("is not a list; accepted are lines that begin with \"- \", or [a, b]");
    for (std::size_t i = 0; i < at.node.children().size(); i++)
        if (Result<void> done = item(Place{at.node.children()[i], fmt::format("{}[{}]", at.path, i)}); !done)
            return done;
    return {};
}

ReadValue text_field(std::string &field, TextCheck check) {
    return [&field, check](const Place &at) -> Result<void> {
        if (Result<void> scalar = need_scalar(at); !scalar)
            return scalar;
        if (const std::string what = check(at.node.text()); !what.empty())
            return at.wrong(fmt::format("\"{}\" {}", shown(at.node.text()), what));
        field = at.node.text();
        return {};
    };
}

ReadValue text_list(std::vector<std::string> &field, TextCheck check) {
    return [&field, check](const Place &at) -> Result<void> {
        std::vector<std::string> texts;
        Result<void> done = read_list(at, [&](const Place &item) -> Result<void> {
            std::string text;
            if (Result<void> read = text_field(text, check)(item); !read)
                return read;
            if (std::find(texts.begin(), texts.end(), text) != texts.end())
                return item.wrong(fmt::format("\"{}\" is given twice; accepted is each name once", text));
            texts.push_back(std::move(text));
            return {};
        });
        if (done)
            field = std::move(texts);
        return done;
    };
}

ReadValue bool_field(bool &field) {
    return [&field](const Place &at) -> Result<void> {
        const Result<bool> value = at.node.as_bool();
        if (!value)
            return at.wrong(fmt::format("\"{}\" is neither; accepted are true and false", shown(at.node.text())));
        field = *value;
        return {};
    };
}

ReadValue int_field(std::int64_t least, std::int64_t most, std::function<void(std::int64_t)> set) {
    return [=](const Place &at) -> Result<void> {
        const Result<std::int64_t> value = at.node.as_int();
        if (!value || *value < least || *value > most)
            return at.wrong(fmt::format("\"{}\" is refused; accepted are whole numbers from {} to {}",
                                        shown(at.node.text()), least, most));
        set(*value);
        return {};
    };
}

ReadValue duration_field(std::chrono::seconds &field) { return read_duration(field); }

ReadValue duration_field(std::chrono::milliseconds &field) { return read_duration(field); }

ReadValue parsed_field(std::function<Result<void>(std::string_view text)> parse) {
    return [parse = std::move(parse)](const Place &at) -> Result<void> {
        if (Result<void> scalar = need_scalar(at); !scalar)
            return scalar;
        if (Result<void> done = parse(at.node.text()); !done)
            return at.wrong(done.error());
        return {};
    };
}

}  // namespace berth
