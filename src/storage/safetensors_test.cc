#include "storage/safetensors.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/random.h"

namespace tern {
namespace {

Bytes with_header(std::string_view header, std::string_view data) {
  Bytes bytes;
  for (size_t i = 0; i < 8; ++i) bytes += static_cast<char>(uint64_t{header.size()} >> (8 * i));
  return bytes.append(header).append(data);
}

Safetensors sample() {
  static const Bytes floats(24, '\x3f');
  static const Bytes longs(8, '\x01');
  return {.tensors = {{"conv.weight", "F32", {2, 3}, floats},
                      {"step", "I64", {}, longs},
                      {"nothing", "F16", {4, 0}, {}},
                      {"a \"quoted\" näme", "U8", {3}, BytesView(floats).substr(0, 3)}},
          .metadata = {{"format", "pt"}, {"tern", "1"}}};
}

void expect_corrupt(std::string_view header, std::string_view data, std::string_view reason) {
  const Bytes bytes = with_header(header, data);
  const Result<Safetensors> parsed = parse_safetensors(bytes);
  ASSERT_FALSE(parsed.has_value()) << header;
  EXPECT_EQ(parsed.error().code, Code::corrupt) << header;
  EXPECT_NE(parsed.error().message.find(reason), std::string::npos)
      << header << ": " << parsed.error().message;
}

TEST(Safetensors, ReadsBackWhatItWrote) {
  const Safetensors file = sample();
  const Bytes bytes = write_safetensors(file);
  const Result<Safetensors> parsed = parse_safetensors(bytes);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().to_string();
  EXPECT_EQ(parsed->metadata, file.metadata);
  ASSERT_EQ(parsed->tensors.size(), file.tensors.size());
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    EXPECT_EQ(parsed->tensors[i].name, file.tensors[i].name);
    EXPECT_EQ(parsed->tensors[i].dtype, file.tensors[i].dtype);
    EXPECT_EQ(parsed->tensors[i].shape, file.tensors[i].shape);
    EXPECT_EQ(parsed->tensors[i].data, file.tensors[i].data);
  }
}

TEST(Safetensors, BytesAreThoseOfTheSpecification) {
  const Bytes data("\x01\x02\x03\x04", 4);
  const Bytes bytes = write_safetensors({.tensors = {{"w", "U8", {2, 2}, data}}});
  const std::string header = R"({"w":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(bytes, with_header(header + padding, data));
}

TEST(Safetensors, WritingIsDeterministicAndDataIsAligned) {
  const Bytes bytes = write_safetensors(sample());
  EXPECT_EQ(bytes, write_safetensors(sample()));
  for (size_t length = 0; length < 16; ++length) {
    const Bytes other =
        write_safetensors({.tensors = {{std::string(length, 'n'), "U8", {1}, "x"}}});
    EXPECT_EQ((other.size() - 1) % 8, 0u);
  }
}

TEST(Safetensors, FileWithoutTensorsIsWhole) {
  const Bytes bytes = write_safetensors({});
  const Result<Safetensors> parsed = parse_safetensors(bytes);
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->tensors.empty());
}

TEST(Safetensors, TensorsAreSortedByTheirBytes) {
  const Bytes bytes =
      with_header(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2],"unknown":[{}]},
                      "b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                  "BA");
  const Result<Safetensors> parsed = parse_safetensors(bytes);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().to_string();
  EXPECT_EQ(parsed->tensors[0].name, "b");
  EXPECT_EQ(parsed->tensors[0].data, "B");
  EXPECT_EQ(parsed->tensors[1].data, "A");
}

TEST(Safetensors, TruncationAtEveryLengthIsNoticed) {
  const Bytes bytes = write_safetensors(sample());
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Result<Safetensors> parsed = parse_safetensors(BytesView(bytes).substr(0, length));
    ASSERT_FALSE(parsed.has_value()) << length;
    EXPECT_EQ(parsed.error().code, Code::corrupt);
  }
  EXPECT_FALSE(parse_safetensors(bytes + "x").has_value());
}

TEST(Safetensors, HeaderLengthIsCheckedBeforeUse) {
  for (uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 63, ~uint64_t{0}, uint64_t{3}}) {
    Bytes bytes;
    for (size_t i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
    const Result<Safetensors> parsed = parse_safetensors(bytes + "{}");
    ASSERT_FALSE(parsed.has_value());
    EXPECT_EQ(parsed.error().code, Code::corrupt);
  }
}

TEST(Safetensors, AHeaderOfBracketsIsRefusedBeforeItIsParsed) {
  const std::string brackets(1'000'000, '[');
  expect_corrupt("{\"a\":" + brackets, "", "nested too deep");
  expect_corrupt("{\"a\":[" + std::string(1'000, '{') + "]}", "", "nested too deep");
  std::string dimensions = R"({"t":{"dtype":"U8","data_offsets":[0,1],"shape":[1)";
  for (int i = 0; i < 64; ++i) dimensions += ",1";
  expect_corrupt(dimensions + "]}}", "x", "no shape");
  // Brackets and quotes in names are only letters.
  const Bytes odd = write_safetensors(
      {.tensors = {{"[[[[[[[[[[[[[[[[[[[[[[\\\"{{{{{{{{{{{{{{{{{{{{{{{", "U8", {1}, "x"}}});
  EXPECT_TRUE(parse_safetensors(odd).has_value());
}

TEST(Safetensors, WrongHeadersAreNamed) {
  using namespace std::string_view_literals;
  expect_corrupt("", "", "no JSON object");
  expect_corrupt("[]", "", "no JSON object");
  expect_corrupt(" {}", "", "no JSON object");
  expect_corrupt("{} x", "", "no JSON object");
  expect_corrupt("{}\0 hidden"sv, "", "no JSON object");
  expect_corrupt("{\"\xff\":1}", "", "no JSON object");
  expect_corrupt("{}", "x", "end at 0 of 1");
  expect_corrupt(R"({"__metadata__":[]})", "", "__metadata__");
  expect_corrupt(R"({"__metadata__":{"a":1}})", "", "__metadata__");
  expect_corrupt(R"({"t":7})", "", "tensor 't'");
  expect_corrupt(R"({"t":{"shape":[1],"data_offsets":[0,1]}})", "x", "dtype");
  expect_corrupt(R"({"t":{"dtype":1,"shape":[1],"data_offsets":[0,1]}})", "x", "dtype");
  expect_corrupt(R"({"t":{"dtype":"X9","shape":[1],"data_offsets":[0,1]}})", "x", "unknown");
  expect_corrupt(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", "x", "shape");
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x", "shape");
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "x", "shape");
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", "x", "data_offsets");
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[1,0]}})", "x", "data_offsets");
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", "x", "data_offsets");
  expect_corrupt(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}})", "x", "4 bytes");
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "x", "end at 2 of 1");
}

TEST(Safetensors, ShapesThatOverflowAreRefused) {
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "",
                 "too large");
  expect_corrupt(R"({"t":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", "",
                 "too large");
  expect_corrupt(R"({"t":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]}})", "",
                 "shape");
}

TEST(Safetensors, GapsOverlapsAndRepeatedNamesAreRefused) {
  expect_corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy",
                 "begin at 1 instead of 0");
  expect_corrupt(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},
                     "b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                 "xyz", "begin at 1 instead of 2");
  expect_corrupt(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
                     "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                 "x", "twice");
}

TEST(Safetensors, RandomDamageNeverCrashes) {
  const Bytes whole = write_safetensors(sample());
  for (uint64_t round = 0; round < 20'000; ++round) {
    Random random(3, Stream::order, round);
    Bytes bytes = whole;
    for (uint32_t change = random.below(4) + 1; change > 0; --change) {
      const uint32_t at = random.below(static_cast<uint32_t>(bytes.size()));
      const uint32_t count = random.below(4);
      switch (random.below(3)) {
        case 0: bytes[at] = static_cast<char>(random.below(256)); break;
        case 1: bytes.erase(at, count); break;
        default: bytes.insert(at, std::string(count, "0{[\"-"[random.below(5)]));
      }
    }
    const Result<Safetensors> parsed = parse_safetensors(bytes);
    if (!parsed) {
      EXPECT_EQ(parsed.error().code, Code::corrupt) << "round " << round;
      continue;
    }
    for (const TensorView& tensor : parsed->tensors) {
      EXPECT_TRUE(tensor.data.empty() ||
                  (tensor.data.data() >= bytes.data() &&
                   tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size()))
          << "round " << round;
    }
  }
}

}  // namespace
}  // namespace tern
