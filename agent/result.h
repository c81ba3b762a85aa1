// Result<T>: a value or an error sentence. The agent's functions that can fail return it; nothing throws on purpose.
// An error's text says what was tried, on what, and what came back; whoever handles it says what happens next.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace berth {

struct Error {
    std::string text;
};

template <class T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    bool ok() const { return state_.index() == 0; }
    explicit operator bool() const { return ok(); }
    T &operator*() { return std::get<0>(state_); }
    const T &operator*() const { return std::get<0>(state_); }
    T *operator->() { return &std::get<0>(state_); }
    const T *operator->() const { return &std::get<0>(state_); }
    const std::string &error() const { return std::get<1>(state_).text; }

  private:
    std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {}

    bool ok() const { return !error_; }
    explicit operator bool() const { return ok(); }
    const std::string &error() const { return error_->text; }

  private:
    std::optional<Error> error_;
};

}  // namespace berth
