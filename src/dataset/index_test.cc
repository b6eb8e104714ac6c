#include "dataset/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/crc32c.h"
#include "core/hash.h"
#include "dataset/index_format.h"
#include "dataset/test_folder.h"

namespace tern {
namespace {

using testing::HasSubstr;

// Two train samples (a JPEG, and raw pixels) and a test sample, in two files.
IndexContent small_content() {
  IndexContent content;
  content.entries = {{.offset = 24,
                      .length = 100,
                      .crc32c = 0x11223344,
                      .file = 0,
                      .label = 1,
                      .width = 20,
                      .height = 10,
                      .format = 1,
                      .channels = 3,
                      .orientation = 6,
                      .flags = 1},
                     {.offset = 128,
                      .length = 24,
                      .crc32c = 0x55667788,
                      .file = 0,
                      .label = 0,
                      .width = 4,
                      .height = 2,
                      .format = 0,
                      .channels = 3,
                      .orientation = 1,
                      .flags = 0},
                     {.offset = 0,
                      .length = 9,
                      .crc32c = 0x99AABBCC,
                      .file = 1,
                      .label = 1,
                      .width = 7,
                      .height = 5,
                      .format = 2,
                      .channels = 3,
                      .orientation = 1,
                      .flags = 0}};
  content.names = {"bee/1.jpg", "ant/2", "bee/3.png"};
  content.train_samples = 2;
  content.files = {{"shards/00000.shard", 152}, {"shards/00001.shard", 9}};
  content.about = {.source = "a test",
                   .representation = "orig",
                   .root = "",
                   .classes = {"ant", "bee"},
                   .class_titles = {"ant, emmet", "bee"},
                   .mean = {0.485, 0.1, 1.0 / 3},
                   .stddev = {0.25, 0.5, 1e-9},
                   .pixels_from = 2,
                   .bad = {{"bee/x.jpg", "it is empty"}},
                   .tern_version = "0.3"};
  return content;
}

Result<std::unique_ptr<DatasetIndex>> from(Bytes bytes) {
  return DatasetIndex::from_bytes(std::move(bytes), "the index");
}

Error error_of(Bytes bytes) {
  const auto index = from(std::move(bytes));
  return index ? fail(Code::internal, "it opened") : index.error();
}

IndexHeader header_of(const Bytes& bytes) {
  IndexHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header;
}

// Makes all checksums of a changed index right again, so that what is behind them is reached.
Bytes signed_again(Bytes bytes, IndexHeader header) {
  for (IndexSection& section : header.sections) {
    if (section.offset > bytes.size() || section.length > bytes.size() - section.offset) continue;
    section.crc32c = crc32c(BytesView(bytes).substr(section.offset, section.length));
  }
  header.crc32c = crc32c(
      BytesView(reinterpret_cast<const char*>(&header), sizeof header).substr(kIndexCheckedFrom));
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

// The bytes of docs/format_index.md, put together by hand.
class Page {
 public:
  Page& text(BytesView text) {
    bytes_.append(text);
    return *this;
  }
  Page& number(uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Page& name(BytesView name) { return number(name.size(), 2).text(name); }
  Page& field(BytesView field) { return number(field.size(), 8).text(field); }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
};

Bytes id_by_the_page() {
  Page page;
  page.field("tern-dataset-index-2").number(2, 8).field("ant").field("bee");
  page.number(2, 8);
  page.field("bee/1.jpg");
  for (const uint64_t n : {100UL, 1UL, 0x11223344UL, 1UL, 20UL, 10UL, 3UL}) page.number(n, 8);
  page.field("ant/2");
  for (const uint64_t n : {24UL, 0UL, 0x55667788UL, 0UL, 4UL, 2UL, 3UL}) page.number(n, 8);
  page.number(1, 8);
  page.field("bee/3.png");
  for (const uint64_t n : {9UL, 1UL, 0x99AABBCCUL, 2UL, 7UL, 5UL, 3UL}) page.number(n, 8);
  const Digest digest = sha256(page.bytes());
  return Bytes(digest.begin(), digest.end());
}

void add_entry(Page& page, uint64_t offset, uint64_t name, const std::vector<uint32_t>& words,
               uint64_t width, uint64_t height, const std::vector<uint8_t>& tail) {
  page.number(offset, 8).number(name, 8);
  for (const uint32_t word : words) page.number(word, 4);
  page.number(width, 2).number(height, 2);
  for (const uint8_t byte : tail) page.number(byte, 1);
}

TEST(DatasetIndex, ItsBytesAreThoseOfThePage) {
  Page entries, files, names, about;
  add_entry(entries, 24, 0, {100, 0x11223344, 0, 1}, 20, 10, {1, 3, 6, 1});
  add_entry(entries, 128, 11, {24, 0x55667788, 0, 0}, 4, 2, {0, 3, 1, 0});
  add_entry(entries, 0, 18, {9, 0x99AABBCC, 1, 1}, 7, 5, {2, 3, 1, 0});
  files.number(29, 8).number(152, 8).number(49, 8).number(9, 8);
  names.name("bee/1.jpg").name("ant/2").name("bee/3.png");
  names.name("shards/00000.shard").name("shards/00001.shard");
  about.text(R"({"bad":[{"cause":"it is empty","name":"bee/x.jpg"}],)"
             R"("class_titles":["ant, emmet","bee"],"classes":["ant","bee"],)"
             R"("mean":[0.485,0.1,0.3333333333333333],"pixels_from":2,)"
             R"("representation":"orig","root":"","source":"a test",)"
             R"("stddev":[0.25,0.5,1e-09],"tern_version":"0.3"})");
  ASSERT_EQ(entries.bytes().size(), 120U);
  ASSERT_EQ(names.bytes().size(), 69U);

  Page header;  // from the id on: what its checksum covers
  header.text(id_by_the_page());
  header.number(176 + 120 + 32 + 69 + 3 + about.bytes().size(), 8);
  header.number(3, 8).number(2, 8).number(2, 8);
  const auto section = [&](uint64_t offset, const Page& page) {
    header.number(offset, 8).number(page.bytes().size(), 8);
    header.number(crc32c(page.bytes()), 4).number(0, 4);
  };
  section(176, entries);
  section(296, files);
  section(328, names);
  section(400, about);
  Page whole;
  whole.text("TERNSET1").number(1, 4).number(crc32c(header.bytes()), 4).text(header.bytes());
  whole.text(entries.bytes()).text(files.bytes()).text(names.bytes());
  whole.text(Bytes(3, '\0')).text(about.bytes());
  EXPECT_EQ(encode_index(small_content()), whole.bytes());
}

TEST(DatasetIndex, GivesBackWhatWasWritten) {
  const TestFolder folder;
  const IndexContent content = small_content();
  const auto opened = DatasetIndex::open(folder.write(kIndexFile, encode_index(content)));
  ASSERT_TRUE(opened) << opened.error().to_string();
  const DatasetIndex& index = **opened;
  EXPECT_EQ(index.samples(), 3);
  EXPECT_EQ(index.first(Split::test), 2);
  EXPECT_EQ(index.count(Split::train), 2);
  EXPECT_EQ(index.count(Split::test), 1);
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(index.name(i), content.names[static_cast<size_t>(i)]);
    IndexEntry expected = content.entries[static_cast<size_t>(i)];
    expected.name = index.entry(i).name;
    EXPECT_EQ(std::memcmp(&index.entry(i), &expected, sizeof expected), 0) << i;
  }
  const ImageInfo info = index.entry(0).info();
  EXPECT_EQ(info, (ImageInfo{ImageFormat::jpeg, {20, 10}, 3, 6, true}));
  ASSERT_EQ(index.files(), 2);
  EXPECT_EQ(index.file_path(1), "shards/00001.shard");
  EXPECT_EQ(index.file_bytes(0), 152);
  EXPECT_EQ(index.about(), content.about);
  EXPECT_EQ(index.classes(), 2);
  const auto copy = from(encode_index(content));
  ASSERT_TRUE(copy);
  EXPECT_EQ((*copy)->id(), index.id());
  EXPECT_EQ((*copy)->name(2), "bee/3.png");
}

TEST(DatasetIndex, MayBeEmpty) {
  const auto index = from(encode_index({}));
  ASSERT_TRUE(index) << index.error().to_string();
  EXPECT_EQ((*index)->samples(), 0);
  EXPECT_EQ((*index)->files(), 0);
  EXPECT_EQ((*index)->classes(), 0);
}

TEST(DatasetIndex, TheIdIsThatOfThePage) {
  const auto index = from(encode_index(small_content()));
  ASSERT_TRUE(index);
  Digest id;
  std::memcpy(id.data(), id_by_the_page().data(), id.size());
  EXPECT_EQ((*index)->id(), to_hex(id));
  Page page;
  page.field("tern-dataset-split-2").field((*index)->id()).field("test");
  EXPECT_EQ((*index)->id(Split::test), to_hex(sha256(page.bytes())));
  EXPECT_NE((*index)->id(Split::test), (*index)->id(Split::train));
}

TEST(DatasetIndex, TheIdDoesNotDependOnWhereTheBytesLie) {
  const auto id_of = [](const IndexContent& content) {
    return (*from(encode_index(content)))->id();
  };
  const std::string id = id_of(small_content());
  IndexContent moved = small_content();
  moved.files = {{"bee/1.jpg", 100}, {"ant/2", 30}, {"bee/3.png", 9}};
  for (uint32_t i = 0; i < 3; ++i) moved.entries[i].file = i;
  for (IndexEntry& entry : moved.entries) entry.offset = 0;
  moved.about.root = "/data/insects";
  moved.about.source = "somewhere else";
  moved.about.bad.clear();
  EXPECT_EQ(id_of(moved), id);

  const auto changed = [&](auto change) {
    IndexContent content = small_content();
    change(content);
    return id_of(content);
  };
  EXPECT_NE(changed([](auto& c) { c.names[0] = "bee/1.jpeg"; }), id);
  EXPECT_NE(changed([](auto& c) { c.entries[0].crc32c ^= 1; }), id);
  EXPECT_NE(changed([](auto& c) { c.entries[0].length -= 1; }), id);
  EXPECT_NE(changed([](auto& c) { c.entries[0].label = 0; }), id);
  EXPECT_NE(changed([](auto& c) { c.entries[0].format = 2; }), id);
  EXPECT_NE(changed([](auto& c) { c.entries[0].width += 1; }), id);
  EXPECT_NE(changed([](auto& c) { c.entries[0].height += 1; }), id);
  EXPECT_NE(changed([](auto& c) { c.train_samples = 1; }), id);
  EXPECT_NE(changed([](auto& c) { c.about.classes[1] = "wasp"; }), id);
}

TEST(DatasetIndex, EveryFlippedBitIsNoticed) {
  Bytes bytes = encode_index(small_content());
  ASSERT_TRUE(from(bytes));
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    Bytes flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(from(std::move(flipped))) << "byte " << bit / 8;
  }
}

TEST(DatasetIndex, EveryOtherLengthIsNoticed) {
  const TestFolder folder;
  const Bytes bytes = encode_index(small_content());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_EQ(error_of(bytes.substr(0, length)).code, Code::corrupt) << length;
  }
  EXPECT_EQ(error_of(bytes + '\0').code, Code::corrupt);
  const auto empty = DatasetIndex::open(folder.write("empty", ""));
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, Code::corrupt);
  EXPECT_FALSE(DatasetIndex::open(folder.write("cut", bytes.substr(0, 300))));
}

TEST(DatasetIndex, CountsAndSectionsThatOverflowAreRefused) {
  const Bytes bytes = encode_index(small_content());
  const IndexHeader good = header_of(bytes);
  ASSERT_TRUE(from(signed_again(bytes, good)));
  const auto refused = [&](auto change) {
    IndexHeader header = good;
    change(header);
    return error_of(signed_again(bytes, header)).code == Code::corrupt;
  };
  const uint64_t huge = std::numeric_limits<uint64_t>::max();
  // Times 40 and times 16 these are the lengths of the sections, modulo 2^64.
  EXPECT_TRUE(refused([](IndexHeader& h) { h.samples = 3 + (uint64_t{1} << 61); }));
  EXPECT_TRUE(refused([](IndexHeader& h) { h.files = 2 + (uint64_t{1} << 60); }));
  for (const uint64_t value : {uint64_t{0}, uint64_t{4}, uint64_t{1} << 32, uint64_t{1} << 60,
                               uint64_t{1} << 63, huge / 40, huge / 16 + 1, huge - 7, huge}) {
    EXPECT_TRUE(refused([&](IndexHeader& h) { h.samples = value; })) << value;
    EXPECT_TRUE(refused([&](IndexHeader& h) { h.files = value; })) << value;
    EXPECT_TRUE(refused([&](IndexHeader& h) { h.file_bytes = value; })) << value;
    if (value > 3) {
      EXPECT_TRUE(refused([&](IndexHeader& h) { h.train_samples = value; })) << value;
    }
    for (size_t i = 0; i < kIndexSections; ++i) {
      EXPECT_TRUE(refused([&](IndexHeader& h) { h.sections[i].offset = value; })) << value;
      EXPECT_TRUE(refused([&](IndexHeader& h) { h.sections[i].length = value; })) << value;
    }
  }
  EXPECT_TRUE(refused([&](IndexHeader& h) { h.sections[2].zero = 1; }));
  EXPECT_TRUE(refused([&](IndexHeader& h) {  // two sections that share the same bytes
    h.sections[1].offset = h.sections[0].offset;
  }));
}

TEST(DatasetIndex, PaddingThatIsNotZeroIsRefused) {
  Bytes bytes = encode_index(small_content());
  bytes[397] = 1;
  EXPECT_THAT(error_of(bytes).message, HasSubstr("between its sections"));
}

TEST(DatasetIndex, AnotherVersionSaysWhatToDo) {
  Bytes bytes = encode_index(small_content());
  bytes[8] = 2;
  EXPECT_EQ(error_of(bytes).code, Code::failed_precondition);
  EXPECT_THAT(error_of(bytes).message, HasSubstr("use the tern that made it"));
}

// Each check of an entry, reached behind checksums that are right.
TEST(DatasetIndex, AnEntryThatLeavesItsLimitsIsNamed) {
  const auto problem = [](auto change) {
    IndexContent content = small_content();
    change(content.entries[1], content);
    return error_of(encode_index(content)).message;
  };
  using Entry = IndexEntry;
  using Content = IndexContent;
  EXPECT_THAT(problem([](Entry& e, Content&) { e.file = 2; }), HasSubstr("sample 1: there is no"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.offset = 129; }), HasSubstr("outside its file"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.offset = ~uint64_t{0} - 23; }),
              HasSubstr("outside its file"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.length = ~uint32_t{0}; }),
              HasSubstr("outside its file"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.label = 2; }), HasSubstr("label 2 of 2 classes"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.format = 3; }), HasSubstr("format 3"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.width = 0; }), HasSubstr("0x2 pixels"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.height = 0; }), HasSubstr("4x0 pixels"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.width = e.height = 65535; }),
              HasSubstr("65535x65535 pixels"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.channels = 2; }), HasSubstr("2 channels"));
  // JPEG and PNG are decoded to three.
  EXPECT_THAT(problem([](Entry&, Content& c) { c.entries[0].channels = 1; }),
              HasSubstr("sample 0: 1 channels"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.orientation = 0; }), HasSubstr("orientation 0"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.orientation = 9; }), HasSubstr("orientation 9"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.flags = 2; }), HasSubstr("flags 2"));
  EXPECT_THAT(problem([](Entry& e, Content&) { e.length = 23; }), HasSubstr("23 bytes of raw"));
  EXPECT_THAT(
      problem([](Entry&, Content& c) { c.about.classes.clear(), c.about.class_titles.clear(); }),
      HasSubstr("sample 0: label 1 of 0 classes"));
  EXPECT_EQ(problem([](Entry& e, Content&) { e.offset = 0; }), "it opened");
}

TEST(DatasetIndex, ABadEntryBehindManyGoodOnesIsNamed) {
  IndexContent content = small_content();
  content.entries.assign(1000, content.entries[0]);
  content.names.assign(1000, "a");
  content.entries[777].label = 9;
  content.entries[999].label = 9;
  EXPECT_THAT(error_of(encode_index(content)).message, HasSubstr("sample 777: label 9"));
}

TEST(DatasetIndex, NamesThatLeaveTheNamesAreRefused) {
  const Bytes bytes = encode_index(small_content());
  const IndexHeader header = header_of(bytes);
  // 69 bytes of names. At 67 a length is read from the last two bytes and is too large; at 68 there
  // is no room for one.
  for (const uint64_t at : {uint64_t{67}, uint64_t{68}, uint64_t{69}, uint64_t{1} << 40,
                            ~uint64_t{0} - 1, ~uint64_t{0}}) {
    Bytes changed = bytes;
    std::memcpy(changed.data() + 176 + 40 + 8, &at, sizeof at);
    EXPECT_THAT(error_of(signed_again(changed, header)).message, HasSubstr("sample 1: its name"));
    changed = bytes;
    std::memcpy(changed.data() + 296, &at, sizeof at);
    EXPECT_THAT(error_of(signed_again(changed, header)).message, HasSubstr("file 0 has no path"));
  }
}

TEST(DatasetIndex, FilesStayBelowTheFolder) {
  const auto opens = [](const std::string& path) {
    IndexContent content = small_content();
    content.files[1].path = path;
    return from(encode_index(content)).has_value();
  };
  EXPECT_TRUE(opens("a/b..c/..d/e.."));
  for (const char* path : {"", "/etc/passwd", "..", "../x", "a/../../x", "a/.."}) {
    EXPECT_FALSE(opens(path)) << path;
  }
  EXPECT_FALSE(opens(std::string("a\0b", 3)));
  IndexContent content = small_content();
  content.files[1].size_bytes = -1;
  EXPECT_FALSE(from(encode_index(content)));
}

// The description with one member changed, under right checksums.
Bytes with_about(const std::string& about) {
  Bytes bytes = encode_index(small_content());
  IndexHeader header = header_of(bytes);
  bytes.resize(header.sections[kAbout].offset);
  bytes.append(about);
  header.sections[kAbout].length = about.size();
  header.file_bytes = bytes.size();
  return signed_again(bytes, header);
}

TEST(DatasetIndex, ADescriptionOfOtherTypesIsRefused) {
  const nlohmann::json good = nlohmann::json::parse(format_about(small_content().about));
  nlohmann::json more = good;
  more["later"] = {1, {{"deep", {{{{{}}}}}}}};
  EXPECT_TRUE(from(with_about(more.dump()))) << "unknown members are passed over";
  for (const auto& [key, value] : good.items()) {
    const std::string& member = key;
    nlohmann::json changed = good;
    changed.erase(member);
    EXPECT_THAT(error_of(with_about(changed.dump())).message, HasSubstr("'" + member + "'"));
    for (const nlohmann::json& wrong :
         {nlohmann::json(), nlohmann::json(1.5), nlohmann::json({{"a", 1}}),
          nlohmann::json::array({nlohmann::json::array()}), nlohmann::json(true)}) {
      changed[member] = wrong;
      EXPECT_EQ(error_of(with_about(changed.dump())).code, Code::corrupt) << member << wrong;
    }
  }
  nlohmann::json negative = good;
  negative["pixels_from"] = -1;
  EXPECT_FALSE(from(with_about(negative.dump())));
  negative["pixels_from"] = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(from(with_about(negative.dump())));
  nlohmann::json titles = good;
  titles["class_titles"] = {"one"};
  EXPECT_FALSE(from(with_about(titles.dump())));
  for (const char* text : {"", "{", "[]", "null", "{\"a\":1e999}", "\xFF", "{} {}"}) {
    EXPECT_EQ(error_of(with_about(text)).code, Code::corrupt) << text;
  }
  EXPECT_FALSE(from(with_about(Bytes(1 << 20, '['))));
}

TEST(DatasetIndex, NamesNeedNotBeUtf8) {
  IndexContent content = small_content();
  content.names[0] = "b\xFF/1";
  content.about.classes[0] = "b\xFF";
  content.names[1] = Bytes(kSampleNameBytesMax, 'n');
  content.names[2] = "";
  const auto index = from(encode_index(content));
  ASSERT_TRUE(index) << index.error().to_string();
  EXPECT_EQ((*index)->name(0), "b\xFF/1");
  EXPECT_EQ((*index)->name(1).size(), kSampleNameBytesMax);
  EXPECT_EQ((*index)->name(2), "");
  EXPECT_EQ((*index)->about().classes[0], "b\xEF\xBF\xBD");
  IndexContent replaced = content;
  replaced.about.classes[0] = "b\xEF\xBF\xBD";
  EXPECT_EQ((*from(encode_index(replaced)))->id(), (*index)->id());
}

TEST(DatasetIndex, WhatIsNoIndexSaysSo) {
  const TestFolder folder;
  const auto absent = DatasetIndex::open(folder.path() + "/none");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::not_found);
  const auto other = DatasetIndex::open(folder.write("x.png", "\x89PNG"));
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("x.png is no index"));
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_FALSE(DatasetIndex::open(pipe)) << "and does not wait for a writer";
  EXPECT_FALSE(DatasetIndex::open(folder.path()));
}

}  // namespace
}  // namespace tern
