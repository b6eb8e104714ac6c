#include "cloud/azure_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string page_of(const std::string& blobs, const std::string& next = "") {
  return fmt::format(
      "\xEF\xBB\xBF<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults "
      "ServiceEndpoint=\"https://a.blob.core.windows.net/\" ContainerName=\"c\"><Blobs>{}</Blobs>"
      "<NextMarker>{}</NextMarker></EnumerationResults>",
      blobs, next);
}

std::string blob_of(const std::string& name, const std::string& size,
                    const std::string& more = "") {
  return fmt::format(
      "<Blob>{}<Properties><Etag>0x8D</Etag><Content-Length>{}</Content-Length>{}</Properties>"
      "</Blob>",
      name, size, more);
}

std::vector<std::string> names_of(const std::string& blobs) {
  const auto page = parse_azure_page(page_of(blobs));
  EXPECT_TRUE(page) << (page ? "" : page.error().to_string());
  std::vector<std::string> names;
  if (!page) return names;
  for (const ObjectInfo& info : page->objects) names.push_back(info.name);
  return names;
}

TEST(AzureListTest, APageIsReadWithItsMarker) {
  const auto page = parse_azure_page(page_of(
      blob_of("<Name>a/b</Name>", "5") + blob_of("<Name>x&amp;y z</Name>", "9007199254740993"),
      "2!76!MDAwMDA"));
  ASSERT_TRUE(page) << page.error().to_string();
  EXPECT_THAT(page->objects,
              ElementsAre(ObjectInfo{"a/b", 5}, ObjectInfo{"x&y z", 9'007'199'254'740'993}));
  EXPECT_EQ(page->next, "2!76!MDAwMDA");
}

TEST(AzureListTest, AnEmptyPageIsAPage) {
  const auto page = parse_azure_page(page_of(""));
  ASSERT_TRUE(page);
  EXPECT_THAT(page->objects, IsEmpty());
  EXPECT_EQ(page->next, "");
}

TEST(AzureListTest, NamesThatXmlCannotHoldAreDecodedAndNoOthers) {
  EXPECT_THAT(names_of(blob_of("<Name Encoded=\"true\">a%EF%BF%BE%25</Name>", "1") +
                       blob_of("<Name>100%25</Name>", "1") + blob_of("<Name> blanks </Name>", "1")),
              ElementsAre("a\xEF\xBF\xBE%", "100%25", " blanks "));
}

TEST(AzureListTest, BackslashesComeBack) {
  EXPECT_THAT(names_of(blob_of("<Name>back%5Cslash</Name>", "1")), ElementsAre("back\\slash"));
}

TEST(AzureListTest, FoldersAreLeftOutAndNamesThatAreNotOursAreNot) {
  EXPECT_THAT(
      names_of(blob_of("<Name>folder</Name>", "0", "<ResourceType>directory</ResourceType>") +
               blob_of("<Name>folder/</Name>", "0") + blob_of("<Name>a//b</Name>", "0") +
               blob_of("<Name>file</Name>", "0", "<ResourceType>file</ResourceType>")),
      ElementsAre("folder/", "a//b", "file"));
}

TEST(AzureListTest, GarbageIsCorruptAndSaysWhatToLookAt) {
  const std::vector<std::string> texts = {
      "",
      "<html><body>It works!</body></html>",
      "{\"blobs\": []}",
      "<EnumerationResults/>",
      "<Other><Blobs/></Other>",
      page_of("").substr(0, 150),
      page_of("<Blob><Name>a</Name></Blob>"),
      page_of("<Blob><Properties/></Blob>"),
      page_of(blob_of("<Name>a</Name>", "")),
      page_of(blob_of("<Name>a</Name>", "-1")),
      page_of(blob_of("<Name>a</Name>", "12x")),
      page_of(blob_of("<Name>a</Name>", "99999999999999999999")),
      std::string("\0\1\2\xFF", 4)};
  for (const std::string& text : texts) {
    const auto page = parse_azure_page(text);
    ASSERT_FALSE(page) << text;
    EXPECT_EQ(page.error().code, Code::corrupt) << text;
  }
  EXPECT_THAT(parse_azure_page("<Other><Blobs/></Other>").error().message,
              HasSubstr("check that the endpoint is an object store"));
}

TEST(AzureListTest, APageDamagedAtAnyByteIsAPageOrAnError) {
  const std::string page = page_of(blob_of("<Name Encoded=\"true\">a%20b</Name>", "5"), "next");
  for (size_t i = 0; i < page.size(); ++i) {
    for (const char c : {'\0', '<', '>', '&', '"', '%', '\xFF', ' '}) {
      std::string damaged = page;
      damaged[i] = c;
      const auto parsed = parse_azure_page(damaged);
      if (!parsed) {
        EXPECT_EQ(parsed.error().code, Code::corrupt);
      }
    }
    const auto cut = parse_azure_page(page.substr(0, i));
    EXPECT_FALSE(cut) << i;
  }
}

}  // namespace
}  // namespace tern
