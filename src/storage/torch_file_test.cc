#include "storage/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/random.h"
#include "storage/stored_zip.h"
#include "storage/test_torch_file.h"
#include "storage/torch_pickle.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using namespace std::string_literals;

constexpr int64_t kBytesMax = 1 << 20;

std::vector<float> floats_of(BytesView bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

Bytes bytes_of(const std::vector<float>& floats) {
  return {reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float)};
}

// {"w": a tensor of the storage "0" of six floats, 0 to 5}
Bytes file_with(const TestTensor& tensor) {
  return test_torch_file(test_state_dict({{"w", tensor}}), {{"0", bytes_of({0, 1, 2, 3, 4, 5})}});
}

std::string refusal(const Bytes& file, Code code = Code::corrupt) {
  const auto read = read_torch_file(file, kBytesMax);
  if (read.has_value()) return "it was read";
  EXPECT_EQ(read.error().code, code) << read.error().message;
  return read.error().message;
}

TEST(TorchFile, TensorsComeOutRowMajorWhateverTheirStrides) {
  const auto read_floats = [](const TestTensor& tensor) {
    const auto read = read_torch_file(file_with(tensor), kBytesMax);
    EXPECT_TRUE(read.has_value()) << read.error().message;
    if (!read.has_value()) return std::vector<float>();
    EXPECT_EQ(read->tensors.tensors[0].name, "w");
    EXPECT_EQ(read->tensors.tensors[0].dtype, "F32");
    EXPECT_EQ(read->tensors.tensors[0].shape, tensor.shape);
    return floats_of(read->tensors.tensors[0].data);
  };
  EXPECT_THAT(read_floats({.shape = {2, 3}, .strides = {3, 1}}), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(read_floats({.shape = {3, 2}, .strides = {1, 3}}), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(read_floats({.offset = 1, .shape = {2}, .strides = {3}}), ElementsAre(1, 4));
  EXPECT_THAT(read_floats({.offset = 5, .shape = {}, .strides = {}}), ElementsAre(5));
  EXPECT_THAT(read_floats({.offset = 2, .shape = {2, 2}, .strides = {0, 1}}),
              ElementsAre(2, 3, 2, 3));
  EXPECT_THAT(read_floats({.offset = 99, .shape = {0, 3}, .strides = {3, 1}}), ElementsAre());
}

TEST(TorchFile, SeveralTensorsMayShareAStorageAndViewsSurviveAMove) {
  const Bytes file = test_torch_file(test_state_dict({{"a", {.shape = {2}, .strides = {1}}},
                                                      {"b", {.shape = {2}, .strides = {1}}}}),
                                     {{"0", bytes_of({7, 8, 0, 0, 0, 0})}});
  auto read = read_torch_file(file, kBytesMax);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const TorchTensors moved = std::move(*read);
  ASSERT_EQ(moved.tensors.tensors.size(), 2u);
  for (const TensorView& tensor : moved.tensors.tensors) {
    EXPECT_THAT(floats_of(tensor.data), ElementsAre(7, 8));
    EXPECT_GE(tensor.data.data(), moved.bytes.data());
    EXPECT_LE(tensor.data.data() + tensor.data.size(), moved.bytes.data() + moved.bytes.size());
  }
}

// As PyTorch 2.11 wrote it for torch.nn.BatchNorm1d(1).state_dict(), its last tensor alone.
TEST(TorchFile, ReadsWhatPythonPickled) {
  const Bytes pickle =
      "\x80\x02"s
      "ccollections\nOrderedDict\nq\x00)Rq\x01X\x13\x00\x00\x00num_batches_trackedq\x02"
      "ctorch._utils\n_rebuild_tensor_v2\nq\x03((X\x07\x00\x00\x00storageq\x04"
      "ctorch\nLongStorage\nq\x05X\x01\x00\x00\x00"
      "0q\x06X\x03\x00\x00\x00"
      "cpuq\x07K\x01tq\x08Q"
      "K\x00))\x89h\x00)Rq\x09tq\x0aRq\x0bs}q\x0cX\x09\x00\x00\x00_metadataq\x0dh\x00)Rq\x0e"
      "X\x00\x00\x00\x00q\x0f}q\x10X\x07\x00\x00\x00versionq\x11K\x02sssb."s;
  const auto read =
      read_torch_file(test_torch_file(pickle, {{"0", "\x2a\0\0\0\0\0\0\0"s}}), kBytesMax);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ASSERT_EQ(read->tensors.tensors.size(), 1u);
  EXPECT_EQ(read->tensors.tensors[0].name, "num_batches_tracked");
  EXPECT_EQ(read->tensors.tensors[0].dtype, "I64");
  EXPECT_THAT(read->tensors.tensors[0].shape, ElementsAre());
  EXPECT_EQ(read->tensors.tensors[0].data, "\x2a\0\0\0\0\0\0\0"s);
}

TEST(TorchFile, AStateDictIsFoundUnderTheUsualNames) {
  const Bytes inner = test_state_dict({{"w", {.shape = {6}, .strides = {1}}}});
  for (const std::string name : {"state_dict", "model", "model_state_dict"}) {
    const Bytes nested = "\x80\x02}("s + test_text("epoch") + "K\x07" + test_text(name) +
                         inner.substr(2, inner.size() - 3) + "u.";
    const auto read =
        read_torch_file(test_torch_file(nested, {{"0", bytes_of({0, 1, 2, 3, 4, 5})}}), kBytesMax);
    ASSERT_TRUE(read.has_value()) << name << ": " << read.error().message;
    EXPECT_EQ(read->tensors.tensors[0].name, "w");
  }
  EXPECT_THAT(refusal(test_torch_file("\x80\x02K\x01.", {}), Code::invalid),
              HasSubstr("no state dict"));
}

TEST(TorchFile, NamesThatWouldRunCodeAreRefusedAndNamed) {
  const Bytes system =
      "cos\nsystem\n(X\x04\x00\x00\x00"s
      "ruintR."s;
  EXPECT_THAT(refusal(test_torch_file(system, {})), HasSubstr("names os.system"));
  const Bytes newer =
      "\x80\x04\x8c\x02"s
      "os\x8c\x06system\x93(X\x04\x00\x00\x00"s
      "ruintR."s;
  EXPECT_THAT(refusal(test_torch_file(newer, {})), HasSubstr("names os.system"));
  EXPECT_THAT(refusal(test_torch_file("cbuiltins\neval\n)R."s, {})), HasSubstr("builtins.eval"));
  EXPECT_THAT(refusal(test_torch_file("ctorchvision.models.resnet\nResNet\n)\x81.", {})),
              HasSubstr("state_dict()"));
  EXPECT_THAT(refusal(test_torch_file("ctorch\nload\n)R.", {})), HasSubstr("torch.load"));
  // A text that is called, and operations that make objects in other ways.
  EXPECT_THAT(refusal(test_torch_file(test_text("os.system") + ")R.", {})),
              HasSubstr("cannot be called"));
  for (const char operation : {'i', 'o', 'P', '\x81', '\x82', '\x92'}) {
    EXPECT_THAT(refusal(test_torch_file(Bytes("(") + operation + ".", {})),
                HasSubstr("does not belong"));
  }
}

TEST(TorchFile, ShapesThatReachBeyondTheStorageAreRefused) {
  constexpr int64_t kHuge = int64_t{1} << 31;
  EXPECT_THAT(refusal(file_with({.shape = {7}, .strides = {1}})), HasSubstr("beyond"));
  EXPECT_THAT(refusal(file_with({.offset = 5, .shape = {2}, .strides = {1}})), HasSubstr("beyond"));
  EXPECT_THAT(refusal(file_with({.shape = {2, 2}, .strides = {5, 1}})), HasSubstr("beyond"));
  EXPECT_THAT(refusal(file_with({.shape = {kHuge - 1, kHuge - 1, 8}, .strides = {0, 0, 0}})),
              HasSubstr("beyond"));
  EXPECT_THAT(refusal(file_with({.shape = {2}, .strides = {1, 1}})), HasSubstr("strides"));
  EXPECT_THAT(refusal(file_with({.elements = 7, .shape = {6}, .strides = {1}})),
              HasSubstr("should have 7 elements and has 6"));
  // A small file that asks for much memory.
  EXPECT_THAT(refusal(file_with({.shape = {1 << 30}, .strides = {0}}), Code::exhausted),
              HasSubstr("more than"));
  EXPECT_THAT(
      refusal(test_torch_file(test_state_dict({{"w", {.shape = {6}, .strides = {1}}}}), {})),
      HasSubstr("not in the file"));
}

TEST(TorchFile, TruncationAtEveryLengthIsNoticed) {
  const Bytes file = file_with({.shape = {6}, .strides = {1}});
  for (size_t length = 0; length < file.size(); ++length) {
    EXPECT_FALSE(read_torch_file(BytesView(file).substr(0, length), kBytesMax).has_value())
        << length;
  }
  const Bytes pickle = test_state_dict({{"w", {.shape = {6}, .strides = {1}}}});
  for (size_t length = 0; length < pickle.size(); ++length) {
    EXPECT_FALSE(parse_state_dict(BytesView(pickle).substr(0, length)).has_value()) << length;
  }
}

TEST(TorchFile, DamagedBytesAreAnErrorOrHarmless) {
  const Bytes whole = file_with({.shape = {3, 2}, .strides = {1, 3}});
  const Bytes pickle = test_state_dict({{"w", {.shape = {6}, .strides = {1}}}});
  int refused = 0;
  Random random(5, Stream::augment, 0);
  for (int round = 0; round < 4000; ++round) {
    Bytes file = whole;
    Bytes bare = pickle;
    for (int change = 0; change < 3; ++change) {
      file[random.next() % file.size()] = static_cast<char>(random.next());
      bare[random.next() % bare.size()] = static_cast<char>(random.next());
    }
    // No checksum stands before these.
    const auto read = read_torch_file(test_torch_file(bare, {{"0", Bytes(24, 'x')}}), kBytesMax);
    if (!read.has_value()) refused += 1;
    const auto other = read_torch_file(file, kBytesMax);
    if (!other.has_value()) refused += 1;
  }
  EXPECT_GT(refused, 4000);
}

TEST(StoredZip, WrongFilesAreNamed) {
  const auto reason = [](const Bytes& file) {
    const auto parsed = parse_stored_zip(file);
    return parsed.has_value() ? "it was read" : parsed.error().message;
  };
  EXPECT_THAT(reason(""), HasSubstr("too short"));
  EXPECT_THAT(reason(Bytes(1000, 'x')), HasSubstr("no directory"));
  EXPECT_THAT(reason(test_zip({{"a", "x"}, {"a", "y"}})), HasSubstr("twice"));
  Bytes file = test_zip({{"a", "some bytes"}});
  EXPECT_EQ(parse_stored_zip(file)->at("a"), "some bytes");
  EXPECT_EQ(parse_stored_zip(file + "a comment")->at("a"), "some bytes");
  file[32] = 'X';
  EXPECT_THAT(reason(file), HasSubstr("'a' fails its checksum"));
  EXPECT_THAT(reason(test_zip({{"a", "x"}}, /*method=*/8)), HasSubstr("compressed"));
}

TEST(TorchFile, AZipOfAnotherProgramIsSaidToBeOne) {
  EXPECT_THAT(refusal(test_zip({{"readme.txt", "hello"}})), HasSubstr("without data.pkl"));
}

}  // namespace
}  // namespace tern
