#include "agent/slurm/libslurm_log.h"

#include <fcntl.h>

#include <cstdio>
#include <string_view>

#include "agent/log.h"
#include "proto/slurm_api.h"

namespace berth::slurm {

namespace {

thread_local std::string *collected = nullptr;

// "[2026-11-16T11:40:12.345] error: words" -> "words"
std::string_view words_of(std::string_view line) {
    if (line.starts_with('['))
        if (const std::size_t end = line.find("] "); end != std::string_view::npos)
            line.remove_prefix(end + 2);
    if (line.starts_with("error: "))
        line.remove_prefix(7);
    return line;
}

template <class Each>
void each_line(std::string_view text, Each each) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (const std::string_view words = words_of(text.substr(0, end)); !words.empty())
            each(words);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

// libslurm writes and flushes each message in the thread that has it to say.
ssize_t heard(void *, const char *data, std::size_t size) {
    if (collected != nullptr)
        collected->append(data, size);
    else
        each_line({data, size}, [](std::string_view words) { log::debug("libslurm: {}", words); });
    return static_cast<ssize_t>(size);
}

}  // namespace

void take_over_log() {
    cookie_io_functions_t functions{};
    functions.write = heard;
    FILE *const stream = fopencookie(nullptr, "w", functions);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (stream == nullptr || nowhere < 0)
        return;
    // libslurm writes to no stream without a file descriptor that poll() calls writable, although it writes through the stream alone.
    stream->_fileno = nowhere;
    slurm_api::log_errors_to(stream);
}

Sayings::Sayings() { collected = &raw_; }

Sayings::~Sayings() { collected = nullptr; }

std::string Sayings::text() const {
    std::string out;
    each_line(raw_, [&out](std::string_view words) { out.append(out.empty() ? "" : "; ").append(words); });
    return out;
}

}  // namespace berth::slurm
