#include "proto/flat_json.h"

#include <charconv>
#include <limits>

namespace berth {

namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr int deepest = 8;
constexpr std::size_t usual_members = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Stands for itself in a text.
bool is_plain(char c) { return c >= ' ' && c != '"' && c != '\\' && static_cast<unsigned char>(c) < 0x80; }

// How many bytes the character at the front takes, 0 when it is none: no overlong form, no surrogate, nothing past U+10FFFF.
std::size_t utf8_length(std::string_view text) {
    const auto at = [text](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
    const auto follows = [at](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) { return at(i) >= low && at(i) <= high; };
    const unsigned first = at(0);
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef)
        return follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf) && follows(2) ? 3 : 0;
    if (first >= 0xf0 && first <= 0xf4)
        return follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf) && follows(2) && follows(3) ? 4 : 0;
    return 0;
}

void append_utf8(std::string &out, std::uint32_t c) {
    const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (c < 0x80)
        return put(c);
    if (c < 0x800) {
        put(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            put(0xe0 | c >> 12);
        } else {
            put(0xf0 | c >> 18);
            put(0x80 | (c >> 12 & 0x3f));
        }
        put(0x80 | (c >> 6 & 0x3f));
    }
    put(0x80 | (c & 0x3f));
}

}  // namespace

// Goes through the text once; whatever returns false has left at_ where it stumbled.
class JsonReader {
  public:
    explicit JsonReader(std::string_view json) : json_(json) {}
    std::size_t at() const { return at_; }

    bool whole(FlatJson &out) {
        skip_blanks();
        if (!object(&out, 1))
            return false;
        skip_blanks();
        return at_ == json_.size();
    }

  private:
    using Member = FlatJson::Member;
    using Kind = FlatJson::Kind;

    char front() const { return at_ < json_.size() ? json_[at_] : '\0'; }
    bool take(char c) {
        if (front() != c)
            return false;
        ++at_;
        return true;
    }
    bool take_word(std::string_view word) {
        if (!json_.substr(at_).starts_with(word))
            return false;
        at_ += word.size();
        return true;
    }
    void skip_blanks() {
        while (front() == ' ' || front() == '\t' || front() == '\n' || front() == '\r')
            ++at_;
    }

    // The members of the outermost object go to `out`; of those inside, only the keys are kept, to find a second one.
    bool object(FlatJson *out, int depth) {
        if (depth > deepest || !take('{'))
            return false;
        FlatJson inside;
        FlatJson &here = out != nullptr ? *out : inside;
        here.members_.reserve(usual_members);
        skip_blanks();
        if (take('}'))
            return true;
        do {
            skip_blanks();
            Member member;
            const std::size_t began = at_;
            if (!text(member.key))
                return false;
            if (here.has(member.key)) {
                at_ = began;
                return false;
            }
            skip_blanks();
            if (!take(':') || !value(member, depth))
                return false;
            here.members_.push_back(std::move(member));
            skip_blanks();
        } while (take(','));
        return take('}');
    }

    bool array(int depth) {
        if (depth > deepest || !take('['))
            return false;
        skip_blanks();
        if (take(']'))
            return true;
        do {
            Member ignored;
            if (!value(ignored, depth))
                return false;
            skip_blanks();
        } while (take(','));
        return take(']');
    }

    bool value(Member &member, int depth) {
        skip_blanks();
        switch (front()) {
        case '"': member.kind = Kind::text; return text(member.text);
        case '{': return object(nullptr, depth + 1);
        case '[': return array(depth + 1);
        case 't': member.kind = Kind::truth; member.number = 1; return take_word("true");
        case 'f': member.kind = Kind::truth; return take_word("false");
        case 'n': return take_word("null");
        default: return number(member);
        }
    }

    bool digits() {
        const std::size_t began = at_;
        while (is_digit(front()))
            ++at_;
        return at_ > began;
    }

    bool number(Member &member) {
        const std::size_t began = at_;
        const bool negative = take('-');
        if (!take('0') && !digits())
            return false;
        bool whole = true;
        if (take('.')) {
            whole = false;
            if (!digits())
                return false;
        }
        if (take('e') || take('E')) {
            whole = false;
            if (!take('+'))
                take('-');
            if (!digits())
                return false;
        }
        if (whole && !negative) {
            const auto [end, error] = std::from_chars(json_.data() + began, json_.data() + at_, member.number);
            if (error == std::errc() && member.number <= largest)
                member.kind = Kind::number;
        }
        return true;
    }

    bool hex4(std::uint32_t &out) {
        if (json_.size() - at_ < 4)
            return false;
        const char *const begin = json_.data() + at_;
        const auto [end, error] = std::from_chars(begin, begin + 4, out, 16);
        if (error != std::errc() || end != begin + 4)
            return false;
        at_ += 4;
        return true;
    }

    bool escape(std::string &out) {
        static constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
        if (take('u')) {
            std::uint32_t c = 0, low = 0;
            if (!hex4(c) || c == 0 || (c >= 0xdc00 && c <= 0xdfff))
                return false;
            if (c >= 0xd800 && c <= 0xdbff) {
                if (!take('\\') || !take('u') || !hex4(low) || low < 0xdc00 || low > 0xdfff)
                    return false;
                c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            }
            append_utf8(out, c);
            return true;
        }
        const std::size_t which = at_ < json_.size() ? letters.find(json_[at_]) : std::string_view::npos;
        if (which == std::string_view::npos)
            return false;
        ++at_;
        out.push_back(meant[which]);
        return true;
    }

    bool text(std::string &out) {
        if (!take('"'))
            return false;
        for (;;) {
            const std::size_t began = at_;
            while (at_ < json_.size() && is_plain(json_[at_]))
                ++at_;
            out.append(json_, began, at_ - began);
            if (at_ == json_.size())
                return false;
            const char c = json_[at_];
            if (c == '"') {
                ++at_;
                return true;
            }
            if (c == '\\') {
                ++at_;
                if (!escape(out))
                    return false;
                continue;
            }
            const std::size_t length = utf8_length(json_.substr(at_));
            if (length == 0 || static_cast<unsigned char>(c) < ' ')
                return false;
            out.append(json_, at_, length);
            at_ += length;
        }
    }

    const std::string_view json_;
    std::size_t at_ = 0;
};

std::optional<FlatJson> FlatJson::parse(std::string_view json, std::size_t &error_at) {
    JsonReader reader(json);
    FlatJson out;
    if (reader.whole(out))
        return out;
    error_at = reader.at();
    return std::nullopt;
}

const FlatJson::Member *FlatJson::find(std::string_view key) const {
    for (const Member &member : members_)
        if (member.key == key)
            return &member;
    return nullptr;
}

std::optional<std::string_view> FlatJson::text(std::string_view key) const {
    const Member *member = find(key);
    return member != nullptr && member->kind == Kind::text ? std::optional<std::string_view>(member->text) : std::nullopt;
}

std::optional<std::uint64_t> FlatJson::number(std::string_view key) const {
    const Member *member = find(key);
    return member != nullptr && member->kind == Kind::number ? std::optional(member->number) : std::nullopt;
}

std::optional<bool> FlatJson::truth(std::string_view key) const {
    const Member *member = find(key);
    return member != nullptr && member->kind == Kind::truth ? std::optional(member->number == 1) : std::nullopt;
}

// Keys are this program's own words, which need no care.
void FlatJsonWriter::key(std::string_view name) {
    if (out_.size() > 1)
        out_.push_back(',');
    out_.append("\"").append(name).append("\":");
}

FlatJsonWriter &FlatJsonWriter::text(std::string_view name, std::string_view value) {
    static constexpr char hex[] = "0123456789abcdef";
    static constexpr std::string_view short_ones = "\b\f\n\r\t\"\\", letters = "bfnrt\"\\";
    key(name);
    out_.push_back('"');
    while (!value.empty()) {
        const std::size_t length = utf8_length(value);
        good_ = good_ && length > 0 && value.front() != '\0';
        if (length == 0)
            break;
        if (const std::size_t which = short_ones.find(value.front()); which != std::string_view::npos)
            out_.append({'\\', letters[which]});
        else if (const auto c = static_cast<unsigned char>(value.front()); c < ' ')
            out_.append({'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]});
        else
            out_.append(value.substr(0, length));
        value.remove_prefix(length);
    }
    out_.push_back('"');
    return *this;
}

FlatJsonWriter &FlatJsonWriter::number(std::string_view name, std::uint64_t value) {
    good_ = good_ && value <= largest;
    key(name);
    out_.append(std::to_string(value));
    return *this;
}

FlatJsonWriter &FlatJsonWriter::truth(std::string_view name, bool value) {
    key(name);
    out_.append(value ? "true" : "false");
    return *this;
}

std::string FlatJsonWriter::finish() {
    out_.push_back('}');
    return good_ ? std::move(out_) : std::string();
}

}  // namespace berth
