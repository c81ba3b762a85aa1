#include "agent/json_object.h"

#include <fmt/format.h>

#include "agent/kube/json_text.h"

namespace berth {

JsonObject &JsonObject::add_raw(std::string_view key, std::string_view json) {
    if (!body_.empty())
        body_ += ",";
    body_ += kube::json_quote(key);
    body_ += ":";
    body_ += json;
    return *this;
}

JsonObject &JsonObject::add(std::string_view key, std::string_view text) { return add_raw(key, kube::json_quote(text)); }

JsonObject &JsonObject::add(std::string_view key, const std::vector<JsonObject> &objects) {
    std::string list;
    for (const JsonObject &object : objects)
        list += (list.empty() ? "" : ",") + object.text();
    return add_raw(key, "[" + list + "]");
}

JsonObject &JsonObject::add(std::string_view key, const std::vector<std::string> &texts) {
    std::string list;
    for (const std::string &text : texts)
        list += (list.empty() ? "" : ",") + kube::json_quote(text);
    return add_raw(key, "[" + list + "]");
}

JsonObject &JsonObject::add(std::string_view key, double number) { return add_raw(key, fmt::format("{:.3f}", number)); }

JsonObject &JsonObject::add_time(std::string_view key, std::time_t when) {
    if (when == 0)
        return add_null(key);
    std::tm tm{};
    gmtime_r(&when, &tm);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    return add(key, std::string_view(text));
}

}  // namespace berth
