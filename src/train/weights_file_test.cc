#include "train/weights_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "core/hash.h"
#include "storage/memory_store.h"
#include "storage/test_torch_file.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::string_literals;

class WeightsFiles : public testing::Test {
 protected:
  ~WeightsFiles() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const Bytes& bytes) {
    std::filesystem::create_directories(folder_);
    const std::filesystem::path path = folder_ / "weights";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return path;
  }
  std::string refusal(const Bytes& bytes, Code code) {
    const auto read = read_weights_file(write(bytes));
    if (read.has_value()) return "it was read";
    EXPECT_EQ(read.error().code, code) << read.error().message;
    return read.error().message;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("tern-weights-" + std::to_string(getpid()));
};

const Bytes kSixFloats(24, '\x3f');

TEST_F(WeightsFiles, ASafetensorsFileIsReadWhateverItsName) {
  const Bytes half(4, '\x3c'), brain(4, '\x3f'), longs(8, '\1'), doubles(8, '\2');
  const Bytes bytes = write_safetensors({.tensors = {{"a.weight", "F32", {2, 3}, kSixFloats},
                                                     {"b", "F16", {2}, half},
                                                     {"c", "BF16", {2}, brain},
                                                     {"d", "I64", {}, longs},
                                                     {"e", "F64", {1}, doubles}}});
  auto read = read_weights_file(write(bytes));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const WeightsFile file = std::move(*read);
  EXPECT_EQ(file.sha256, to_hex(sha256(bytes)));
  ASSERT_EQ(file.tensors.tensors.size(), 5u);
  EXPECT_EQ(file.tensors.tensors[0].data, kSixFloats);
  EXPECT_EQ(file.tensors.tensors[2].dtype, "BF16");
}

TEST_F(WeightsFiles, AFileOfTorchSaveIsReadAndDataParallelsNamesAreUnwrapped) {
  const Bytes pickle = test_state_dict({{"module.fc.weight", {.shape = {3, 2}, .strides = {1, 3}}},
                                        {"module.fc.bias", {.shape = {3}, .strides = {1}}}});
  const auto read = read_weights_file(write(test_torch_file(pickle, {{"0", kSixFloats}})));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->tensors.tensors.size(), 2u);
  EXPECT_EQ(read->tensors.tensors[0].name, "fc.weight");
  EXPECT_THAT(read->tensors.tensors[0].shape, ElementsAre(3, 2));
  EXPECT_EQ(read->tensors.tensors[1].name, "fc.bias");
}

TEST_F(WeightsFiles, ANameThatOnlyBeginsLikeAWrappedOneIsKept) {
  const auto read = read_weights_file(write(write_safetensors(
      {.tensors = {{"module.w", "F32", {6}, kSixFloats}, {"other", "F32", {6}, kSixFloats}}})));
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->tensors.tensors[0].name, "module.w");
}

TEST_F(WeightsFiles, OldFormatsSayHowToSaveAnew) {
  const Bytes legacy =
      "\x80\x02\x8a\x0al\xfc\x9c"
      "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."s;
  EXPECT_THAT(refusal(legacy, Code::invalid), HasSubstr("torch.save("));
  Bytes tar(512, '\0');
  tar.replace(257, 5, "ustar");
  EXPECT_THAT(refusal(tar, Code::invalid), HasSubstr("before 1.6"));
}

TEST_F(WeightsFiles, WhatIsNoWeightsFileIsRefused) {
  EXPECT_THAT(refusal("", Code::corrupt), HasSubstr("neither"));
  EXPECT_THAT(refusal("<!DOCTYPE html><html>404 not found</html>", Code::corrupt),
              HasSubstr("neither"));
  EXPECT_THAT(refusal(write_safetensors({}), Code::invalid), HasSubstr("no tensor"));
  const Bytes whole = write_safetensors({.tensors = {{"w", "F32", {6}, kSixFloats}}});
  EXPECT_THAT(refusal(whole.substr(0, whole.size() - 1), Code::corrupt), HasSubstr("fetch"));
  EXPECT_THAT(refusal(test_torch_file("cos\nsystem\n)R.", {}), Code::corrupt),
              HasSubstr("os.system"));
  EXPECT_THAT(refusal("PK\x03\x04 and no more", Code::corrupt), HasSubstr("torch.save"));
}

TEST_F(WeightsFiles, WhatIsNoFileIsRefusedAtOnce) {
  const auto missing = read_weights_file(folder_ / "nowhere");
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("nowhere"));
  std::filesystem::create_directories(folder_);
  EXPECT_EQ(read_weights_file(folder_).error().code, Code::invalid);
  const std::filesystem::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_weights_file(pipe).error().code, Code::invalid);
}

TEST_F(WeightsFiles, AFileBeyondTheLimitIsRefusedBeforeItIsRead) {
  const auto read = read_weights_file(
      write(write_safetensors({.tensors = {{"w", "F32", {6}, kSixFloats}}})), /*bytes_max=*/50);
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::exhausted);
}

// A bucket with one object.
class WeightsObjects : public testing::Test {
 protected:
  WeightsObjects() { EXPECT_TRUE(store_->put("w.safetensors", bytes_)); }

  const Bytes bytes_ = write_safetensors({.tensors = {{"w", "F32", {6}, kSixFloats}}});
  const std::shared_ptr<ObjectStore> store_ = std::make_shared<MemoryStore>();
  std::string opened_;
  const StoreOpener open_ =
      [this](const std::string& address) -> Result<std::shared_ptr<ObjectStore>> {
    opened_ = address;
    return store_;
  };
};

TEST_F(WeightsObjects, AreReadAsFilesAreWithTheSameHash) {
  for (const auto& [place, folder] : std::map<std::string, std::string>{
           {"s3://bucket/deep/er/w.safetensors", "s3://bucket/deep/er"},
           {"gs://bucket/w.safetensors", "gs://bucket"},
           {"az://acc/box/w.safetensors", "az://acc/box"}}) {
    const auto read = read_weights(place, open_);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(opened_, folder);
    EXPECT_EQ(read->sha256, to_hex(sha256(bytes_)));
    EXPECT_EQ(read->tensors.tensors.size(), 1u);
    EXPECT_TRUE(find_weights(place, open_));
  }
}

TEST_F(WeightsObjects, WhatIsNotThereOrTooLargeIsRefusedBeforeItIsFetched) {
  const auto missing = read_weights("s3://bucket/deep/other", open_);
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("`tern store ls s3://bucket/deep`"));
  EXPECT_EQ(find_weights("s3://bucket/deep/other", open_).error().code, Code::not_found);
  EXPECT_EQ(read_weights("s3://bucket", open_).error().code, Code::invalid);
  EXPECT_EQ(read_weights("s3://bucket/w.safetensors", open_, /*bytes_max=*/50).error().code,
            Code::exhausted);
  EXPECT_THAT(read_weights("s3://bucket/w.safetensors", nullptr).error().message,
              HasSubstr("`tern store cp s3://bucket/w.safetensors .`"));
  ASSERT_TRUE(store_->put("w.safetensors", "<html>no such key</html>"));
  EXPECT_EQ(read_weights("s3://bucket/w.safetensors", open_).error().code, Code::corrupt);
}

TEST_F(WeightsFiles, APathMayBeWrittenAsAnAddress) {
  const auto path = write(write_safetensors({.tensors = {{"w", "F32", {6}, kSixFloats}}}));
  EXPECT_TRUE(read_weights("file://" + path.string(), nullptr));
  EXPECT_TRUE(find_weights(path.string(), nullptr));
  EXPECT_EQ(find_weights((folder_ / "nowhere").string(), nullptr).error().code, Code::not_found);
}

}  // namespace
}  // namespace tern
