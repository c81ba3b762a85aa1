// yaml: a YAML text as a tree of maps, lists and scalars that know their file, line and key, so that whoever reads
// them can say where a mistake is. Strict where files are trusted: one document, no aliases (so a small file cannot
// unfold into a large tree), no duplicate keys, scalar keys only, bounded size and depth.
// Values only; a tree that nobody changes may be read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agent/result.h"

namespace berth::yaml {

struct Limits {
    std::size_t bytes = 4 << 20;
    std::size_t nodes = 200'000;
    std::size_t depth = 32;
};

class Node {
  public:
    enum class Kind : std::uint8_t { null, scalar, list, map };

    Kind kind() const { return kind_; }
    bool is_null() const { return kind_ == Kind::null; }  // absent value, "~" or "null", unquoted
    bool is_scalar() const { return kind_ == Kind::scalar; }
    bool is_list() const { return kind_ == Kind::list; }
    bool is_map() const { return kind_ == Kind::map; }

    std::size_t line() const { return line_; }       // of the value, counted from 1
    const std::string &key() const { return key_; }  // its key in a map, "name[2]" in a list, empty at the root
    std::size_t key_line() const { return key_line_; }
    const std::string &file() const { return *file_; }

    // A scalar's text as written, without quotes; empty for every other kind.
    const std::string &text() const { return text_; }
    bool quoted() const { return quoted_; }

    // The values of a map (in file order, each with its key()) or the items of a list; empty for every other kind.
    const std::vector<Node> &children() const { return children_; }
    // A map's value, or nullptr: also when this is no map. An explicit null is returned as a node.
    const Node *find(std::string_view key) const;

    // Conversions; the error names file, line and key, and what was expected. as_string takes numbers and booleans as
    // their text; as_bool takes true and false only; as_int takes decimal digits with a sign.
    Result<std::string> as_string() const;
    Result<bool> as_bool() const;
    Result<std::int64_t> as_int() const;
    Result<std::vector<std::string>> as_strings() const;  // a list of scalars; null is an empty list

    // "file:line: key: what", for the caller's own findings.
    Error error(std::string_view what) const;

  private:
    friend class Builder;

    Kind kind_ = Kind::null;
    bool quoted_ = false;
    std::size_t line_ = 0, key_line_ = 0;
    std::string key_, text_;
    std::vector<Node> children_;
    std::shared_ptr<const std::string> file_;
};

// `name` stands for the file in errors. An empty text is a null node.
Result<Node> parse(std::string_view text, const std::string &name, const Limits &limits = {});
Result<Node> parse_file(const std::string &path, const Limits &limits = {});

// The whole of a regular file of at most `most` bytes. Errors name the path and the reason.
Result<std::string> read_file(const std::string &path, std::size_t most);

}  // namespace berth::yaml
