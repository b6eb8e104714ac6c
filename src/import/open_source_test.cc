#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "dataset/test_folder.h"
#include "import/member_path.h"
#include "import/sample_names.h"
#include "import/source.h"
#include "import/test_archive.h"

namespace tern {
namespace {

using testing::HasSubstr;

Error open_error(const std::string& path) {
  const auto source = open_source(path, {});
  return source ? fail(Code::internal, "it opened") : source.error();
}

TEST(OpenSource, SaysWhatWasFoundAndWhatIsUnderstood) {
  const TestFolder folder;
  EXPECT_EQ(open_error(folder.path() + "/nothing").code, Code::not_found);
  const std::string text = folder.write("notes.txt", "hello");
  EXPECT_EQ(open_error(text).code, Code::invalid);
  EXPECT_THAT(open_error(text).message, HasSubstr("neither a folder nor a tar or zip"));
  EXPECT_THAT(open_error(folder.path()).message, HasSubstr("1 file, which is no image"));
  EXPECT_THAT(open_error(folder.path()).message, HasSubstr("WebDataset"));
  folder.write("pets.zip", pack_archive("zip", {{"a/1.jpg", "x"}, {"b/1.jpg", "x"}}));
  EXPECT_THAT(open_error(folder.path()).message, HasSubstr("the first is pets.zip"));
  EXPECT_THAT(open_error(folder.write("empty.tar", Bytes(1024, '\0'))).message,
              HasSubstr("no files"));
}

TEST(OpenSource, AnArchiveThatIsGarbageIsCorruptAndNamed) {
  const TestFolder folder;
  for (const size_t bytes : {0, 1, 511, 512, 5000}) {
    const std::string path = folder.write("x.tar", varied_bytes(bytes));
    EXPECT_EQ(open_error(path).code, Code::corrupt) << bytes;
    EXPECT_THAT(open_error(path).message, HasSubstr("x.tar"));
  }
  folder.remove("x.tar");
  folder.write("y.tar", varied_bytes(600));
  EXPECT_EQ(open_error(folder.path()).code, Code::corrupt);
}

TEST(OpenSource, ARelativePathAndALinkToItGiveAnAbsoluteRoot) {
  const TestFolder folder;
  folder.write("data/a/1.jpg", "x");
  folder.write("data/b/1.jpg", "x");
  std::filesystem::create_directory_symlink(folder.path() + "/data", folder.path() + "/link");
  const auto source = open_source(folder.path() + "/./link/../link", {});
  ASSERT_TRUE(source) << source.error().to_string();
  EXPECT_EQ((*source)->root(), std::filesystem::canonical(folder.path() + "/data").string());
}

TEST(MemberPath, IsCleanedOrRefused) {
  EXPECT_EQ(clean_member_path("./a//b/./c.jpg").value_or(""), "a/b/c.jpg");
  EXPECT_EQ(clean_member_path("a/..b/c...jpg").value_or(""), "a/..b/c...jpg");
  EXPECT_EQ(clean_member_path("\xff\xfe.jpg").value_or(""), "\xff\xfe.jpg");
  for (const std::string& path :
       {std::string(), std::string("."), std::string("a/../b"), std::string(".."),
        std::string("/a"), std::string("a\tb"), std::string("a\0b", 3), std::string(5000, 'x')}) {
    EXPECT_FALSE(clean_member_path(path)) << path;
  }
}

TEST(SampleNames, TheTestShareIsFixedForever) {
  constexpr double kAntsPlace = 0.09844801911149222;
  // A change would move samples between the splits of data sets that exist.
  EXPECT_EQ(split_by_name("ants/1.jpg", 0), Split::train);
  EXPECT_EQ(split_by_name("ants/1.jpg", 1), Split::test);
  // echo -n ants/1.jpg | sha256sum begins with the share's first bytes.
  EXPECT_EQ(split_by_name("ants/1.jpg", kAntsPlace - 1e-6), Split::train);
  EXPECT_EQ(split_by_name("ants/1.jpg", kAntsPlace + 1e-6), Split::test);
}

}  // namespace
}  // namespace tern
