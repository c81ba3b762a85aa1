#include "agent/kube/frames.h"

#include <cstring>

namespace berth::kube {

namespace {

constexpr std::size_t kept_capacity = 256 << 10;  // an unusually long line must not hold its memory for ever

}  // namespace

void Frames::append(std::string_view chunk) {
    if (overlong_)
        return;
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        scanned_ -= begin_;
        end_ -= begin_;
        begin_ = 0;
    }
    const std::size_t need = end_ + chunk.size() + padding;
    if (buffer_.size() < need) {
        buffer_.resize(std::max(need, buffer_.size() * 2));
    } else if (buffer_.size() > kept_capacity && need < kept_capacity / 2) {
        buffer_.resize(kept_capacity / 2);
        buffer_.shrink_to_fit();
    }
    std::memcpy(buffer_.data() + end_, chunk.data(), chunk.size());
    end_ += chunk.size();
}

std::optional<std::string_view> Frames::next() {
    while (!overlong_) {
        const char *from = buffer_.data() + scanned_;
        const auto *newline =
            scanned_ < end_ ? static_cast<const char *>(std::memchr(from, '\n', end_ - scanned_)) : nullptr;
        if (!newline) {
            scanned_ = end_;
            overlong_ = end_ - begin_ > longest_;
            return std::nullopt;
        }
        const std::size_t at = static_cast<std::size_t>(newline - buffer_.data());
        std::string_view line(buffer_.data() + begin_, at - begin_);
        begin_ = scanned_ = at + 1;
        if (line.size() > longest_) {
            overlong_ = true;
            break;
        }
        if (!line.empty() && line.back() == '\r')
            line.remove_suffix(1);
        if (!line.empty())
            return line;
    }
    return std::nullopt;
}

void Frames::clear() {
    begin_ = scanned_ = end_ = 0;
    overlong_ = false;
    if (buffer_.size() > kept_capacity)
        std::string().swap(buffer_);
}

}  // namespace berth::kube
