#include "agent/tool/watch.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "agent/tool/paint.h"

namespace berth::tool {

namespace {

// The other screen, without cursor. Lines are folded here and never by the terminal, which would not erase what was beside them.
constexpr std::string_view enter_screen = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr std::string_view leave_screen = "\x1b[?7h\x1b[?25h\x1b[?1049l";

// What the handlers need; written by the thread that draws, while its signals are blocked.
int screen = -1;  // the terminal that we have taken over
std::string last_picture;
pthread_t drawing;

// The kernel gives a signal to any thread (the log has one): it belongs to the one that draws.
bool passed_on(int signal) {
    if (pthread_equal(pthread_self(), drawing) != 0)
        return false;
    pthread_kill(drawing, signal);
    return true;
}

void put(std::string_view text) {
    while (!text.empty()) {
        const ssize_t n = write(screen, text.data(), text.size());
        if (n < 0 && errno != EINTR)
            return;
        text.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0);
    }
}

// libslurm and curl may be waiting for an answer: whoever ends the program is not kept until that has come.
void end(int signal) {
    if (passed_on(signal))
        return;
    if (screen >= 0) {
        put(leave_screen);
        put(last_picture);
    }
    _exit(0);
}

void pause_here(int signal) {
    if (passed_on(signal))
        return;
    if (screen >= 0)
        put(leave_screen);
    raise(SIGSTOP);
    if (screen >= 0)
        put(enter_screen);
}

void wake(int signal) { passed_on(signal); }  // nanosleep() returns

void take_signals() {
    drawing = pthread_self();
    struct sigaction action {};
    const auto on = [&action](int signal, void (*handler)(int)) {
        action.sa_handler = handler;
        sigaction(signal, &action, nullptr);
    };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        on(signal, end);
    on(SIGTSTP, pause_here);
    on(SIGWINCH, wake);
}

// While it lives, no handler runs.
class Undisturbed {
  public:
    Undisturbed() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before_);
    }
    ~Undisturbed() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    Undisturbed(const Undisturbed &) = delete;
    Undisturbed &operator=(const Undisturbed &) = delete;

  private:
    sigset_t before_{};
};

Window window_of(int terminal) {
    winsize size{};
    if (ioctl(terminal, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return {};
    return {size.ws_row, size.ws_col};
}

// How much of a line fits into one row: up to the last space, or as much as fits where there is none. Colours and the later bytes of a
// letter take no room.
std::size_t row_length(std::string_view line, std::size_t columns) {
    std::size_t used = 0, after_space = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\x1b') {
            i = std::min(line.find('m', i), line.size() - 1);
            continue;
        }
        if ((line[i] & 0xc0) == 0x80)
            continue;
        if (used++ == columns)
            return after_space > 0 ? after_space : i;
        if (line[i] == ' ')
            after_space = i + 1;
    }
    return line.size();
}

std::string draw(const Picture &picture) {
    char *text = nullptr;
    std::size_t size = 0;
    std::FILE *const file = open_memstream(&text, &size);
    picture(file, file);
    std::fclose(file);
    std::string out(text, size);
    std::free(text);
    return out;
}

std::string clock_words() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    localtime_r(&now, &parts);
    return fmt::format("{:02}:{:02}:{:02}", parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::string redraw(std::string_view title, std::string_view text, Window window) {
    constexpr std::string_view end_of_row = "\x1b[K\r\n";
    // One column is left free: a terminal erases the last letter of a row that is full.
    const std::size_t columns = std::max<std::size_t>(window.columns, 11) - 1;
    std::string out = fmt::format("\x1b[H{}{}{}", title.substr(0, columns), end_of_row, end_of_row);
    std::size_t room = std::max<std::size_t>(window.rows, 4) - 3;  // without the title, the empty row, and the one of the cursor
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        const std::size_t length = row_length(line, columns);
        const std::size_t taken = length < line.size() ? length : std::min(line.size() + 1, text.size());
        if (--room == 0 && taken < text.size()) {
            out += fmt::format("(there is more){}", end_of_row);
            break;
        }
        out += fmt::format("{}{}", line.substr(0, length), end_of_row);
        text.remove_prefix(taken);
    }
    return out + "\x1b[J";
}

int watch(const Picture &picture, std::chrono::milliseconds every, std::string_view title, bool lines, std::FILE *out) {
    take_signals();
    const bool in_place = on_terminal(out) && !lines && std::getenv("TERM") != nullptr;
    for (bool first = true;; first = false) {
        const std::string text = draw(picture);
        if (in_place) {
            const Undisturbed here;
            if (first) {
                screen = fileno(out);
                put(enter_screen);
            }
            last_picture = text;
            put(redraw(fmt::format("{}  {}", title, clock_words()), text, window_of(screen)));
        } else if (fmt::print(out, "{}{}", first || lines ? "" : "\n", text); std::fflush(out) != 0) {
            return 1;
        }
        const timespec pause{every.count() / 1000, every.count() % 1000 * 1000000};
        nanosleep(&pause, nullptr);
    }
}

}  // namespace berth::tool
