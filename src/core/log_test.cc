#include "core/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/test_terminal.h"

namespace tern {
namespace {

// 2026-03-01T12:34:56.789Z
constexpr int64_t kUnixMs = 1'772'368'496'789;
constexpr char kTime[] = "2026-03-01T12:34:56.789Z ";

// A stream that is no terminal, and what was written to it.
class PlainStream {
 public:
  PlainStream() : file_(open_memstream(&text_, &size_)) {}
  ~PlainStream() {
    std::fclose(file_);
    std::free(text_);
  }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  std::FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return std::string(text_, size_);
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

TEST(Log, ALineHasTimeLevelFolderMessageAndPairs) {
  SimClock clock(kUnixMs);
  PlainStream stream;
  Log log(clock, Level::debug, stream.file());
  log.info("train", "resumed", {{"step", "1200"}, {"checkpoint", "17"}});
  log.warn("storage", "slow");
  log.error("cli", "gone");
  log.debug("loader", "seek");
  EXPECT_EQ(stream.text(), std::string(kTime) + "info  train: resumed step=1200 checkpoint=17\n" +
                               kTime + "warn  storage: slow\n" + kTime + "error cli: gone\n" +
                               kTime + "debug loader: seek\n");
}

TEST(Log, ValuesThatWouldConfuseAreQuoted) {
  SimClock clock(kUnixMs);
  PlainStream stream;
  Log log(clock, Level::info, stream.file());
  log.info("a", "m",
           {{"space", "two words"},
            {"quote", "say \"hi\""},
            {"equals", "a=b"},
            {"backslash", "C:\\x y"},
            {"plain", "C:\\x"},
            {"newline", "a\nb"},
            {"escape", "\x1b[2J\x7f"},
            {"empty", ""},
            {"utf8", "Seeschwalbe-ä"}});
  EXPECT_EQ(stream.text(), std::string(kTime) +
                               R"(info  a: m space="two words" quote="say \"hi\"" equals="a=b" )"
                               R"(backslash="C:\\x y" plain=C:\x newline="a\nb" )"
                               R"(escape="\x1b[2J\x7f" empty="" utf8=Seeschwalbe-ä)"
                               "\n");
}

TEST(Log, OneCallIsOneLine) {
  SimClock clock(kUnixMs);
  PlainStream stream;
  Log log(clock, Level::info, stream.file());
  log.info("a", "first\nsecond\r\tthird\x1b[31m");
  EXPECT_EQ(stream.text(), std::string(kTime) + "info  a: first\\nsecond\\r\\tthird\\x1b[31m\n");
}

TEST(Log, TheThresholdIsForTheStreamOnlyDebugAlsoForSinks) {
  SimClock clock(kUnixMs);
  PlainStream stream;
  Log log(clock, Level::error, stream.file());
  std::string copied;
  log.info("a", "before the sink");
  log.add_sink([&copied](std::string_view line) { copied += line; });
  log.debug("a", "d");
  log.info("a", "i");
  log.warn("a", "w");
  log.error("a", "e");
  EXPECT_EQ(stream.text(), std::string(kTime) + "error a: e\n");
  EXPECT_EQ(copied,
            std::string(kTime) + "info  a: i\n" + kTime + "warn  a: w\n" + kTime + "error a: e\n");
}

TEST(Log, EverySinkGetsDebugLinesWhenTheyAreWanted) {
  SimClock clock(kUnixMs);
  PlainStream stream;
  Log log(clock, Level::debug, stream.file());
  int lines = 0;
  log.add_sink([&lines](std::string_view) { ++lines; });
  log.add_sink([&lines](std::string_view) { lines += 10; });
  log.debug("a", "d");
  EXPECT_EQ(lines, 11);
}

TEST(Log, AStatusLineIsNothingWithoutATerminal) {
  SimClock clock(kUnixMs);
  PlainStream stream;
  Log log(clock, Level::info, stream.file());
  EXPECT_FALSE(log.is_terminal());
  log.set_status_line("37 %");
  log.info("a", "m");
  EXPECT_EQ(stream.text(), std::string(kTime) + "info  a: m\n");
}

TEST(Log, LinesArePrintedAboveTheStatusLine) {
  SimClock clock(kUnixMs);
  TestTerminal terminal(80);
  if (!terminal.is_open()) GTEST_SKIP() << "no pseudo-terminals here: is /dev/pts mounted?";
  Log log(clock, Level::info, terminal.file());
  ASSERT_TRUE(log.is_terminal());
  std::string copied;
  log.add_sink([&copied](std::string_view line) { copied += line; });

  log.set_status_line("37 %");
  EXPECT_EQ(terminal.take(), "\r\x1b[K37 %");
  log.info("a", "m");  // the terminal turns \n into \r\n
  EXPECT_EQ(terminal.take(), "\r\x1b[K" + std::string(kTime) + "info  a: m\r\n37 %");
  EXPECT_EQ(copied, std::string(kTime) + "info  a: m\n");
  log.debug("a", "not shown");
  EXPECT_EQ(terminal.take(), "");
  log.set_status_line("38 %");
  EXPECT_EQ(terminal.take(), "\r\x1b[K38 %");
  log.set_status_line("");
  EXPECT_EQ(terminal.take(), "\r\x1b[K");
  log.info("a", "m");
  EXPECT_EQ(terminal.take(), std::string(kTime) + "info  a: m\r\n");
}

TEST(Log, TheStatusLineNeverWraps) {
  SimClock clock(kUnixMs);
  TestTerminal terminal(10);
  if (!terminal.is_open()) GTEST_SKIP() << "no pseudo-terminals here: is /dev/pts mounted?";
  Log log(clock, Level::info, terminal.file());
  log.set_status_line("123456789012345");
  EXPECT_EQ(terminal.take(), "\r\x1b[K123456789");
  log.set_status_line("ääääääääääää");
  EXPECT_EQ(terminal.take(), "\r\x1b[Käääääääää") << "cut inside a letter";
  log.set_status_line("123456789");
  EXPECT_EQ(terminal.take(), "\r\x1b[K123456789");
  log.set_status_line("a\nb\x1b[2J");
  EXPECT_EQ(terminal.take(), "\r\x1b[Ka\\nb\\x1b[");
}

TEST(Log, LinesOfManyThreadsStayWhole) {
  SimClock clock(kUnixMs);
  PlainStream stream;
  Log log(clock, Level::info, stream.file());
  std::vector<std::string> copied;
  log.add_sink([&copied](std::string_view line) { copied.emplace_back(line); });
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        const std::string filler(100, static_cast<char>('a' + t));
        for (int i = 0; i < 200; ++i) log.info("a", filler);
      });
    }
  }
  EXPECT_EQ(copied.size(), 800u);
  std::string together;
  for (const std::string& line : copied) {
    together += line;
    const std::string message = line.substr(line.size() - 101, 100);
    EXPECT_EQ(message, std::string(100, message[0]));
  }
  EXPECT_EQ(stream.text(), together) << "the stream and the sinks tell it in the same order";
}

}  // namespace
}  // namespace tern
