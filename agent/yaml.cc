#include "agent/yaml.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace berth::yaml {

namespace {

struct Parser {
    yaml_parser_t raw;
    bool ready;
    Parser() : ready(yaml_parser_initialize(&raw) == 1) {}
    ~Parser() {
        if (ready)
            yaml_parser_delete(&raw);
    }
    Parser(const Parser &) = delete;
    Parser &operator=(const Parser &) = delete;
};

struct YamlEvent {
    yaml_event_t raw{};
    bool filled = false;
    YamlEvent() = default;
    ~YamlEvent() {
        if (filled)
            yaml_event_delete(&raw);
    }
    YamlEvent(const YamlEvent &) = delete;
    YamlEvent &operator=(const YamlEvent &) = delete;
    std::size_t line() const { return raw.start_mark.line + 1; }
};

bool plain_null(const std::string &text) {
    return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::string quoted_for_error(const std::string &text) {
    constexpr std::size_t most = 60;
    return text.size() <= most ? text : text.substr(0, most) + "...";
}

}  // namespace

// Turns libyaml's events into a tree. Recursion is bounded by Limits::depth.
class Builder {
  public:
    Builder(yaml_parser_t &parser, const std::string &name, const Limits &limits)
        : parser_(parser), file_(std::make_shared<const std::string>(name)), limits_(limits) {}

    Result<Node> document() {
        YamlEvent event;
        if (!next(event) || event.raw.type != YAML_STREAM_START_EVENT)
            return Error{failure(1)};
        YamlEvent start;
        if (!next(start))
            return Error{failure(1)};
        Node root;
        root.file_ = file_;
        root.line_ = root.key_line_ = 1;
        if (start.raw.type == YAML_STREAM_END_EVENT)
            return root;
        YamlEvent first;
        if (!next(first) || !fill(root, first, 0))
            return Error{failure(first.line())};
        YamlEvent end, after;
        if (!next(end) || !next(after))
            return Error{failure(first.line())};
        if (after.raw.type != YAML_STREAM_END_EVENT)
            return Error{at(after.line(), "a second document begins here; one is expected")};
        return root;
    }

  private:
    bool next(YamlEvent &event) {
        if (!error_.empty())
            return false;
        if (!yaml_parser_parse(&parser_, &event.raw)) {
            error_ = at(parser_.problem_mark.line + 1, parser_.problem ? parser_.problem : "cannot be read as YAML");
            return false;
        }
        event.filled = true;
        return true;
    }

    std::string at(std::size_t line, std::string_view what) const {
        return fmt::format("{}:{}: {}", *file_, line, what);
    }
    std::string failure(std::size_t line) const { return error_.empty() ? at(line, "cannot be read as YAML") : error_; }
    bool fail(std::size_t line, std::string_view what) {
        error_ = at(line, what);
        return false;
    }

    bool fill(Node &node, YamlEvent &event, std::size_t depth) {
        node.file_ = file_;
        node.line_ = event.line();
        if (node.key_line_ == 0)
            node.key_line_ = node.line_;
        if (++nodes_ > limits_.nodes)
            return fail(node.line_, fmt::format("more than {} values", limits_.nodes));
        if (depth > limits_.depth)
            return fail(node.line_, fmt::format("nested more than {} levels deep", limits_.depth));
        switch (event.raw.type) {
        case YAML_SCALAR_EVENT: {
            const auto &scalar = event.raw.data.scalar;
            node.text_.assign(reinterpret_cast<const char *>(scalar.value), scalar.length);
            node.quoted_ = scalar.style != YAML_PLAIN_SCALAR_STYLE || !scalar.plain_implicit;
            node.kind_ = !node.quoted_ && plain_null(node.text_) ? Node::Kind::null : Node::Kind::scalar;
            if (node.is_null())
                node.text_.clear();
            return true;
        }
        case YAML_SEQUENCE_START_EVENT:
            node.kind_ = Node::Kind::list;
            return fill_list(node, depth);
        case YAML_MAPPING_START_EVENT:
            node.kind_ = Node::Kind::map;
            return fill_map(node, depth);
        case YAML_ALIAS_EVENT:
            return fail(node.line_, "aliases (*name) are not supported here; write the value out");
        default:
            return fail(node.line_, "cannot be read as YAML");
        }
    }

    bool fill_list(Node &node, std::size_t depth) {
        for (;;) {
            YamlEvent event;
            if (!next(event))
                return false;
            if (event.raw.type == YAML_SEQUENCE_END_EVENT)
                return true;
            Node item;
            item.key_ = fmt::format("{}[{}]", node.key_, node.children_.size());
            if (!fill(item, event, depth + 1))
                return false;
            node.children_.push_back(std::move(item));
        }
    }

    bool fill_map(Node &node, std::size_t depth) {
        std::unordered_map<std::string, std::size_t> lines;
        for (;;) {
            YamlEvent key;
            if (!next(key))
                return false;
            if (key.raw.type == YAML_MAPPING_END_EVENT)
                return true;
            if (key.raw.type == YAML_ALIAS_EVENT)
                return fail(key.line(), "aliases (*name) are not supported here; write the value out");
            if (key.raw.type != YAML_SCALAR_EVENT)
                return fail(key.line(), "a key must be a plain word");
            const auto &scalar = key.raw.data.scalar;
            constexpr std::size_t longest_key = 1024;
            if (scalar.length > longest_key)
                return fail(key.line(), fmt::format("a key is longer than {} bytes", longest_key));
            Node value;
            value.key_.assign(reinterpret_cast<const char *>(scalar.value), scalar.length);
            value.key_line_ = key.line();
            const auto [seen, fresh] = lines.emplace(value.key_, key.line());
            if (!fresh)
                return fail(key.line(), fmt::format("{}: given twice, first in line {}", quoted_for_error(value.key_),
                                                    seen->second));
            YamlEvent event;
            if (!next(event) || !fill(value, event, depth + 1))
                return false;
            node.children_.push_back(std::move(value));
        }
    }

    yaml_parser_t &parser_;
    std::shared_ptr<const std::string> file_;
    const Limits &limits_;
    std::size_t nodes_ = 0;
    std::string error_;
};

const Node *Node::find(std::string_view key) const {
    if (!is_map())
        return nullptr;
    for (const Node &child : children_)
        if (child.key_ == key)
            return &child;
    return nullptr;
}

Error Node::error(std::string_view what) const {
    if (key_.empty())
        return Error{fmt::format("{}:{}: {}", *file_, line_, what)};
    return Error{fmt::format("{}:{}: {}: {}", *file_, key_line_, quoted_for_error(key_), what)};
}

Result<std::string> Node::as_string() const {
    if (!is_scalar())
        return error(is_null() ? "a value is expected" : "a single value is expected, not a list or map");
    return text_;
}

// Wrong values are not repeated in errors: they could be a secret put under the wrong key.
Result<bool> Node::as_bool() const {
    if (is_scalar() && !quoted_ && text_ == "true")
        return true;
    if (is_scalar() && !quoted_ && text_ == "false")
        return false;
    return error("true or false is expected");
}

Result<std::int64_t> Node::as_int() const {
    std::int64_t value = 0;
    const char *begin = text_.data(), *end = begin + text_.size();
    if (begin != end && *begin == '+' && end - begin > 1 && begin[1] != '-')
        ++begin;
    const auto [rest, code] = std::from_chars(begin, end, value);
    if (!is_scalar() || quoted_ || code == std::errc::invalid_argument || rest != end)
        return error("a whole number is expected");
    if (code != std::errc())
        return error("the number is too large");
    return value;
}

Result<std::vector<std::string>> Node::as_strings() const {
    std::vector<std::string> out;
    if (is_null())
        return out;
    if (!is_list())
        return error("a list is expected");
    out.reserve(children_.size());
    for (const Node &item : children_) {
        auto text = item.as_string();
        if (!text)
            return Error{text.error()};
        out.push_back(std::move(*text));
    }
    return out;
}

Result<Node> parse(std::string_view text, const std::string &name, const Limits &limits) {
    if (text.size() > limits.bytes)
        return Error{fmt::format("{}: larger than {} bytes", name, limits.bytes)};
    Parser parser;
    if (!parser.ready)
        return Error{fmt::format("{}: no memory for a YAML parser", name)};
    yaml_parser_set_input_string(&parser.raw, reinterpret_cast<const unsigned char *>(text.data()), text.size());
    return Builder(parser.raw, name, limits).document();
}

Result<Node> parse_file(const std::string &path, const Limits &limits) {
    auto text = read_file(path, limits.bytes);
    if (!text)
        return Error{text.error()};
    return parse(*text, path, limits);
}

Result<std::string> read_file(const std::string &path, std::size_t most) {
    // O_NONBLOCK: a FIFO under the name must not stop the caller; the check below refuses it.
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return Error{fmt::format("{}: {}", path, std::strerror(errno))};
    std::string text;
    std::optional<Error> problem;
    struct stat st;
    if (fstat(fd, &st) != 0) {
        problem = Error{fmt::format("{}: {}", path, std::strerror(errno))};
    } else if (!S_ISREG(st.st_mode)) {
        problem = Error{fmt::format("{}: not a regular file", path)};
    } else {
        char chunk[16384];
        while (!problem) {
            const ssize_t n = read(fd, chunk, sizeof chunk);
            if (n == 0)
                break;
            if (n < 0 && errno != EINTR)
                problem = Error{fmt::format("{}: {}", path, std::strerror(errno))};
            else if (n > 0 && text.size() + static_cast<std::size_t>(n) > most)
                problem = Error{fmt::format("{}: larger than {} bytes", path, most)};
            else if (n > 0)
                text.append(chunk, static_cast<std::size_t>(n));
        }
    }
    close(fd);
    if (problem)
        return *problem;
    return text;
}

}  // namespace berth::yaml
