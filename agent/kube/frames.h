// Frames: cuts a stream of bytes into lines, as a watch sends its events. Each byte is looked at once: scanning goes on
// where it stopped, however small the chunks. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace berth::kube {

class Frames {
  public:
    // Bytes that may be read past the end of a line that next() returned, as the JSON parser does.
    static constexpr std::size_t padding = 64;

    // A line of more than `longest` bytes makes the stream useless: see overlong().
    explicit Frames(std::size_t longest) : longest_(longest) {}

    void append(std::string_view chunk);
    // The next complete line without its newline, empty lines skipped; good until the next append() or clear().
    std::optional<std::string_view> next();
    // A line outgrew its bound. Nothing more comes until clear().
    bool overlong() const { return overlong_; }
    // Forgets what is buffered, for a new stream.
    void clear();

  private:
    const std::size_t longest_;
    std::string buffer_;       // holds end_ bytes and then at least `padding` more
    std::size_t begin_ = 0;    // of the first line not yet returned
    std::size_t scanned_ = 0;  // no newline in [begin_, scanned_)
    std::size_t end_ = 0;
    bool overlong_ = false;
};

}  // namespace berth::kube
