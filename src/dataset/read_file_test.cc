#include "dataset/read_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/test_folder.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr int64_t kPlenty = 1 << 24;

TEST(ReadFile, PlainAndGzipGiveTheSameBytesWhateverTheName) {
  const TestFolder folder;
  const Bytes content = varied_bytes(700'000);  // more than two pieces of input and of output
  const std::string plain = folder.write("plain.gz", content);
  const std::string packed = folder.write("packed", gzip_bytes(content));
  EXPECT_EQ(read_data_file(plain, kPlenty).value(), content);
  EXPECT_EQ(read_data_file(packed, kPlenty).value(), content);
}

TEST(ReadFile, ContentOfExactlyTheRoomOfOneCallIsReadWhole) {
  const TestFolder folder;
  for (const size_t size : {size_t{1} << 18, size_t{1} << 19, (size_t{1} << 18) + 1}) {
    const Bytes content(size, 'x');
    EXPECT_EQ(read_data_file(folder.write("x", gzip_bytes(content)), kPlenty).value(), content);
    const Bytes twice = gzip_bytes(content) + gzip_bytes(content);
    EXPECT_EQ(read_data_file(folder.write("x", twice), kPlenty).value(), content + content);
  }
}

TEST(ReadFile, GzipMembersAreConcatenated) {
  const TestFolder folder;
  const std::string path =
      folder.write("two", gzip_bytes("first") + gzip_bytes("") + gzip_bytes("second"));
  EXPECT_EQ(read_data_file(path, kPlenty).value(), "firstsecond");
}

TEST(ReadFile, EmptyAndOneByteFilesArePlain) {
  const TestFolder folder;
  EXPECT_EQ(read_data_file(folder.write("empty", ""), kPlenty).value(), "");
  EXPECT_EQ(read_data_file(folder.write("one", "\x1f"), kPlenty).value(), "\x1f");
}

TEST(ReadFile, MissingFileIsNamedWithTheNextStep) {
  const TestFolder folder;
  const Result<Bytes> read = read_data_file(folder.path() + "/nothing", kPlenty);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::not_found);
  EXPECT_THAT(read.error().message, HasSubstr("/nothing"));
  EXPECT_THAT(read.error().message, HasSubstr("data.path"));
}

TEST(ReadFile, FolderIsNoFile) {
  const TestFolder folder;
  EXPECT_EQ(read_data_file(folder.path(), kPlenty).error().code, Code::invalid);
}

TEST(ReadFile, GzipTruncatedAnywhereIsCorrupt) {
  const TestFolder folder;
  const Bytes packed = gzip_bytes(varied_bytes(20'000));
  std::vector<size_t> lengths = {2, 3, 9, 10, packed.size() - 8, packed.size() - 1};
  for (size_t length = 100; length < packed.size(); length += 100) lengths.push_back(length);
  for (const size_t length : lengths) {
    const std::string path = folder.write("cut.gz", BytesView(packed).substr(0, length));
    const Result<Bytes> read = read_data_file(path, kPlenty);
    ASSERT_FALSE(read) << length;
    EXPECT_EQ(read.error().code, Code::corrupt) << length;
    EXPECT_THAT(read.error().message, HasSubstr("cut.gz")) << length;
  }
}

TEST(ReadFile, GzipWithAnyDamagedByteIsCorruptOrUnchanged) {
  const TestFolder folder;
  const Bytes content = varied_bytes(500);
  const Bytes packed = gzip_bytes(content);
  int refused = 0;
  for (size_t at = 2; at < packed.size(); ++at) {
    Bytes damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const Result<Bytes> read = read_data_file(folder.write("bad.gz", damaged), kPlenty);
    // Time and system in gzip's header, and the padding of its first block, change no content.
    if (read) {
      EXPECT_EQ(read.value(), content) << at;
      EXPECT_LE(at, 10u);
    } else {
      EXPECT_EQ(read.error().code, Code::corrupt) << at;
      ++refused;
    }
  }
  EXPECT_GE(refused, static_cast<int>(packed.size()) - 11);
}

TEST(ReadFile, BytesAfterTheGzipDataAreCorrupt) {
  const TestFolder folder;
  const std::string path = folder.write("tail.gz", gzip_bytes("content") + "tail");
  EXPECT_EQ(read_data_file(path, kPlenty).error().code, Code::corrupt);
}

TEST(ReadFile, FilesOfExactlyTheLimitAreReadAndLargerOnesRefused) {
  const TestFolder folder;
  const Bytes content = varied_bytes(5000);
  for (const std::string& path :
       {folder.write("plain", content), folder.write("packed", gzip_bytes(content))}) {
    EXPECT_EQ(read_data_file(path, 5000).value(), content);
    const Result<Bytes> read = read_data_file(path, 4999);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, Code::exhausted);
    EXPECT_THAT(read.error().message, HasSubstr("4999"));
    EXPECT_THAT(read.error().message, HasSubstr("data.file_bytes_max"));
  }
}

TEST(ReadFile, GzipBombIsRefusedAtTheLimit) {
  const TestFolder folder;
  const Bytes bomb = gzip_bytes(Bytes(size_t{64} << 20, '\0'));
  ASSERT_LT(bomb.size(), 100'000u);
  EXPECT_EQ(read_data_file(folder.write("bomb.gz", bomb), 1 << 20).error().code, Code::exhausted);
}

}  // namespace
}  // namespace tern
