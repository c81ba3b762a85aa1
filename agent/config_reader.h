// Readers that turn YAML values into typed fields, for agent/config.cc. Every error is one line,
// "FILE:LINE: key.path: what is wrong; what is accepted". Pure; no state of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"
#include "agent/yaml.h"

namespace berth {

// A value and the way to it ("tenants[2].user").
struct Place {
    const yaml::Node &node;
    std::string path;

    Error wrong(std::string_view what) const;
};

using ReadValue = std::function<Result<void>(const Place &)>;

struct ConfigKey {
    std::string_view name;
    ReadValue read;
    bool required = false;
};

// A map with these keys and no others; an empty value leaves everything as it is, unless a key is required. An unknown
// key is an error that names the nearest known one.
Result<void> read_map(const Place &at, const std::vector<ConfigKey> &keys);
// Calls `item` for each item of a list, in order; an empty value is an empty list.
Result<void> read_list(const Place &at, const ReadValue &item);

// Field readers. The field must outlive the returned function; it changes only when the value is good.
// `check` gets the text and returns what is wrong with it together with what is accepted, or an empty string.
using TextCheck = std::string (*)(std::string_view text);
ReadValue text_field(std::string &field, TextCheck check);
ReadValue text_list(std::vector<std::string> &field, TextCheck check);
ReadValue bool_field(bool &field);
ReadValue int_field(std::int64_t least, std::int64_t most, std::function<void(std::int64_t)> set);
// Durations must be positive; those kept in seconds must be whole ones.
ReadValue duration_field(std::chrono::seconds &field);
ReadValue duration_field(std::chrono::milliseconds &field);
// The value's text through a parser of quantity.h, whose sentence becomes the error; `set` may refuse with one of its
// own.
ReadValue parsed_field(std::function<Result<void>(std::string_view text)> parse);

// The known word most like `word`, empty when none is near.
std::string_view nearest(std::string_view word, const std::vector<std::string_view> &known);

}  // namespace berth
