#include "storage/sequence_record.h"

#include <gtest/gtest.h>

#include "core/hash.h"
#include "core/random.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "storage/sequence_reader.h"

namespace tern {
namespace {

Holder holder() { return {"0123abcd", "tern-3", "boot", "pid:[1]", 4711, 99}; }

SequenceRecord checkpoint(int64_t number, const std::vector<Bytes>& blobs) {
  SequenceRecord record{.number = number,
                        .kind = RecordKind::checkpoint,
                        .holder = holder(),
                        .unix_ms = 1'700'000'000'123,
                        .lease = 1,
                        .best = true,
                        .state = "{\"step\": 12,\n \"näme\": 0.1}"};
  for (const Bytes& bytes : blobs) {
    const std::string hash = to_hex(sha256(bytes));
    record.blobs.push_back({blob_object(1, hash), hash, static_cast<int64_t>(bytes.size())});
  }
  return record;
}

// Two checkpoints, 2 and 3, as a publisher would leave them.
class TwoCheckpoints {
 public:
  TwoCheckpoints() {
    publish(checkpoint(2, {old_blob_}), {old_blob_});
    publish(checkpoint(3, {new_blob_}), {new_blob_});
  }
  ObjectStore& store() { return store_; }
  std::string newest_record() const { return record_object(3); }
  std::string newest_blob() const { return blob_object(1, to_hex(sha256(new_blob_))); }

  void expect_previous_is_used(std::string_view reason) {
    const Result<NewestCheckpoint> newest = newest_checkpoint(store_);
    ASSERT_TRUE(newest.has_value()) << newest.error().to_string();
    ASSERT_TRUE(newest->found.has_value());
    EXPECT_EQ(newest->found->record.number, 2);
    EXPECT_EQ(newest->found->blobs, std::vector<Bytes>{old_blob_});
    ASSERT_EQ(newest->damaged.size(), 1u);
    EXPECT_EQ(newest->damaged[0].number, 3);
    EXPECT_EQ(newest->damaged[0].error.code, Code::corrupt);
    EXPECT_NE(newest->damaged[0].error.message.find(reason), std::string::npos)
        << newest->damaged[0].error.message;
  }

 private:
  void publish(const SequenceRecord& record, const std::vector<Bytes>& blobs) {
    for (size_t i = 0; i < blobs.size(); ++i) {
      EXPECT_TRUE(store_.put(record.blobs[i].object, blobs[i]));
    }
    EXPECT_TRUE(store_.create(record_object(record.number), format_record(record)));
  }

  const Bytes old_blob_ = "old weights";
  const Bytes new_blob_ = "new weights";
  MemoryStore store_;
};

TEST(SequenceRecord, ReadsBackWhatItWrote) {
  SequenceRecord whole = checkpoint(12, {"a", "", "b"});
  const Result<SequenceRecord> parsed = parse_record(format_record(whole), 12);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().to_string();
  EXPECT_EQ(*parsed, whole);

  const SequenceRecord release{
      .number = 3, .kind = RecordKind::release, .holder = holder(), .unix_ms = 5, .lease = 2};
  EXPECT_EQ(*parse_record(format_record(release), 3), release);
  const SequenceRecord pruned{.number = 3, .kind = RecordKind::pruned};
  EXPECT_EQ(*parse_record(format_record(pruned), 3), pruned);
}

TEST(SequenceRecord, BytesAreThoseOfTheFormatPage) {
  const Bytes bytes = format_record({.number = 3, .kind = RecordKind::pruned});
  const std::string line = R"({"format":1,"kind":"pruned","number":3})";
  EXPECT_EQ(bytes, line + "\nsha256 " + to_hex(sha256(line)) + "\n");
}

TEST(SequenceRecord, NamesHaveOneSpelling) {
  EXPECT_EQ(record_object(12), "00000012.json");
  EXPECT_EQ(record_object(123'456'789), "123456789.json");
  for (int64_t number : {int64_t{1}, int64_t{12}, int64_t{99'999'999}, int64_t{123'456'789}}) {
    EXPECT_EQ(record_number(record_object(number)), number);
  }
  for (const char* name : {"12.json", "00000000.json", "000000012.json", "0000001x.json", ".json",
                           "00000012.jso", "00000012.json.tmp", "-0000012.json", "blobs/1.json",
                           "9223372036854775807.json", "99999999999999999999.json"}) {
    EXPECT_EQ(record_number(name), std::nullopt) << name;
  }
  const std::string hash(64, 'a');
  EXPECT_EQ(blob_lease(blob_object(7, hash)), 7);
  EXPECT_EQ(blob_lease("blobs/00000007/../../00000001.json"), std::nullopt);
  EXPECT_EQ(blob_lease("blobs/7/" + hash), std::nullopt);
  EXPECT_EQ(blob_lease("blobs/00000007/" + hash + "/x"), std::nullopt);
}

TEST(SequenceRecord, RecordUnderAnotherNumberIsDamaged) {
  const Result<SequenceRecord> parsed = parse_record(format_record(checkpoint(12, {})), 13);
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().code, Code::corrupt);
}

// A record with a right hash over a line of our choice: what a buggy writer could leave.
Bytes signed_line(const std::string& line) {
  return line + "\nsha256 " + to_hex(sha256(line)) + "\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(SequenceRecord, MissingOrWronglyTypedFieldsAreDamage) {
  const Bytes whole = format_record(checkpoint(2, {"a"}));
  const std::string line = whole.substr(0, whole.find('\n'));
  ASSERT_TRUE(parse_record(signed_line(line), 2));
  for (const char* name : {"format", "number", "kind", "holder", "token", "host", "boot_id", "pid",
                           "pid_namespace", "pid_start", "unix_ms", "lease", "best", "state",
                           "blobs", "object", "sha256", "size_bytes"}) {
    const std::string key = "\"" + std::string(name) + "\":";
    const Result<SequenceRecord> missing =
        parse_record(signed_line(replaced(line, key, "\"other\":")), 2);
    ASSERT_FALSE(missing.has_value()) << name;
    EXPECT_EQ(missing.error().code, Code::corrupt);
    const Result<SequenceRecord> wrong =
        parse_record(signed_line(replaced(line, key, key + "null,\"other\":")), 2);
    ASSERT_FALSE(wrong.has_value()) << name;
    EXPECT_EQ(wrong.error().code, Code::corrupt);
  }
  const auto refuse = [&](const std::string& from, const std::string& to) {
    EXPECT_FALSE(parse_record(signed_line(replaced(line, from, to)), 2).has_value()) << to;
  };
  refuse("\"size_bytes\":1", "\"size_bytes\":-1");
  refuse("\"size_bytes\":1", "\"size_bytes\":18446744073709551615");
  refuse("blobs/00000001/", "../00000001/");
  refuse("\"checkpoint\"", "\"chequepoint\"");
  refuse("0123abcd", "");
  for (const char* text : {"", "[]", "7", "null", "{", "{}x"}) {
    EXPECT_FALSE(parse_record(signed_line(text), 2).has_value()) << text;
  }
}

TEST(SequenceRecord, UnknownFieldsAreTolerated) {
  const Bytes whole = format_record(checkpoint(2, {"a"}));
  const std::string line = replaced(whole.substr(0, whole.find('\n')), "{", "{\"new\":[1],");
  EXPECT_TRUE(parse_record(signed_line(line), 2).has_value());
}

TEST(SequenceRecord, NewerFormatIsNotMistakenForDamage) {
  TwoCheckpoints two;
  const Bytes bytes = signed_line(R"({"format":2,"number":3})");
  ASSERT_TRUE(two.store().put(two.newest_record(), bytes));
  EXPECT_EQ(parse_record(bytes, 3).error().code, Code::failed_precondition);
  EXPECT_EQ(newest_checkpoint(two.store()).error().code, Code::failed_precondition);
}

TEST(SequenceRecord, TextThatIsNoUtf8DoesNotThrow) {
  SequenceRecord record = checkpoint(2, {});
  record.holder.host = "\xff\xfe";
  EXPECT_TRUE(parse_record(format_record(record), 2).has_value());
}

TEST(SequenceReader, EveryFlippedBitOfARecordIsNamedAndThePreviousCheckpointUsed) {
  TwoCheckpoints two;
  const Bytes whole = *two.store().get(two.newest_record());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(two.store().put(two.newest_record(), flipped));
    two.expect_previous_is_used("record 3 is damaged");
    if (HasFailure()) FAIL() << "bit " << bit;
  }
}

TEST(SequenceReader, EveryFlippedBitOfABlobIsNamedAndThePreviousCheckpointUsed) {
  TwoCheckpoints two;
  const Bytes whole = *two.store().get(two.newest_blob());
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(two.store().put(two.newest_blob(), flipped));
    two.expect_previous_is_used("hash differs");
    if (HasFailure()) FAIL() << "bit " << bit;
  }
}

TEST(SequenceReader, TruncationAtEveryLengthIsNamed) {
  TwoCheckpoints two;
  for (const std::string& object : {two.newest_record(), two.newest_blob()}) {
    const Bytes whole = *two.store().get(object);
    for (size_t length = 0; length < whole.size(); ++length) {
      ASSERT_TRUE(two.store().put(object, BytesView(whole).substr(0, length)));
      two.expect_previous_is_used("damaged");
      if (HasFailure()) FAIL() << object << " cut at " << length;
    }
    ASSERT_TRUE(two.store().put(object, whole + "x"));
    two.expect_previous_is_used("damaged");
    ASSERT_TRUE(two.store().put(object, whole));
  }
}

TEST(SequenceReader, MissingBlobIsDamage) {
  TwoCheckpoints two;
  ASSERT_TRUE(two.store().remove(two.newest_blob()));
  two.expect_previous_is_used("is missing");
}

TEST(SequenceReader, NoneLeftIsSaidAndNothingIsRemoved) {
  TwoCheckpoints two;
  ASSERT_TRUE(two.store().put(record_object(2), ""));
  ASSERT_TRUE(two.store().put(record_object(3), "torn"));
  const Result<NewestCheckpoint> newest = newest_checkpoint(two.store());
  ASSERT_TRUE(newest.has_value());
  EXPECT_FALSE(newest->found.has_value());
  ASSERT_EQ(newest->damaged.size(), 2u);
  EXPECT_EQ(newest->damaged[0].number, 3);
  EXPECT_EQ(newest->damaged[1].number, 2);
  EXPECT_EQ(two.store().list("")->size(), 4u);
}

TEST(SequenceReader, RecordsAreOrderedByNumberAndForeignObjectsSkipped) {
  TwoCheckpoints two;
  ASSERT_TRUE(two.store().put("notes.txt", "a person's"));
  ASSERT_TRUE(
      two.store().put(record_object(100'000'000), format_record(checkpoint(100'000'000, {}))));
  ASSERT_TRUE(two.store().put(record_object(99'999'999), "torn"));
  EXPECT_EQ(record_numbers(*two.store().list("")),
            (std::vector<int64_t>{2, 3, 99'999'999, 100'000'000}));
  EXPECT_EQ(newest_checkpoint(two.store())->found->record.number, 100'000'000);
  EXPECT_EQ(newest_record(two.store())->record->number, 100'000'000);
}

TEST(SequenceReader, NewestRecordPassesDamageAndTombstonesAndReadsNoFurther) {
  TwoCheckpoints two;
  ASSERT_TRUE(two.store().put(record_object(4), "torn"));
  ASSERT_TRUE(
      two.store().put(record_object(5), format_record({.number = 5, .kind = RecordKind::pruned})));
  ASSERT_TRUE(two.store().put(record_object(6), "torn too"));
  FaultyStore counted(two.store());
  const Result<NewestRecord> newest = newest_record(counted);
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->number, 6);
  ASSERT_TRUE(newest->record.has_value());
  EXPECT_EQ(newest->record->number, 3);
  ASSERT_EQ(newest->damaged.size(), 2u);
  EXPECT_EQ(newest->damaged[0].number, 6);
  EXPECT_EQ(newest->damaged[1].number, 4);
  EXPECT_EQ(counted.requests(), 5) << "one list, records 6 to 3";

  counted.inject(counted.requests() + 2, Fault::fail_before);
  EXPECT_EQ(newest_record(counted).error().code, Code::unavailable) << "unread is not damaged";
  MemoryStore empty;
  EXPECT_EQ(newest_record(empty)->number, 0);
  EXPECT_FALSE(newest_record(empty)->record.has_value());
}

TEST(SequenceRecord, RandomDamageNeverCrashesNorPasses) {
  const Bytes whole = format_record(checkpoint(2, {"a", "b"}));
  const std::string line = whole.substr(0, whole.find('\n'));
  for (uint64_t round = 0; round < 20'000; ++round) {
    Random random(5, Stream::order, round);
    std::string text = round % 2 == 0 ? whole : line;
    for (uint32_t change = random.below(4) + 1; change > 0; --change) {
      const uint32_t at = random.below(static_cast<uint32_t>(text.size()));
      const uint32_t count = random.below(4);
      switch (random.below(3)) {
        case 0: text[at] = static_cast<char>(text[at] ^ (1 + random.below(255))); break;
        case 1: text.erase(at, count); break;
        default: text.insert(at, std::string(count, "0{[\"-"[random.below(5)]));
      }
    }
    if (round % 2 == 0) {
      EXPECT_TRUE(text == whole || !parse_record(text, 2).has_value()) << "round " << round;
    } else if (!parse_record(signed_line(text), 2)) {  // a right hash, so the fields are reached
      EXPECT_NE(parse_record(signed_line(text), 2).error().message, "") << "round " << round;
    }
  }
}

}  // namespace
}  // namespace tern
