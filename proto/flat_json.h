// FlatJson: the JSON of a ticket, read and written: one object whose members are texts, whole numbers and truths. Our own, because every
// prolog, epilog, sbatch and srun would have to load a library for it. Members of other kinds are read, so that what is refused is refused
// wherever it stands, and then are `other`. Pure, safe in any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

class FlatJson {
  public:
    // Nothing, with the offset of the byte that cannot be, for all but one object of RFC 8259 alone in the text. Refused too: a key that
    // stands twice, text that is not UTF-8 or holds a NUL, and objects and lists more than 8 deep.
    static std::optional<FlatJson> parse(std::string_view json, std::size_t &error_at);

    bool has(std::string_view key) const { return find(key) != nullptr; }
    // What the member is; nothing when it is absent or of another kind. A number is whole, written without point or exponent, and from 0 to 2^63 - 1.
    std::optional<std::string_view> text(std::string_view key) const;
    std::optional<std::uint64_t> number(std::string_view key) const;
    std::optional<bool> truth(std::string_view key) const;

  private:
    friend class JsonReader;
    enum class Kind { text, number, truth, other };
    struct Member {
        std::string key;
        Kind kind = Kind::other;
        std::string text;
        std::uint64_t number = 0;  // 0 and 1 for a truth
    };
    const Member *find(std::string_view key) const;
    std::vector<Member> members_;
};

// Writes such an object, compact, with its members in the order of the calls.
class FlatJsonWriter {
  public:
    FlatJsonWriter &text(std::string_view key, std::string_view value);
    FlatJsonWriter &number(std::string_view key, std::uint64_t value);
    FlatJsonWriter &truth(std::string_view key, bool value);
    // Empty when a text was not UTF-8 or held a NUL, or a number was over 2^63 - 1.
    std::string finish();

  private:
    void key(std::string_view name);
    std::string out_ = "{";
    bool good_ = true;
};

}  // namespace berth
