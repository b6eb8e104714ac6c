#include "cloud/aws_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cloud/test_aws_folder.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(AwsFile, SectionsSettingsAndNestedSettingsAreRead) {
  const auto sections = parse_aws_file(
      "# a comment\n"
      "lost = before any section\n"
      "[default]\r\n"
      "region=eu-west-1\r\n"
      "Aws_Access_Key_Id =  AKIA \n"
      "; another\n"
      "s3 =\n"
      "  addressing_style = path\n"
      "\tmax_concurrent_requests = 20\n"
      "output = json\n"
      "\n"
      "[ profile a b ]\n"
      "  aws_secret_access_key = a=b/c+d==\n"
      "nothing here\n"
      "[unclosed\n"
      "region = nowhere\n");
  EXPECT_EQ(sections.size(), 2U);
  EXPECT_EQ(sections.at("default"), (AwsSettings{{"region", "eu-west-1"},
                                                 {"aws_access_key_id", "AKIA"},
                                                 {"s3", ""},
                                                 {"s3.addressing_style", "path"},
                                                 {"s3.max_concurrent_requests", "20"},
                                                 {"output", "json"}}));
  EXPECT_EQ(sections.at("profile a b"), (AwsSettings{{"aws_secret_access_key", "a=b/c+d=="}}));
}

TEST(AwsFile, GarbageIsPassedOver) {
  using namespace std::string_literals;
  for (const std::string& text :
       {""s, "\n\n\n"s, "["s, "]"s, "[]"s, "="s, "[x]\n=\n"s, "\0\xFF[a]\n\0=\0"s, "[a"s}) {
    EXPECT_LE(parse_aws_file(text).size(), 1U);
  }
}

TEST(AwsProfile, TheDefaultProfileIsThatOfBothFiles) {
  AwsFolder folder;
  folder.write(".aws/config", "[default]\nregion = eu-west-1\n[profile other]\nregion = x\n");
  folder.write(".aws/credentials", "[default]\naws_access_key_id = A\nregion = not-this\n");
  const AwsProfile profile = read_aws_profile(folder.surroundings()).value();
  EXPECT_EQ(profile.name, "default");
  EXPECT_EQ(profile.setting("region"), "eu-west-1");
  EXPECT_EQ(profile.setting("aws_access_key_id"), "A");
  EXPECT_EQ(profile.setting("absent"), "");
}

TEST(AwsProfile, AnotherProfileAndOtherFilesAreNamedByVariables) {
  AwsFolder folder;
  folder.write("c", "[profile work]\nregion = us-west-2\n");
  folder.write("k", "[work]\naws_access_key_id = B\n");
  folder.variables = {{"AWS_PROFILE", "work"},
                      {"AWS_CONFIG_FILE", "~/c"},
                      {"AWS_SHARED_CREDENTIALS_FILE", (folder.path() / "k").string()}};
  const AwsProfile profile = read_aws_profile(folder.surroundings()).value();
  EXPECT_EQ(profile.setting("region"), "us-west-2");
  EXPECT_EQ(profile.setting("aws_access_key_id"), "B");
}

TEST(AwsProfile, ANamedProfileMustExistAndTheDefaultNeedNot) {
  AwsFolder folder;
  EXPECT_TRUE(read_aws_profile(folder.surroundings()));
  folder.variables = {{"AWS_PROFILE", "wrok"}};
  const auto profile = read_aws_profile(folder.surroundings());
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, Code::failed_precondition);
  EXPECT_THAT(profile.error().message, AllOf(HasSubstr("'wrok'"), HasSubstr(".aws/config"),
                                             HasSubstr("aws configure --profile wrok")));
}

TEST(AwsProfile, AFileThatIsAFolderIsAnError) {
  AwsFolder folder;
  std::filesystem::create_directories(folder.path() / ".aws/config");
  const auto profile = read_aws_profile(folder.surroundings());
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, Code::permission_denied);
}

}  // namespace
}  // namespace tern
