#include "ranks/process_title.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace tern {
namespace {

// As the kernel lays arguments out.
struct Arguments {
  explicit Arguments(std::string text) : bytes(std::move(text)) {
    for (size_t i = 0; i < bytes.size(); i += std::strlen(&bytes[i]) + 1) {
      pointers[count++] = &bytes[i];
    }
  }
  std::string bytes;
  char* pointers[8] = {};
  int count = 0;
};

TEST(ProcessTitle, IsWrittenOverAllArguments) {
  Arguments arguments(std::string("tern-train\0my.toml\0--ranks\0002\0", 29));
  ASSERT_EQ(arguments.count, 4);
  ProcessTitle title(arguments.count, arguments.pointers);
  title.set("tern-train: a rank 1");
  EXPECT_EQ(arguments.bytes, std::string("tern-train: a rank 1") + std::string(9, '\0'));
  title.set("short");
  EXPECT_EQ(arguments.bytes, std::string("short") + std::string(24, '\0'));
}

TEST(ProcessTitle, IsCutWhereTheArgumentsEnd) {
  Arguments arguments(std::string("ab\0c\0", 5));
  ProcessTitle title(arguments.count, arguments.pointers);
  title.set("a title that is too long");
  EXPECT_EQ(arguments.bytes, std::string("a ti\0", 5));
}

TEST(ProcessTitle, OfAProcessWithoutArgumentsDoesNothing) {
  ProcessTitle title(0, nullptr);
  title.set("x");
}

}  // namespace
}  // namespace tern
