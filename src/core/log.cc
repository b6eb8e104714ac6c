#include "core/log.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace tern {
namespace {

constexpr std::string_view kEraseLine = "\r\x1b[K";
constexpr size_t kColumnsWhenUnknown = 80;

std::string_view level_name(Level level) {
  switch (level) {
    case Level::debug: return "debug";
    case Level::info: return "info ";
    case Level::warn: return "warn ";
    case Level::error: return "error";
  }
  return "?    ";
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// Control characters are escaped: a message is one line, and no text from outside can move the
// cursor of the terminal that shows it.
void append_escaped(std::string& line, char c) {
  switch (c) {
    case '\n': line += "\\n"; break;
    case '\r': line += "\\r"; break;
    case '\t': line += "\\t"; break;
    default:
      if (is_control(c)) {
        line += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
      } else {
        line += c;
      }
  }
}

void append_message(std::string& line, std::string_view message) {
  for (const char c : message) append_escaped(line, c);
}

void append_value(std::string& line, std::string_view value) {
  const auto is_special = [](char c) { return is_control(c) || c == ' ' || c == '"' || c == '='; };
  bool needs_quotes = value.empty();
  for (const char c : value) needs_quotes = needs_quotes || is_special(c);
  if (!needs_quotes) {
    line += value;
    return;
  }
  line += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') line += '\\';
    append_escaped(line, c);
  }
  line += '"';
}

size_t columns_of(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kColumnsWhenUnknown;
  return size.ws_col;
}

// Cuts between characters of UTF-8. The last column stays free: some terminals wrap once it is
// written, and a wrapped line cannot be erased.
std::string_view cut_to_columns(std::string_view line, size_t columns) {
  size_t used = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool starts_character = (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    if (starts_character && ++used >= columns) return line.substr(0, i);
  }
  return line;
}

// One fwrite a line, so that lines of several processes on one stream do not mix. What cannot be
// written is lost: there is nowhere left to say so.
void write_whole(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

Log::Log(Clock& clock, Level threshold, std::FILE* stream)
    : clock_(clock),
      threshold_(threshold),
      stream_(stream),
      is_terminal_(isatty(fileno(stream)) == 1) {}

void Log::debug(std::string_view folder, std::string_view message, Fields fields) {
  write(Level::debug, folder, message, fields);
}

void Log::info(std::string_view folder, std::string_view message, Fields fields) {
  write(Level::info, folder, message, fields);
}

void Log::warn(std::string_view folder, std::string_view message, Fields fields) {
  write(Level::warn, folder, message, fields);
}

void Log::error(std::string_view folder, std::string_view message, Fields fields) {
  write(Level::error, folder, message, fields);
}

void Log::add_sink(Sink sink) {
  MutexLock lock(mutex_);
  sinks_.push_back(std::move(sink));
}

void Log::set_status_line(std::string line) {
  if (!is_terminal_) return;
  std::string printable;
  append_message(printable, line);
  MutexLock lock(mutex_);
  if (printable == status_line_) return;
  status_line_ = std::move(printable);
  std::string text(kEraseLine);
  text += cut_to_columns(status_line_, columns_of(stream_));
  write_whole(stream_, text);
}

void Log::write(Level level, std::string_view folder, std::string_view message, Fields fields) {
  if (level == Level::debug && threshold_ != Level::debug) return;
  std::string line =
      fmt::format("{} {} {}: ", format_utc(clock_.unix_ms()), level_name(level), folder);
  append_message(line, message);
  for (const auto& [key, value] : fields) {
    line.append(" ").append(key).append("=");
    append_value(line, value);
  }
  line += '\n';

  MutexLock lock(mutex_);
  if (level >= threshold_) {
    if (status_line_.empty()) {
      write_whole(stream_, line);
    } else {
      std::string text(kEraseLine);
      text += line;
      text += cut_to_columns(status_line_, columns_of(stream_));
      write_whole(stream_, text);
    }
  }
  for (const Sink& sink : sinks_) sink(line);
}

}  // namespace tern
