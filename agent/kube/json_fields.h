// Reading fields of parsed JSON: what is absent, or of another type, reads as empty, zero or false. The parsed text must
// outlive what is returned. Pure.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace berth::kube {

using Json = simdjson::dom::object;

inline std::string_view text(Json from, std::string_view key) {
    std::string_view out;
    return from[key].get(out) == simdjson::SUCCESS ? out : std::string_view();
}

inline std::int64_t number(Json from, std::string_view key, std::int64_t otherwise = 0) {
    std::int64_t out;
    return from[key].get(out) == simdjson::SUCCESS ? out : otherwise;
}

inline bool flag(Json from, std::string_view key) {
    bool out;
    return from[key].get(out) == simdjson::SUCCESS && out;
}

inline bool has_items(Json from, std::string_view key) {
    simdjson::dom::array list;
    return from[key].get(list) == simdjson::SUCCESS && list.begin() != list.end();
}

// Calls fn with each object of a list, or with the one object of a field.
template <class Fn>
void each(Json from, std::string_view key, Fn fn) {
    simdjson::dom::array list;
    if (from[key].get(list) != simdjson::SUCCESS)
        return;
    for (const auto element : list) {
        Json item;
        if (element.get(item) == simdjson::SUCCESS)
            fn(item);
    }
}

template <class Fn>
void inside(Json from, std::string_view key, Fn fn) {
    Json item;
    if (from[key].get(item) == simdjson::SUCCESS)
        fn(item);
}

}  // namespace berth::kube
