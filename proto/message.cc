#include "proto/version.h"

#include <charconv>

namespace berth {

namespace {

constexpr std::string_view greeting = "berth ";

bool is_word(std::string_view word) {
    if (word.empty() || word.size() > 64)
        return false;
    return word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == std::string_view::npos;
}

bool is_value(std::string_view value) {
    return value.find('\n') == std::string_view::npos && value.find('\0') == std::string_view::npos;
}

// Whether one of the first `count` fields has this key.
bool stands_in(const Message &message, std::size_t count, std::string_view key) {
    for (std::size_t i = 0; i < count; ++i)
        if (message.fields[i].first == key)
            return true;
    return false;
}

// Takes "berth 1 " off the text; nothing when it does not begin so.
std::optional<unsigned> take_version(std::string_view &text) {
    if (!text.starts_with(greeting))
        return std::nullopt;
    const char *const begin = text.data() + greeting.size(), *const end = text.data() + text.size();
    unsigned version = 0;
    const auto [after, error] = std::from_chars(begin, end, version);
    if (error != std::errc() || after == end || *after != ' ' || *begin == '0')
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(after + 1 - text.data()));
    return version;
}

}  // namespace

std::string_view Message::get(std::string_view key) const {
    for (const auto &[k, v] : fields)
        if (k == key)
            return v;
    return {};
}

std::optional<unsigned long> Message::number(std::string_view key) const {
    const std::string_view text = get(key);
    unsigned long value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

Message &Message::set(std::string_view key, std::string_view value) {
    fields.emplace_back(key, value);
    return *this;
}

Message &Message::set(std::string_view key, unsigned long value) { return set(key, std::to_string(value)); }

std::string encode(const Message &message) { return encode(message, message_versions); }

std::optional<Message> decode(std::string_view text, std::string &why) { return decode(text, why, message_versions); }

std::string encode(const Message &message, const Versions &versions) {
    if (!is_word(message.verb))
        return {};
    std::string text(greeting);
    text.append(std::to_string(versions.written)).append(" ").append(message.verb).push_back('\n');
    for (std::size_t i = 0; i < message.fields.size(); ++i) {
        const auto &[key, value] = message.fields[i];
        if (!is_word(key) || !is_value(value) || stands_in(message, i, key))
            return {};
        text.append(key).append("=").append(value).push_back('\n');
    }
    return text.size() <= max_message ? text : std::string();
}

std::optional<Message> decode(std::string_view text, std::string &why, const Versions &versions) {
    const auto refuse = [&why](const char *reason) {
        why = reason;
        return std::nullopt;
    };
    if (text.size() > max_message)
        return refuse("longer than a message may be");
    const auto version = take_version(text);
    if (!version)
        return refuse("not a berth message");
    if (!versions.reads(*version))
        return refuse("a berth message of a version that is not spoken here: plugin and agent are more than one release apart");
    if (text.empty() || text.back() != '\n')
        return refuse("cut off: the last line has no end");
    Message message;
    for (bool first = true; !text.empty(); first = false) {
        const std::size_t end = text.find('\n');
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(end + 1);
        if (first) {
            if (!is_word(line))
                return refuse("the verb is not a word");
            message.verb = line;
            continue;
        }
        const std::size_t equals = line.find('=');
        if (equals == std::string_view::npos || !is_word(line.substr(0, equals)))
            return refuse("a line is not key=value");
        if (!is_value(line))
            return refuse("a value holds a NUL");
        const std::string_view key = line.substr(0, equals);
        if (stands_in(message, message.fields.size(), key))
            return refuse("a key stands twice");
        message.set(key, line.substr(equals + 1));
    }
    if (message.verb.empty())
        return refuse("no verb");
    return message;
}

}  // namespace berth
