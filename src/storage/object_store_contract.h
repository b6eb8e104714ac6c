// What every ObjectStore must do, as one suite. Include it in one .cc of a test program and add the
// implementation there:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, ObjectStoreContract, testing::Values(StoreMaker{...}), ...);
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/object_store.h"

namespace tern {

// A store to test, with whatever it stands on.
class StoreUnderTest {
 public:
  virtual ~StoreUnderTest() = default;
  virtual ObjectStore& store() = 0;
};

struct StoreMaker {
  std::string name;
  std::function<std::unique_ptr<StoreUnderTest>()> make;
  size_t name_bytes_max = 900;  // less where a prefix takes its share
};

inline void PrintTo(const StoreMaker& maker, std::ostream* out) { *out << maker.name; }

class ObjectStoreContract : public testing::TestWithParam<StoreMaker> {
 protected:
  ObjectStore& store() { return under_test_->store(); }

  void put(const std::string& name, BytesView bytes) {
    const Status status = store().put(name, bytes);
    ASSERT_TRUE(status) << status.error().to_string();
  }

  Code code_of(const Status& status) {
    EXPECT_FALSE(status.has_value());
    return status ? Code::internal : status.error().code;
  }
  template <typename T>
  Code code_of(const Result<T>& result) {
    EXPECT_FALSE(result.has_value());
    return result ? Code::internal : result.error().code;
  }

  std::vector<std::string> list(const std::string& prefix) {
    const auto found = store().list(prefix);
    EXPECT_TRUE(found) << (found ? "" : found.error().to_string());
    std::vector<std::string> names;
    if (!found) return names;
    for (const ObjectInfo& info : *found) names.push_back(info.name);
    return names;
  }

  // A name of exactly `bytes` bytes, in parts that fit a file name.
  static std::string long_name(size_t bytes) {
    std::string name(bytes, 'n');
    for (size_t at = 200; at + 1 < bytes; at += 201) name[at] = '/';
    return name;
  }

 private:
  std::unique_ptr<StoreUnderTest> under_test_ = GetParam().make();
};

TEST_P(ObjectStoreContract, WhatWasPutIsGot) {
  put("a/b", "hello");
  EXPECT_EQ(store().get("a/b").value(), "hello");
  EXPECT_EQ(store().stat("a/b").value(), (ObjectInfo{"a/b", 5}));
}

TEST_P(ObjectStoreContract, PutReplacesWithLongerAndShorterBytes) {
  put("a", "first");
  put("a", "the second is longer");
  EXPECT_EQ(store().get("a").value(), "the second is longer");
  put("a", "3");
  EXPECT_EQ(store().get("a").value(), "3");
  EXPECT_EQ(store().stat("a").value().size_bytes, 1);
}

TEST_P(ObjectStoreContract, AnAbsentObjectIsNotFound) {
  put("there/x", "x");
  for (const std::string name : {"absent", "absent/deeper", "there", "there/x/y", "there/xx"}) {
    EXPECT_EQ(code_of(store().get(name)), Code::not_found) << name;
    EXPECT_EQ(code_of(store().get_range(name, 0, 1)), Code::not_found) << name;
    EXPECT_EQ(code_of(store().stat(name)), Code::not_found) << name;
  }
}

TEST_P(ObjectStoreContract, ARangeCanBeTakenPieceByPiece) {
  Bytes bytes(700'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>((i * 2654435761U) >> 9);
  put("r", bytes);
  const auto take = [&](int64_t offset, int64_t length, Bytes& taken) {
    return store().get_range_to("r", offset, length, [&](int64_t at, BytesView piece) -> Status {
      const auto begin = static_cast<size_t>(at);
      if (taken.size() < begin + piece.size()) taken.resize(begin + piece.size());
      taken.replace(begin, piece.size(), piece);
      return {};
    });
  };
  for (const auto& [offset, length] : {std::pair<int64_t, int64_t>{0, 700'000},
                                       {5, 600'001},
                                       {699'999, 100},
                                       {0, INT64_MAX},
                                       {700'000, 1},
                                       {7, 0}}) {
    const Bytes expected = bytes.substr(static_cast<size_t>(offset),
                                        static_cast<size_t>(std::min(length, 700'000 - offset)));
    Bytes taken;
    EXPECT_EQ(take(offset, length, taken).value(), std::ssize(expected)) << offset;
    EXPECT_TRUE(taken == expected) << offset;
  }
  Bytes none;
  EXPECT_EQ(code_of(take(700'001, 1, none)), Code::invalid);
  const auto refuse = [](int64_t, BytesView) -> Status { return fail(Code::exhausted, "full"); };
  EXPECT_EQ(code_of(store().get_range_to("r", 0, 9, refuse)), Code::exhausted);
  EXPECT_EQ(code_of(store().get_range_to("absent", 0, 9, refuse)), Code::not_found);
  EXPECT_EQ(code_of(store().get_range_to("not//legal", 0, 9, refuse)), Code::invalid);
}

TEST_P(ObjectStoreContract, CreateNeverReplaces) {
  ASSERT_TRUE(store().create("c/1", "first"));
  EXPECT_EQ(code_of(store().create("c/1", "second")), Code::already_exists);
  EXPECT_EQ(code_of(store().create("c/1", "")), Code::already_exists);
  EXPECT_EQ(store().get("c/1").value(), "first");
  put("c/2", "put");
  EXPECT_EQ(code_of(store().create("c/2", "created")), Code::already_exists);
  EXPECT_EQ(store().get("c/2").value(), "put");
}

TEST_P(ObjectStoreContract, ANameIsFreeAgainAfterRemove) {
  ASSERT_TRUE(store().create("a/b", "1"));
  ASSERT_TRUE(store().remove("a/b"));
  EXPECT_EQ(code_of(store().get("a/b")), Code::not_found);
  EXPECT_TRUE(list("").empty());
  ASSERT_TRUE(store().create("a/b", "2"));
  EXPECT_EQ(store().get("a/b").value(), "2");
}

TEST_P(ObjectStoreContract, RemovingWhatIsNotThereSucceeds) {
  put("a/b", "kept");
  for (const std::string name : {"absent", "absent/deeper", "a", "a/b/c"}) {
    EXPECT_TRUE(store().remove(name)) << name;
  }
  EXPECT_EQ(store().get("a/b").value(), "kept");
}

TEST_P(ObjectStoreContract, AnEmptyObjectIsAnObject) {
  ASSERT_TRUE(store().create("empty", ""));
  EXPECT_EQ(store().get("empty").value(), "");
  EXPECT_EQ(store().stat("empty").value().size_bytes, 0);
  EXPECT_EQ(store().get_range("empty", 0, 10).value(), "");
  EXPECT_EQ(list(""), std::vector<std::string>{"empty"});
  EXPECT_EQ(code_of(store().create("empty", "x")), Code::already_exists);
}

TEST_P(ObjectStoreContract, OneMebibyteOfBinarySurvives) {
  Bytes bytes(1 << 20, '\0');
  for (size_t i = 0; i < bytes.size(); i += 3)
    bytes[i] = static_cast<char>((i * 2654435761U) >> 13);
  put("big", bytes);
  EXPECT_TRUE(store().get("big").value() == bytes);
  EXPECT_EQ(store().stat("big").value().size_bytes, 1 << 20);
  EXPECT_TRUE(store().get_range("big", 700'001, 4096).value() == bytes.substr(700'001, 4096));
  ASSERT_TRUE(store().create("big2", bytes));
  EXPECT_TRUE(store().get("big2").value() == bytes);
}

TEST_P(ObjectStoreContract, RangesAreCutAtTheEnd) {
  put("r", "0123456789");
  EXPECT_EQ(store().get_range("r", 0, 10).value(), "0123456789");
  EXPECT_EQ(store().get_range("r", 3, 4).value(), "3456");
  EXPECT_EQ(store().get_range("r", 8, 100).value(), "89");
  EXPECT_EQ(store().get_range("r", 8, INT64_MAX).value(), "89");
  EXPECT_EQ(store().get_range("r", 5, 0).value(), "");
  EXPECT_EQ(store().get_range("r", 10, 1).value(), "");
}

TEST_P(ObjectStoreContract, RangesOutsideTheObjectAreInvalid) {
  put("r", "0123456789");
  EXPECT_EQ(code_of(store().get_range("r", 11, 1)), Code::invalid);
  EXPECT_EQ(code_of(store().get_range("r", -1, 1)), Code::invalid);
  EXPECT_EQ(code_of(store().get_range("r", 0, -1)), Code::invalid);
  EXPECT_EQ(code_of(store().get_range("r", INT64_MAX, INT64_MAX)), Code::invalid);
}

TEST_P(ObjectStoreContract, ListIsSortedByBytesOfTheWholeName) {
  // '-' and '.' sort before '/', so a listing folder by folder would get this wrong.
  for (const std::string name : {"b", "a/z", "a/b/c", "a-b", "a.b", "a0", "B", "\xC3\xA9"})
    put(name, name);
  EXPECT_EQ(list(""),
            (std::vector<std::string>{"B", "a-b", "a.b", "a/b/c", "a/z", "a0", "b", "\xC3\xA9"}));
}

TEST_P(ObjectStoreContract, ListTakesAnyTextAsPrefix) {
  for (const std::string name :
       {"ckpt/0001", "ckpt/0002", "ckpt/0010", "ckpt/sub/0001", "ckpu/1"}) {
    put(name, "12345");
  }
  EXPECT_EQ(list("ckpt/000"), (std::vector<std::string>{"ckpt/0001", "ckpt/0002"}));
  EXPECT_EQ(list("ckpt/"),
            (std::vector<std::string>{"ckpt/0001", "ckpt/0002", "ckpt/0010", "ckpt/sub/0001"}));
  EXPECT_EQ(list("ckp").size(), 5U);
  EXPECT_EQ(list("ckpt/s"), std::vector<std::string>{"ckpt/sub/0001"});
  EXPECT_EQ(list("ckpt/0001"), std::vector<std::string>{"ckpt/0001"});
  EXPECT_TRUE(list("ckpt/0001/").empty());
  EXPECT_TRUE(list("nothing/at/all").empty());
  EXPECT_EQ(store().list("ckpu").value().front(), (ObjectInfo{"ckpu/1", 5}));
}

TEST_P(ObjectStoreContract, ListOfWhatNoNameCanBeIsEmpty) {
  put("a", "a");
  for (const std::string prefix : {"/", "../", "..", "a//", "./", "./a"}) {
    EXPECT_TRUE(list(prefix).empty()) << prefix;
  }
}

TEST_P(ObjectStoreContract, OddNamesAreKeptToTheByte) {
  const std::vector<std::string> names = {" leading and trailing ",
                                          "a b/c d",
                                          "plus+sign",
                                          "100%",
                                          "%2F%2e%2e",
                                          "q?x=1&y=2#z",
                                          "back\\slash",
                                          "'quoted\"",
                                          "...",
                                          "a/..b/c..",
                                          "Gr\xC3\xB6\xC3\x9F"
                                          "e/\xE6\x97\xA5\xE6\x9C\xAC/\xF0\x9F\x90\xA6",
                                          "~",
                                          "-rf",
                                          "*",
                                          "a:b"};
  for (const std::string& name : names) put(name, "of " + name);
  for (const std::string& name : names) {
    EXPECT_EQ(store().get(name).value_or("absent"), "of " + name);
    EXPECT_EQ(list(name), std::vector<std::string>{name});
    EXPECT_TRUE(store().remove(name)) << name;
  }
  EXPECT_TRUE(list("").empty());
}

TEST_P(ObjectStoreContract, TheLongestNameFits) {
  const std::string name = long_name(GetParam().name_bytes_max);
  put(name, "long");
  EXPECT_EQ(store().get(name).value(), "long");
  EXPECT_EQ(list(""), std::vector<std::string>{name});
  EXPECT_EQ(code_of(store().put(long_name(GetParam().name_bytes_max + 1), "x")), Code::invalid);
  const std::string widest(255, 'w');
  put(widest, "wide");
  EXPECT_EQ(store().get(widest).value(), "wide");
}

TEST_P(ObjectStoreContract, BadNamesAreRefusedByEveryVerb) {
  using namespace std::string_literals;
  const std::vector<std::string> names = {"",
                                          "/",
                                          "/a",
                                          "a/",
                                          "a//b",
                                          ".",
                                          "..",
                                          "a/.",
                                          "a/../b",
                                          "../a",
                                          "./a",
                                          "a\nb",
                                          "a\0b"s,
                                          "\x7F",
                                          "\xFF",
                                          "\xC3",
                                          "\xC0\xAF",
                                          "a\x80",
                                          "\xED\xA0\x80",
                                          "\xF5\x80\x80\x80",
                                          "\xE0\x80\xAF",
                                          std::string(256, 'x'),
                                          long_name(901)};
  for (const std::string& name : names) {
    EXPECT_EQ(code_of(store().get(name)), Code::invalid) << name;
    EXPECT_EQ(code_of(store().get_range(name, 0, 1)), Code::invalid) << name;
    EXPECT_EQ(code_of(store().put(name, "x")), Code::invalid) << name;
    EXPECT_EQ(code_of(store().create(name, "x")), Code::invalid) << name;
    EXPECT_EQ(code_of(store().stat(name)), Code::invalid) << name;
    EXPECT_EQ(code_of(store().remove(name)), Code::invalid) << name;
  }
  EXPECT_TRUE(list("").empty());
}

TEST_P(ObjectStoreContract, OfManyCreatorsExactlyOneWins) {
  constexpr int kThreads = 8;
  constexpr int kRounds = 20;
  std::vector<std::vector<int>> won(kThreads);
  std::vector<std::string> problems(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        const auto me = static_cast<size_t>(thread);
        for (int round = 0; round < kRounds; ++round) {
          // Each writes its own bytes; lengths differ so that a mixture would show.
          const Bytes mine(1000 + me, static_cast<char>('a' + thread));
          const Status created = store().create("race/" + std::to_string(round), mine);
          if (created) won[me].push_back(round);
          if (!created && created.error().code != Code::already_exists) {
            problems[me] = created.error().to_string();
          }
        }
      });
    }
  }
  std::vector<int> winner_of(kRounds, -1);
  for (int thread = 0; thread < kThreads; ++thread) {
    EXPECT_EQ(problems[static_cast<size_t>(thread)], "");
    for (const int round : won[static_cast<size_t>(thread)]) {
      int& winner = winner_of[static_cast<size_t>(round)];
      EXPECT_EQ(winner, -1) << "two winners of round " << round;
      winner = thread;
    }
  }
  for (int round = 0; round < kRounds; ++round) {
    const int winner = winner_of[static_cast<size_t>(round)];
    ASSERT_NE(winner, -1) << "nobody won round " << round;
    EXPECT_EQ(store().get("race/" + std::to_string(round)).value(),
              Bytes(1000 + static_cast<size_t>(winner), static_cast<char>('a' + winner)));
  }
}

TEST_P(ObjectStoreContract, ReadersOfAReplacedObjectSeeOneWholeVersion) {
  put("x", Bytes(5000, 'a'));
  std::jthread writer([&] {
    for (int i = 0; i < 60; ++i) {
      const Bytes bytes(static_cast<size_t>(5000 + 100 * i), static_cast<char>('a' + i % 26));
      EXPECT_TRUE(store().put("x", bytes));
    }
  });
  for (int i = 0; i < 200; ++i) {
    const Bytes seen = store().get("x").value_or("");
    ASSERT_GE(seen.size(), 5000U);
    ASSERT_EQ(seen, Bytes(seen.size(), static_cast<char>('a' + (seen.size() - 5000) / 100 % 26)));
  }
}

}  // namespace tern
