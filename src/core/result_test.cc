#include "core/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace tern {
namespace {

struct Animal {
  virtual ~Animal() = default;
  virtual std::string name() const { return "animal"; }
};
struct Tern : Animal {
  std::string name() const override { return "tern"; }
};

Result<int> half(int number) {
  if (number % 2 != 0) return fail(Code::invalid, "odd; pass an even number");
  return number / 2;
}

Result<int> quarter(int number) {
  ASSIGN_OR_RETURN(const int first, half(number));
  ASSIGN_OR_RETURN(const int second, half(first));
  return second;
}

Status require_even(int number, int& calls_after) {
  RETURN_IF_ERROR(half(number).at("first"));
  ++calls_after;
  RETURN_IF_ERROR(Status());
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_TRUE(half(4));
  EXPECT_EQ(*half(4), 2);
  const Result<int> failed = half(3);
  EXPECT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().code, Code::invalid);
  EXPECT_EQ(failed.error().to_string(), "invalid: odd; pass an even number");
  EXPECT_EQ(failed.value_or(7), 7);
  EXPECT_EQ(half(4).value_or(7), 2);
}

TEST(Result, MacrosPassTheErrorUp) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(7).error().code, Code::invalid);
  EXPECT_EQ(quarter(6).error().code, Code::invalid);

  int calls_after = 0;
  EXPECT_TRUE(require_even(2, calls_after));
  EXPECT_EQ(calls_after, 1);
  EXPECT_EQ(require_even(3, calls_after).error().message, "first: odd; pass an even number");
  EXPECT_EQ(calls_after, 1);
}

TEST(Result, AtPrefixesOnlyErrors) {
  EXPECT_EQ(*half(4).at("halve"), 2);
  EXPECT_EQ(half(3).at("halve").at("resume").error().message,
            "resume: halve: odd; pass an even number");
  EXPECT_TRUE(Status().at("save"));
  const Status failed = Status(fail(Code::corrupt, "checksum differs")).at("read checkpoint 12");
  EXPECT_EQ(failed.error().to_string(), "corrupt: read checkpoint 12: checksum differs");
}

TEST(Result, MoveOnlyValuesMoveOut) {
  Result<std::unique_ptr<int>> made = std::make_unique<int>(5);
  ASSERT_TRUE(made);
  const std::unique_ptr<int> taken = std::move(made).value();
  EXPECT_EQ(*taken, 5);

  const auto pass_on = [](Result<std::unique_ptr<int>> given) -> Result<std::unique_ptr<int>> {
    ASSIGN_OR_RETURN(std::unique_ptr<int> inner, std::move(given));
    return inner;
  };
  EXPECT_EQ(**pass_on(std::make_unique<int>(6)), 6);
  EXPECT_EQ(pass_on(fail(Code::not_found, "gone")).error().code, Code::not_found);
}

TEST(Result, ADerivedPointerBecomesABasePointer) {
  const auto make = []() -> Result<std::unique_ptr<Animal>> { return std::make_unique<Tern>(); };
  EXPECT_EQ((*make())->name(), "tern");
  const Result<std::string> text = "literal";
  EXPECT_EQ(text->size(), 7u);
}

TEST(Result, AnErrorIsNeverTakenForAValue) {
  const Result<bool> failed = fail(Code::aborted, "lost");
  EXPECT_FALSE(failed.has_value());
  const Result<bool> no = false;
  EXPECT_TRUE(no.has_value());
  EXPECT_FALSE(*no);
}

TEST(Result, EveryCodeHasItsOwnName) {
  for (int a = 0; a <= static_cast<int>(Code::internal); ++a) {
    EXPECT_NE(code_name(static_cast<Code>(a)), "unknown") << a;
    for (int b = 0; b < a; ++b) {
      EXPECT_NE(code_name(static_cast<Code>(a)), code_name(static_cast<Code>(b)));
    }
  }
}

TEST(ResultDeathTest, TheWrongHalfAborts) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(half(3).value(), "");
  EXPECT_DEATH(half(4).error(), "");
  EXPECT_DEATH(Status().error(), "");
}

TEST(ResultDeathTest, CheckNamesTheConditionAndThePlace) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(TERN_CHECK(1 + 1 == 3),
               "bug in tern: CHECK.1 \\+ 1 == 3. failed at .*result_test.cc");
}

}  // namespace
}  // namespace tern
