#include "cloud/azure_name.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tern {
namespace {

// All texts of up to `length` of these letters.
std::vector<std::string> texts_of(std::string_view letters, size_t length) {
  std::vector<std::string> all = {""};
  for (size_t begin = 0; length > 0; --length) {
    const size_t end = all.size();
    for (; begin < end; ++begin) {
      for (const char c : letters) all.push_back(all[begin] + c);
    }
  }
  return all;
}

TEST(AzureNameTest, UsualNamesAreThemselves) {
  for (const char* name : {"a/b c", "100%", "%2F%2e", "%25", "%5c", "%255", "5C", "\xC3\xA9"}) {
    EXPECT_EQ(to_azure_name(name), name);
    EXPECT_EQ(from_azure_name(name), name);
  }
}

TEST(AzureNameTest, ABackslashIsMarkedAndSoIsTheMark) {
  EXPECT_EQ(to_azure_name("a\\b"), "a%5Cb");
  EXPECT_EQ(to_azure_name("a%5Cb"), "a%255Cb");
  EXPECT_EQ(to_azure_name("%255C\\%"), "%25255C%5C%");
}

TEST(AzureNameTest, EveryNameComesBackAndNoTwoMeet) {
  const std::vector<std::string> names = texts_of("\\%25C", 7);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    const std::string form = to_azure_name(name);
    ASSERT_EQ(form.find('\\'), std::string::npos);
    ASSERT_EQ(from_azure_name(form), name);
    ASSERT_TRUE(seen.insert(form).second) << name;
  }
}

TEST(AzureNameTest, APrefixFindsAllThatBeginWithIt) {
  const std::vector<std::string> names = texts_of("\\%25C", 5);
  for (const std::string& name : names) {
    const std::string form = to_azure_name(name);
    for (size_t length = 0; length <= name.size(); ++length) {
      const std::string prefix = name.substr(0, length);
      ASSERT_TRUE(form.starts_with(to_azure_prefix(prefix))) << name << " " << prefix;
    }
  }
  EXPECT_EQ(to_azure_prefix("a/\xC3\xA9"), "a/");
  EXPECT_EQ(to_azure_prefix("a/b"), "a/b");
}

}  // namespace
}  // namespace tern
