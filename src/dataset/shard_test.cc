#include "dataset/shard.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "core/crc32c.h"
#include "dataset/shard_format.h"
#include "dataset/test_folder.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Bytes kJpeg = "not really a JPEG";
const Bytes kRaw = "123456";

ShardRecord jpeg_record() {
  return {.name = "bee/1.jpg",
          .class_name = "bee",
          .split = Split::train,
          .info = {ImageFormat::jpeg, {20, 10}, 3, 6, true}};
}
ShardRecord bad_record() {
  return {.name = "bee/2.jpg", .class_name = "bee", .bad_cause = "it is empty"};
}
ShardRecord raw_record() {
  return {.name = "ant/3",
          .class_name = "ant",
          .split = Split::test,
          .info = {ImageFormat::raw, {2, 3}, 1, 1, false}};
}

Bytes read_whole(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string write_small(const TestFolder& folder) {
  const std::string path = folder.path() + "/small.shard";
  auto writer = ShardWriter::create(path);
  EXPECT_TRUE(writer) << writer.error().to_string();
  EXPECT_TRUE((*writer)->add(jpeg_record(), kJpeg));
  EXPECT_TRUE((*writer)->add(bad_record(), ""));
  EXPECT_TRUE((*writer)->add(raw_record(), kRaw));
  EXPECT_EQ((*writer)->samples(), 3);
  const Status finished = (*writer)->finish();
  EXPECT_TRUE(finished) << finished.error().to_string();
  return path;
}

// What verify_shard() says: "NAME: what" of each damaged record, then its error.
std::vector<std::string> verify(const std::string& path) {
  std::vector<std::string> damage;
  const Status status = verify_shard(path, [&](const ShardRecord& record, const std::string& what) {
    damage.push_back(record.name + ": " + what);
  });
  if (!status) damage.push_back(status.error().to_string());
  return damage;
}

Bytes little(uint64_t value, int size) {
  Bytes bytes;
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
  return bytes;
}

// The bytes of docs/format_shard.md, put together by hand.
TEST(Shard, ItsBytesAreThoseOfThePage) {
  const TestFolder folder;
  Bytes expected = "TERNSHD1" + little(1, 4) + little(0, 4);
  expected += "RCRD" + little(17, 4) + little(crc32c(kJpeg), 4) + little(9, 4);
  expected += "bee/1.jpg" + kJpeg + Bytes(6, '\0');
  ASSERT_EQ(expected.size(), 64U);
  expected += "RCRD" + little(6, 4) + little(crc32c(kRaw), 4) + little(5, 4);
  expected += "ant/3" + kRaw + Bytes(5, '\0');
  ASSERT_EQ(expected.size(), 96U);

  Bytes index = little(3, 8);
  index += little(41, 8) + little(17, 4) + little(crc32c(kJpeg), 4) + little(20, 2) + little(10, 2);
  index += Bytes("\x01\x03\x06\x01", 4) + little(9, 2) + little(3, 2) + little(0, 2) + little(0, 2);
  index += "bee/1.jpgbee";
  index += little(0, 8) + little(0, 4) + little(0, 4) + little(0, 2) + little(0, 2);
  index +=
      Bytes("\x00\x03\x01\x00", 4) + little(9, 2) + little(3, 2) + little(11, 2) + little(0, 2);
  index += "bee/2.jpgbeeit is empty";
  index += little(85, 8) + little(6, 4) + little(crc32c(kRaw), 4) + little(2, 2) + little(3, 2);
  index += Bytes("\x00\x01\x01\x02", 4) + little(5, 2) + little(3, 2) + little(0, 2) + little(0, 2);
  index += "ant/3ant";

  expected += index + little(96, 8) + little(index.size(), 8) + little(crc32c(index), 4);
  expected += little(3, 4) + "TERNEND1";
  EXPECT_EQ(read_whole(write_small(folder)), expected);
}

TEST(Shard, GivesBackWhatWasAdded) {
  const TestFolder folder;
  const std::string path = write_small(folder);
  const auto records = read_shard_index(path);
  ASSERT_TRUE(records) << records.error().to_string();
  std::vector<ShardRecord> expected = {jpeg_record(), bad_record(), raw_record()};
  expected[0].offset = 41;
  expected[0].length = 17;
  expected[0].crc32c = crc32c(kJpeg);
  expected[2].offset = 85;
  expected[2].length = 6;
  expected[2].crc32c = crc32c(kRaw);
  EXPECT_EQ(*records, expected);
  const Bytes bytes = read_whole(path);
  EXPECT_EQ(bytes.substr(41, 17), kJpeg);
  const auto parsed = parse_shard(bytes, "the shard");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, expected);
  EXPECT_THAT(verify(path), IsEmpty());
}

TEST(Shard, MayBeEmptyAndMayHoldLargeSamples) {
  const TestFolder folder;
  const std::string path = folder.path() + "/a.shard";
  {
    auto writer = ShardWriter::create(path);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->finish());
  }
  EXPECT_THAT(verify(path), IsEmpty());
  // Around the size of a chunk, and far past it; the second writer replaces the file.
  auto writer = ShardWriter::create(path);
  ASSERT_TRUE(writer);
  const Bytes large = varied_bytes(3 * kShardChunkBytes + 5);
  std::vector<Bytes> payloads;
  for (const size_t length : {kShardChunkBytes - 60, kShardChunkBytes, kShardChunkBytes + 1,
                              large.size(), size_t{0}, size_t{7}}) {
    ShardRecord record = jpeg_record();
    record.name = std::to_string(length);
    payloads.push_back(large.substr(large.size() - length));
    ASSERT_TRUE((*writer)->add(record, payloads.back()));
  }
  const int64_t before = (*writer)->bytes();
  ASSERT_TRUE((*writer)->finish());
  EXPECT_EQ((*writer)->finish().error().code, Code::internal);
  EXPECT_THAT(verify(path), IsEmpty());
  const auto records = read_shard_index(path);
  ASSERT_TRUE(records);
  const Bytes bytes = read_whole(path);
  EXPECT_GT(static_cast<int64_t>(bytes.size()), before);
  for (size_t i = 0; i < payloads.size(); ++i) {
    EXPECT_TRUE(bytes.substr((*records)[i].offset, (*records)[i].length) == payloads[i]) << i;
  }
}

TEST(Shard, AFlippedBitInAnyByteIsNamed) {
  const TestFolder folder;
  const Bytes bytes = read_whole(write_small(folder));
  const auto expected_at = [](size_t byte) -> std::string {
    if (byte < 16) return "the header";
    if (byte < 32) return "bee/1.jpg: its head";
    if (byte < 41) return "bee/1.jpg: its name";
    if (byte < 58) return "bee/1.jpg: its 17 bytes at 41 have checksum";
    if (byte < 64) return "bee/1.jpg: the padding";
    if (byte < 80) return "ant/3: its head";
    if (byte < 85) return "ant/3: its name";
    if (byte < 91) return "ant/3: its 6 bytes at 85 have checksum";
    if (byte < 96) return "ant/3: the padding";
    return "the index";
  };
  for (size_t byte = 0; byte < bytes.size(); ++byte) {
    for (const int bit : {0x01, 0x80}) {
      Bytes flipped = bytes;
      flipped[byte] = static_cast<char>(flipped[byte] ^ bit);
      const std::string path = folder.write("flipped.shard", flipped);
      EXPECT_THAT(verify(path), ElementsAre(HasSubstr(expected_at(byte)))) << "byte " << byte;
    }
  }
}

TEST(Shard, DamageOfOneRecordDoesNotHideThatOfAnother) {
  const TestFolder folder;
  Bytes bytes = read_whole(write_small(folder));
  bytes[3] ^= 1;   // the header
  bytes[20] ^= 1;  // the length in the first record's head
  bytes[86] ^= 1;  // the last payload
  EXPECT_THAT(verify(folder.write("x.shard", bytes)),
              ElementsAre(HasSubstr("bee/1.jpg: "), HasSubstr("ant/3: "), HasSubstr("the header")));
}

TEST(Shard, EveryTruncationIsNoticed) {
  const TestFolder folder;
  const Bytes bytes = read_whole(write_small(folder));
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto parsed = parse_shard(BytesView(bytes).substr(0, length), "the shard");
    ASSERT_FALSE(parsed) << length;
    EXPECT_EQ(parsed.error().code, Code::corrupt);
    const std::string path = folder.write("cut.shard", bytes.substr(0, length));
    const auto read = read_shard_index(path);
    ASSERT_FALSE(read) << length;
    EXPECT_EQ(read.error().code, Code::corrupt);
    EXPECT_THAT(verify(path), ElementsAre(HasSubstr("corrupt: ")));
  }
  EXPECT_FALSE(parse_shard(bytes + '\0', "the shard"));
  EXPECT_FALSE(parse_shard(bytes + bytes.substr(bytes.size() - 32), "the shard"));
}

// A shard whose index is changed, under checksums that are right.
Bytes with_index(Bytes bytes,
                 const std::function<void(Bytes& index, ShardFooter& footer)>& change) {
  ShardFooter footer;
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof footer, sizeof footer);
  Bytes index = bytes.substr(footer.index_offset, footer.index_length);
  bytes.resize(footer.index_offset);
  change(index, footer);
  footer.index_crc32c = crc32c(index);
  return bytes + index + Bytes(shard_bytes_of(footer));
}

TEST(Shard, AnIndexThatLiesIsRefused) {
  const TestFolder folder;
  const Bytes bytes = read_whole(write_small(folder));
  ASSERT_TRUE(parse_shard(with_index(bytes, [](Bytes&, ShardFooter&) {}), "same"));
  const auto refused = [&](size_t at, uint64_t value, int size) {
    const Bytes changed = with_index(bytes, [&](Bytes& index, ShardFooter&) {
      index.replace(at, static_cast<size_t>(size), little(value, size));
    });
    const auto parsed = parse_shard(changed, "the shard");
    return !parsed && parsed.error().code == Code::corrupt;
  };
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  for (const uint64_t value : {uint64_t{0}, uint64_t{2}, uint64_t{4}, uint64_t{1} << 32,
                               uint64_t{1} << 59, uint64_t{1} << 63, huge}) {
    EXPECT_TRUE(refused(0, value, 8)) << "count " << value;
    EXPECT_TRUE(refused(8, value, 8)) << "offset " << value;
  }
  EXPECT_TRUE(refused(16, 24, 4)) << "length: past the padding";
  EXPECT_TRUE(refused(16, 0xFFFFFFFF, 4)) << "length";
  EXPECT_TRUE(refused(24, 0, 2)) << "width";
  EXPECT_TRUE(refused(26, 0, 2)) << "height";
  EXPECT_TRUE(refused(28, 3, 1)) << "format";
  EXPECT_TRUE(refused(29, 2, 1)) << "channels";
  EXPECT_TRUE(refused(30, 9, 1)) << "orientation";
  EXPECT_TRUE(refused(31, 4, 1)) << "flags";
  EXPECT_TRUE(refused(32, 0xFFFF, 2)) << "name length";
  EXPECT_TRUE(refused(32, 0, 2)) << "no name";
  EXPECT_TRUE(refused(38, 1, 2)) << "reserved";
  EXPECT_TRUE(refused(52, 1, 8)) << "a bad sample with an offset";
  EXPECT_TRUE(refused(68, 1, 2)) << "a bad sample with a width";
  const auto footer_refused = [&](auto change) {
    return !parse_shard(with_index(bytes, [&](Bytes&, ShardFooter& f) { change(f); }), "the shard");
  };
  for (const uint64_t value : {uint64_t{0}, uint64_t{88}, uint64_t{104}, huge, huge - 31}) {
    EXPECT_TRUE(footer_refused([&](ShardFooter& f) { f.index_offset = value; })) << value;
    EXPECT_TRUE(footer_refused([&](ShardFooter& f) { f.index_length = value; })) << value;
    EXPECT_TRUE(footer_refused([&](ShardFooter& f) { f.records = static_cast<uint32_t>(value); }));
  }
  const auto longer = with_index(bytes, [](Bytes& index, ShardFooter& footer) {
    index += "more";
    footer.index_length += 4;
  });
  EXPECT_FALSE(parse_shard(longer, "the shard"));
}

TEST(Shard, WhatCannotBeStoredIsRefusedAndTheWriterGoesOn) {
  const TestFolder folder;
  const std::string path = folder.path() + "/a.shard";
  auto writer = ShardWriter::create(path);
  ASSERT_TRUE(writer);
  const auto refused = [&](auto change, BytesView payload = kJpeg) {
    ShardRecord record = jpeg_record();
    change(record);
    const Status added = (*writer)->add(record, payload);
    return !added && added.error().code == Code::invalid;
  };
  EXPECT_TRUE(refused([](ShardRecord& r) { r.name.clear(); }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.name.assign(65'536, 'n'); }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.class_name.assign(65'536, 'n'); }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.info.size.width = 65'536; }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.info.size.height = 0; }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.info.size = {65'535, 65'535}; }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.info.channels = 4; }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.info.orientation = 0; }));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.info = raw_record().info; }, "12345"));
  EXPECT_TRUE(refused([](ShardRecord& r) { r.bad_cause = "bad"; }, "with bytes"));
  EXPECT_EQ((*writer)->samples(), 0);
  ASSERT_TRUE((*writer)->add(jpeg_record(), kJpeg));
  ASSERT_TRUE((*writer)->finish());
  EXPECT_THAT(verify(path), IsEmpty());
}

TEST(ShardWriter, AnUnfinishedShardLeavesNothing) {
  const TestFolder folder;
  const std::string path = folder.path() + "/a.shard";
  {
    auto writer = ShardWriter::create(path);
    ASSERT_TRUE(writer);
    ASSERT_TRUE((*writer)->add(jpeg_record(), kJpeg));
    EXPECT_TRUE(std::filesystem::exists(path + ".part"));
    EXPECT_FALSE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(ShardWriter, AKilledWriterLeavesNoShardAndTheNextOneReplacesItsPart) {
  const TestFolder folder;
  const std::string path = folder.path() + "/a.shard";
  const pid_t child = fork();
  if (child == 0) {
    auto writer = ShardWriter::create(path);
    const Bytes payload = varied_bytes(3 * kShardChunkBytes);
    if (!writer || !(*writer)->add(jpeg_record(), payload)) _exit(1);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_GT(std::filesystem::file_size(path + ".part"), 3 * kShardChunkBytes);
  auto writer = ShardWriter::create(path);
  ASSERT_TRUE(writer);
  ASSERT_TRUE((*writer)->add(raw_record(), kRaw));
  ASSERT_TRUE((*writer)->finish());
  EXPECT_THAT(verify(path), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

// In a process of its own, because the limit holds for all its files. Returns what went wrong.
std::string fill_up(const std::string& path) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{2 * kShardChunkBytes, 2 * kShardChunkBytes};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "no limit";
  auto writer = ShardWriter::create(path);
  if (!writer) return "not created";
  const Bytes payload = varied_bytes(kShardChunkBytes);
  Status added;
  for (int i = 0; i < 4 && added; ++i) added = (*writer)->add(jpeg_record(), payload);
  if (added) return "no failure";
  if (added.error().code != Code::exhausted) return added.error().to_string();
  if (added.error().message.find(path + ".part") == std::string::npos) return "no path";
  if (added.error().message.find("ulimit -f") == std::string::npos) return "no next step";
  if ((*writer)->add(bad_record(), "")) return "a later add() succeeds";
  if ((*writer)->finish()) return "finish() succeeds";
  if ((*writer)->finish().error().message != added.error().message) return "another error";
  return "";
}

TEST(ShardWriter, AFullDiskIsReportedAndStaysAFailure) {
  const TestFolder folder;
  const std::string path = folder.path() + "/a.shard";
  int to_parent[2];
  ASSERT_EQ(pipe(to_parent), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string wrong = fill_up(path);
    const ssize_t written = write(to_parent[1], wrong.data(), wrong.size());
    _exit(written == static_cast<ssize_t>(wrong.size()) ? 0 : 1);
  }
  close(to_parent[1]);
  char wrong[1000];
  const ssize_t got = read(to_parent[0], wrong, sizeof wrong);
  close(to_parent[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_GE(got, 0);
  EXPECT_EQ(std::string(wrong, static_cast<size_t>(got)), "");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "the part is removed";
}

TEST(ShardWriter, AFolderThatIsNotThereIsNamed) {
  const TestFolder folder;
  const auto writer = ShardWriter::create(folder.path() + "/none/a.shard");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::not_found);
  EXPECT_THAT(writer.error().message, HasSubstr("/none/a.shard.part"));
}

TEST(ShardWriter, ATakenNameIsReported) {
  const TestFolder folder;
  const std::string path = folder.path() + "/a.shard";
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  auto writer = ShardWriter::create(path);
  ASSERT_TRUE(writer);
  EXPECT_FALSE((*writer)->finish());
  writer->reset();
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
}

}  // namespace
}  // namespace tern
