// JsonObject: JSON that goes out (`-o json`, status.json), put together key by key in the order in which it is documented. Pure.
#pragma once

#include <concepts>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

class JsonObject {
  public:
    JsonObject &add(std::string_view key, std::string_view text);
    JsonObject &add(std::string_view key, const char *text) { return add(key, std::string_view(text)); }
    JsonObject &add(std::string_view key, const JsonObject &object) { return add_raw(key, object.text()); }
    JsonObject &add(std::string_view key, const std::vector<JsonObject> &objects);
    JsonObject &add(std::string_view key, const std::vector<std::string> &texts);
    JsonObject &add(std::string_view key, std::same_as<bool> auto value) { return add_raw(key, value ? "true" : "false"); }
    template <std::integral Number>
    requires(!std::same_as<Number, bool>) JsonObject &add(std::string_view key, Number number) {
        return add_raw(key, std::to_string(number));
    }
    JsonObject &add(std::string_view key, double number);  // to a thousandth
    // UTC, "2026-11-16T12:00:00Z"; null for 0.
    JsonObject &add_time(std::string_view key, std::time_t when);
    JsonObject &add_null(std::string_view key) { return add_raw(key, "null"); }

    std::string text() const { return "{" + body_ + "}"; }

  private:
    JsonObject &add_raw(std::string_view key, std::string_view json);
    std::string body_;
};

}  // namespace berth
