#include "core/token.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

namespace tern {
namespace {

TEST(Token, ManyAreAllDifferentAndHaveAllTheirBits) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::string token = random_token().value();
    EXPECT_EQ(token.size(), 32U);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos) << token;
    seen.insert(token);
  }
  EXPECT_EQ(seen.size(), 1000U);
  for (size_t digit = 0; digit < 32; ++digit) {
    std::set<char> values;
    for (const std::string& token : seen) values.insert(token[digit]);
    EXPECT_EQ(values.size(), 16U) << "digit " << digit;
  }
}

// A generator of the process's own would go on alike on both sides of a fork.
TEST(Token, AForkedProcessDrawsOthers) {
  ASSERT_TRUE(random_token());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string token = random_token().value_or("");
    const ssize_t written = ::write(ends[1], token.data(), token.size());
    ::_exit(written == 32 ? 0 : 1);
  }
  char theirs[33] = {};
  EXPECT_EQ(::read(ends[0], theirs, 32), 32);
  EXPECT_NE(random_token().value(), theirs);
  int status = 1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tern
