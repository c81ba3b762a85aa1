#include "agent/log.h"

#include <spdlog/async.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace berth::log {

namespace {

constexpr std::size_t queue_lines = 1024, recent_lines = 120;

std::shared_ptr<spdlog::details::thread_pool> writer;
std::shared_ptr<spdlog::async_logger> logger;
std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> kept;  // filled by the writer's thread

spdlog::level::level_enum to_spdlog(Level level) {
    switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
    }
    return spdlog::level::info;
}

const char *journal_priority(Level level) {
    switch (level) {
    case Level::debug: return "<7>";
    case Level::info: return "<6>";
    case Level::warning: return "<4>";
    case Level::error: return "<3>";
    }
    return "<6>";
}

bool under_journal = false;

}  // namespace

void start(Level lowest, std::string_view name) {
    under_journal = std::getenv("JOURNAL_STREAM") != nullptr;
    writer = std::make_shared<spdlog::details::thread_pool>(queue_lines, 1);
    kept = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(recent_lines);
    kept->set_level(spdlog::level::info);
    const std::vector<spdlog::sink_ptr> sinks{std::make_shared<spdlog::sinks::stderr_sink_mt>(), kept};
    logger = std::make_shared<spdlog::async_logger>(std::string(name), sinks.begin(), sinks.end(), writer,
                                                    spdlog::async_overflow_policy::overrun_oldest);
    logger->set_level(to_spdlog(lowest));
    logger->set_pattern(under_journal ? "%v" : "%Y-%m-%dT%H:%M:%S.%e %n %l: %v");
    logger->flush_on(spdlog::level::debug);
}

void stop() {
    writer.reset();  // writes what is queued and joins its thread, so that nobody uses the sinks when they go
    logger.reset();
    kept.reset();
}

bool enabled(Level level) { return logger ? logger->should_log(to_spdlog(level)) : level >= Level::info; }

void write(Level level, std::string_view text) {
    if (!logger) {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
        return;
    }
    if (under_journal)
        logger->log(to_spdlog(level), "{}{}", journal_priority(level), text);
    else
        logger->log(to_spdlog(level), text);
}

std::vector<Line> recent() {
    std::vector<Line> out;
    if (!kept)
        return out;
    for (const auto &message : kept->last_raw()) {
        std::string_view text(message.payload.data(), message.payload.size());
        if (under_journal && text.starts_with('<'))
            text.remove_prefix(3);
        const Level level = message.level >= spdlog::level::err    ? Level::error
                            : message.level >= spdlog::level::warn ? Level::warning
                                                                   : Level::info;
        out.push_back({message.time, level, std::string(text)});
    }
    return out;
}

std::size_t dropped() { return writer ? writer->overrun_counter() : 0; }

}  // namespace berth::log
