#include "import/mat_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/test_folder.h"
#include "import/test_mat.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<TestSynset> kSynsets = {{1, "n01440764", "tench, Tinca tinca"},
                                          {2, "n01443537", "caf\xe9"}};

Bytes sample_file(const MatWriter& mat, bool is_compressed) {
  const Bytes other = mat.matrix(6, {1, 1}, "other", mat.element(9, mat.number(1.0)));
  const Bytes synsets = synsets_matrix(mat, kSynsets);
  if (!is_compressed) return mat.file(other + synsets);
  return mat.file(mat.compressed(other) + mat.compressed(synsets));
}

TEST(MatFile, StructsAreReadInBothByteOrdersPackedOrNot) {
  for (const bool is_big_endian : {false, true}) {
    for (const bool is_compressed : {false, true}) {
      const auto structs =
          read_mat_structs(sample_file(MatWriter(is_big_endian), is_compressed), "synsets");
      ASSERT_TRUE(structs) << structs.error().to_string();
      ASSERT_THAT(*structs, SizeIs(2));
      const MatStruct& first = structs->at(0);
      EXPECT_TRUE(first.at("ILSVRC2012_ID").is_number);
      EXPECT_EQ(first.at("ILSVRC2012_ID").number, 1);
      EXPECT_EQ(first.at("WNID").text, "n01440764");
      EXPECT_EQ(first.at("words").text, "tench, Tinca tinca");
      EXPECT_FALSE(first.at("children").is_number);
      EXPECT_EQ(structs->at(1).at("ILSVRC2012_ID").number, 2);
      EXPECT_EQ(structs->at(1).at("words").text, "caf\xc3\xa9");
    }
  }
}

TEST(MatFile, EveryStoredTypeOfNumberAndTextIsRead) {
  const MatWriter mat(false);
  const auto value_of = [&](const Bytes& matrix) {
    const auto structs = read_mat_structs(mat.file(mat.structs("s", 1, {"f"}, {matrix})), "s");
    EXPECT_TRUE(structs) << structs.error().to_string();
    return structs->at(0).at("f");
  };
  const auto number = [&](uint32_t type, const Bytes& data) {
    return value_of(mat.matrix(6, {1, 1}, "", mat.element(type, data))).number;
  };
  EXPECT_EQ(number(1, mat.number(int8_t{-3})), -3);
  EXPECT_EQ(number(2, mat.number(uint8_t{200})), 200);
  EXPECT_EQ(number(3, mat.number(int16_t{-300})), -300);
  EXPECT_EQ(number(5, mat.number(int32_t{-70'000})), -70'000);
  EXPECT_EQ(number(6, mat.number(uint32_t{4'000'000'000})), 4e9);
  EXPECT_EQ(number(7, mat.number(0.5F)), 0.5);
  EXPECT_EQ(value_of(mat.matrix(4, {1, 2}, "", mat.element(16, "h\xc3\xa9"))).text, "h\xc3\xa9");
  EXPECT_EQ(value_of(mat.matrix(4, {1, 2}, "", mat.small_element(2, "h\xe9"))).text, "h\xc3\xa9");
  EXPECT_EQ(value_of(mat.matrix(4, {1, 1}, "", mat.element(17, mat.number(uint16_t{0x65e5})))).text,
            "\xe6\x97\xa5");
  EXPECT_FALSE(value_of(mat.matrix(1, {0, 0}, "", "")).is_text);  // a cell
  EXPECT_FALSE(value_of(mat.element(14, "")).is_number);          // []
}

TEST(MatFile, WhatIsNotThereIsSaid) {
  const MatWriter mat(false);
  EXPECT_EQ(read_mat_structs(sample_file(mat, true), "nothing").error().code, Code::not_found);
  EXPECT_EQ(read_mat_structs(sample_file(mat, true), "other").error().code, Code::corrupt);
  Bytes file = sample_file(mat, true);
  file[125] = 2;
  EXPECT_THAT(read_mat_structs(file, "synsets").error().message, HasSubstr("another version"));
  file.replace(126, 2, "HD");
  EXPECT_THAT(read_mat_structs(file, "synsets").error().message, HasSubstr("no MAT-file"));
  const auto none = read_mat_structs(mat.file(mat.structs("s", 0, {"f"}, {})), "s");
  ASSERT_TRUE(none);
  EXPECT_THAT(*none, IsEmpty());
}

TEST(MatFile, CutShortAnywhereIsAnError) {
  for (const bool is_compressed : {false, true}) {
    const Bytes whole = sample_file(MatWriter(false), is_compressed);
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto structs = read_mat_structs(whole.substr(0, length), "synsets");
      // Only the padding behind the last element may be missing.
      if (structs) {
        EXPECT_GE(length + 8, whole.size());
      }
    }
  }
}

TEST(MatFile, FlippedBitsNeverReadBeyondTheBytes) {
  for (const bool is_big_endian : {false, true}) {
    const Bytes whole = sample_file(MatWriter(is_big_endian), false);
    for (size_t at = 120; at < whole.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Bytes damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
        (void)read_mat_structs(damaged, "synsets").has_value();
      }
    }
  }
}

TEST(MatFile, ClaimsTakeNoMemory) {
  const MatWriter mat(false);
  const Bytes many = mat.structs("s", 0x7fffffff, {"f"}, {});
  EXPECT_EQ(read_mat_structs(mat.file(many), "s").error().code, Code::corrupt);
  Bytes longest = mat.structs("s", 1, {"f"}, {mat.number_matrix(1)});
  longest.replace(4, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(read_mat_structs(mat.file(longest), "s").error().code, Code::corrupt);
  const Bytes bomb = mat.compressed(Bytes(size_t{17} << 20, '\0'));
  EXPECT_EQ(read_mat_structs(mat.file(bomb), "s").error().code, Code::exhausted);
  EXPECT_FALSE(read_mat_structs(mat.file(mat.compressed("")), "s"));
  EXPECT_FALSE(read_mat_structs(mat.file(varied_bytes(1000)), "s"));
}

}  // namespace
}  // namespace tern
