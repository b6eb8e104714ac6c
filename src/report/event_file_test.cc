// The files we write for TensorBoard, judged by the bytes that TensorFlow's documentation fixes,
// and by TensorBoard's own reader.
#include "report/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "core/crc32c.h"
#include "storage/disk_store.h"
#include "storage/memory_store.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Prints every scalar that TensorBoard would show, as its float's bits, and whatever it says.
constexpr char kJudge[] = R"(
import logging, struct, sys
logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
for tag in sorted(events.Tags()["scalars"]):
    for point in events.Scalars(tag):
        bits = struct.pack(">f", point.value).hex()
        print(f"{tag} {point.step} {bits} {point.wall_time:.3f}")
)";

class EventFileTest : public testing::Test {
 protected:
  EventFileTest() : said_(std::tmpfile()), log_(clock_, Level::info, said_) {
    std::string name = testing::TempDir() + "/tern-events-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    store_ = DiskStore::open(folder_, door_).value();
  }
  ~EventFileTest() override {
    std::fclose(said_);
    fs::remove_all(folder_);
  }

  fs::path file(int64_t lease = 0) const {
    const std::string number = std::to_string(lease);
    return folder_ / "tensorboard" /
           ("events.out.tfevents." + std::string(10 - number.size(), '0') + number + ".000");
  }
  std::string warnings() {
    std::fflush(said_);
    std::rewind(said_);
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), said_));
    return text;
  }

  // What TensorBoard makes of the folder; empty where it is not here (the test is skipped then).
  std::string judged() {
    const char* judge = std::getenv("TERN_TEST_TENSORBOARD");
    if (judge == nullptr || !fs::is_directory(fs::path(judge) / "tensorboard")) return "";
    std::ofstream(folder_ / "judge.py") << kJudge;
    const std::string command = "cd '" + folder_.string() + "' && PYTHONPATH='" + judge +
                                "' python3 judge.py tensorboard 2>&1";
    std::FILE* pipe = popen(command.c_str(), "r");
    EXPECT_NE(pipe, nullptr);
    std::string said;
    char part[4096];
    while (const size_t size = std::fread(part, 1, sizeof part, pipe)) said.append(part, size);
    const int status = pclose(pipe);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << said;
    EXPECT_THAT(said, HasSubstr("DEBUG"));  // it says all that it has to say
    std::string points;
    for (size_t begin = 0; begin < said.size();) {
      const size_t end = std::min(said.find('\n', begin), said.size());
      const std::string line = said.substr(begin, end - begin);
      // What it opens, where a file ends, and that it forgets points, as it was told to. Anything
      // else is a complaint, and no test expects one.
      const bool is_talk = line.starts_with("DEBUG") || line.starts_with("INFO") ||
                           line.find("Purging expired events") != std::string::npos;
      if (!is_talk) points += line + "\n";
      begin = end + 1;
    }
    return points;
  }

  SimClock clock_;
  std::FILE* said_;
  Log log_;
  RealFileDoor door_;
  fs::path folder_;
  std::unique_ptr<DiskStore> store_;
};

#define NEEDS_TENSORBOARD()                                                                \
  if (std::getenv("TERN_TEST_TENSORBOARD") == nullptr ||                                   \
      std::string(std::getenv("TERN_TEST_TENSORBOARD")).empty()) {                         \
    GTEST_SKIP() << "no TensorBoard in TERN_TEST_TENSORBOARD (scripts/fetch-tensorboard)"; \
  }

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(EventFormat, AnEventIsEncodedAsProtobufSays) {
  // Field 1, eight bytes: 1.5 s. Field 2, a varint: 300. Field 7, a message: its field 1 is START.
  EXPECT_EQ(restart_record(1500, 300).substr(12, 16),
            Bytes("\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02\x3a\x02\x08\x01", 16));
  // Field 3, thirteen bytes of text.
  EXPECT_EQ(version_record(1500).substr(23, 15),
            "\x1a\x0d"
            "brain.Event:2");
}

TEST(EventFormat, EveryRecordHasItsLengthAndBothChecksums) {
  const Bytes record = scalars_record(1500, 7, {{"train/loss", 0.25}});
  const auto number = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, record.data() + at, sizeof value);
    return value;
  };
  const size_t size = number(0);
  ASSERT_EQ(record.size(), size + 16);
  const auto unmask = [](uint32_t masked) {
    const uint32_t rotated = masked - 0xA282EAD8U;
    return (rotated << 15) | (rotated >> 17);
  };
  EXPECT_EQ(unmask(number(8)), crc32c(BytesView(record).substr(0, 8)));
  EXPECT_EQ(unmask(number(12 + size)), crc32c(BytesView(record).substr(12, size)));
}

TEST_F(EventFileTest, TensorBoardReadsEveryScalarAsItWas) {
  NEEDS_TENSORBOARD();
  {
    EventFile events(*store_, clock_, log_, {});
    events.add(1, {{"train/loss", 0.1}, {"lr", 1e-30}});
    clock_.advance(std::chrono::milliseconds(1250));
    events.add(300, {{"train/loss", -std::numeric_limits<double>::infinity()}});
    events.add(int64_t{1} << 40, {{"train/loss", 3e38}, {"spans/compute", 0}});
    events.add(int64_t{1} << 40, {});
  }
  EXPECT_EQ(judged(),
            "lr 1 0da24260 1700000000.000\n"
            "spans/compute 1099511627776 00000000 1700000001.250\n"
            "train/loss 1 3dcccccd 1700000000.000\n"
            "train/loss 300 ff800000 1700000001.250\n"
            "train/loss 1099511627776 7f61b1e6 1700000001.250\n");
  EXPECT_EQ(warnings(), "");
}

TEST_F(EventFileTest, WhatAKilledProcessDidTooMuchIsForgotten) {
  NEEDS_TENSORBOARD();
  EventFile killed(*store_, clock_, log_, {.lease = 9});
  for (int step = 1; step <= 5; ++step) killed.add(step, {{"train/loss", 1}});
  killed.flush();
  // By the calendar the second machine is earlier; its name sorts behind all the same.
  clock_.jump_calendar(-std::chrono::hours(1));
  {
    EventFile resumed(*store_, clock_, log_, {.lease = 10, .first_step = 3});
    resumed.add(4, {{"train/loss", 2}});
  }
  EXPECT_EQ(judged(),
            "train/loss 1 3f800000 1700000000.000\n"
            "train/loss 2 3f800000 1700000000.000\n"
            "train/loss 3 3f800000 1700000000.000\n"
            "train/loss 4 40000000 1699996400.000\n");
}

TEST_F(EventFileTest, GoingBackInOneProcessForgetsTheSame) {
  NEEDS_TENSORBOARD();
  {
    EventFile events(*store_, clock_, log_, {});
    for (int step = 1; step <= 5; ++step) events.add(step, {{"train/loss", 1}});
    events.restart_after(1);
    events.add(2, {{"train/loss", 2}});
  }
  EXPECT_EQ(judged(),
            "train/loss 1 3f800000 1700000000.000\n"
            "train/loss 2 40000000 1700000000.000\n");
}

TEST_F(EventFileTest, ATailTornAnywhereCostsOnlyItself) {
  NEEDS_TENSORBOARD();
  size_t whole = 0;
  {
    EventFile events(*store_, clock_, log_, {.lease = 1});
    events.add(1, {{"train/loss", 1}});
    events.flush();
    whole = fs::file_size(file(1));
    events.add(2, {{"train/loss", 2}});
  }
  const std::string bytes = read(file(1));
  {
    EventFile resumed(*store_, clock_, log_, {.lease = 2, .first_step = 1});
  }
  // In the length, its checksum, the event, the last checksum.
  for (const size_t cut : {whole + 3, whole + 10, whole + 20, bytes.size() - 1}) {
    std::ofstream(file(1), std::ios::binary) << bytes.substr(0, cut);
    EXPECT_EQ(judged(), "train/loss 1 3f800000 1700000000.000\n") << cut;
  }
}

TEST_F(EventFileTest, PointsWaitForSomeSecondsAndAreThenWrittenByTheNextOne) {
  EventFile events(*store_, clock_, log_, {.flush_every = std::chrono::seconds(5)});
  const auto begun = fs::file_size(file());
  EXPECT_GT(begun, 0U);  // whoever looks finds a file
  events.add(1, {{"lr", 1}});
  EXPECT_EQ(fs::file_size(file()), begun);
  clock_.advance(std::chrono::seconds(5));
  events.add(2, {{"lr", 1}});
  const auto later = fs::file_size(file());
  EXPECT_GT(later, begun);
  events.add(3, {{"lr", 1}});
  EXPECT_EQ(fs::file_size(file()), later);
}

TEST_F(EventFileTest, HalfARecordThatAFullDiskLeftIsCutOff) {
  EventFile events(*store_, clock_, log_, {});
  const std::string begun = read(file());
  std::ofstream(file(), std::ios::binary | std::ios::app) << "half a rec";
  events.add(1, {{"lr", 1}});
  events.flush();
  EXPECT_EQ(read(file()), begun + scalars_record(clock_.unix_ms(), 1, {{"lr", 1}}));
}

TEST_F(EventFileTest, AFolderThatCannotBeWrittenIsWarnedOfOnce) {
  std::ofstream(folder_ / "tensorboard") << "a file in the way";
  {
    EventFile events(*store_, clock_, log_, {.waiting_bytes_max = 1000});
    for (int step = 1; step < 1000; ++step) {
      clock_.advance(std::chrono::seconds(1));
      events.add(step, {{"train/loss", 1}});
    }
  }
  const std::string said = warnings();
  EXPECT_THAT(said, HasSubstr("training goes on without them"));
  EXPECT_EQ(said.find("warn"), said.rfind("warn")) << said;
}

TEST_F(EventFileTest, PointsThatCouldWaitAreWrittenOnceTheDiskIsBack) {
  NEEDS_TENSORBOARD();
  std::ofstream(folder_ / "tensorboard") << "a file in the way";
  {
    EventFile events(*store_, clock_, log_, {});
    events.add(1, {{"lr", 1}});
    events.flush();
    fs::remove(folder_ / "tensorboard");
  }
  EXPECT_EQ(judged(), "lr 1 3f800000 1700000000.000\n");
}

TEST_F(EventFileTest, InABucketPartsAreWholeFilesOfBoundedSize) {
  NEEDS_TENSORBOARD();
  MemoryStore bucket;
  {
    EventFile events(bucket, clock_, log_, {.part_bytes_max = 300});
    for (int step = 1; step <= 20; ++step) {
      events.add(step, {{"lr", 1}});
      events.flush();
    }
  }
  const auto parts = bucket.list("tensorboard/");
  ASSERT_TRUE(parts.has_value());
  EXPECT_GT(parts->size(), 3U);
  std::string expected;
  for (int step = 1; step <= 20; ++step) {
    expected += "lr " + std::to_string(step) + " 3f800000 1700000000.000\n";
  }
  fs::create_directory(folder_ / "tensorboard");
  for (const ObjectInfo& part : *parts) {
    EXPECT_LE(part.size_bytes, 300);
    std::ofstream(folder_ / part.name, std::ios::binary) << *bucket.get(part.name);
  }
  EXPECT_EQ(judged(), expected);
}

}  // namespace
}  // namespace tern
