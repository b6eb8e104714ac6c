// A pseudo-terminal for tests of what is drawn on a terminal.
#pragma once

#include <pty.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace tern {

// Owns both ends of a pseudo-terminal of a given width. Owned by one test.
class TestTerminal {
 public:
  explicit TestTerminal(unsigned short columns) {
    winsize size{};
    size.ws_row = 24;
    size.ws_col = columns;
    int writing = -1;
    if (openpty(&reading_, &writing, nullptr, nullptr, &size) == 0) file_ = fdopen(writing, "w");
  }
  ~TestTerminal() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    close(reading_);
  }
  TestTerminal(const TestTerminal&) = delete;
  TestTerminal& operator=(const TestTerminal&) = delete;

  // False where the system gives no pseudo-terminals (a container without /dev/pts).
  bool is_open() const { return file_ != nullptr; }
  std::FILE* file() { return file_; }

  // All that was written since the last call, as a terminal receives it (\n became \r\n). The
  // kernel hands bytes over in its own time, so a mark is sent after them and waited for.
  std::string take() {
    constexpr char kMark = '\x1e';
    std::fputc(kMark, file_);
    std::fflush(file_);
    std::string all;
    for (char c = 0; ::read(reading_, &c, 1) == 1 && c != kMark;) all += c;
    return all;
  }

 private:
  int reading_ = -1;
  std::FILE* file_ = nullptr;
};

}  // namespace tern
