#include "cloud/s3_list.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cloud/xml.h"

namespace tern {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string list_xml(const std::string& inside) {
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
         "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>" +
         inside + "</ListBucketResult>";
}

std::string contents(const std::string& key, const std::string& size = "1") {
  return fmt::format("<Contents><Key>{}</Key><ETag>&quot;x&quot;</ETag><Size>{}</Size></Contents>",
                     key, size);
}

TEST(S3List, APageHasItsObjectsAndTheWayToTheNext) {
  const S3ListPage page =
      parse_s3_list(list_xml("<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
                             "<NextContinuationToken>1ueG/+==</NextContinuationToken>" +
                             contents("a/b%20c+d%2Be", "12") + contents("Gr%C3%B6%C3%9Fe", "0")))
          .value();
  EXPECT_THAT(page.objects, ElementsAre(ObjectInfo{"a/b c d+e", 12}, ObjectInfo{"Gr\xC3\xB6\xC3\x9F"
                                                                                "e",
                                                                                0}));
  EXPECT_EQ(page.next, "1ueG/+==");
}

TEST(S3List, NamesThatAreNotSaidToBeEncodedAreTakenAsTheyAre) {
  EXPECT_THAT(parse_s3_list(list_xml(contents("100%+&amp;")))->objects,
              ElementsAre(ObjectInfo{"100%+&", 1}));
}

TEST(S3List, NamesThatNoObjectOfOursHasAreThereToo) {
  EXPECT_THAT(parse_s3_list(list_xml(contents("folder/", "0") + contents("a//b") +
                                     contents("../c") + contents("kept")))
                  ->objects,
              ElementsAre(ObjectInfo{"folder/", 0}, ObjectInfo{"a//b", 1}, ObjectInfo{"../c", 1},
                          ObjectInfo{"kept", 1}));
}

TEST(S3List, PagesThatAreNoneAreCorrupt) {
  for (const std::string& text :
       {std::string("<html></html>"), std::string("nothing"),
        list_xml("<IsTruncated>true</IsTruncated>"),
        list_xml("<Contents><Size>1</Size></Contents>"), list_xml(contents("a", "-1")),
        list_xml(contents("a", "many")), list_xml(contents("a", "")),
        list_xml(contents("a", "99999999999999999999")),
        list_xml("<EncodingType>url</EncodingType>" + contents("a%2")),
        list_xml("<EncodingType>url</EncodingType>" + contents("a%zz"))}) {
    const auto page = parse_s3_list(text);
    ASSERT_FALSE(page) << text;
    EXPECT_EQ(page.error().code, Code::corrupt);
  }
}

TEST(S3List, DamagedPagesNeverCrash) {
  const std::string whole = list_xml("<EncodingType>url</EncodingType>" + contents("a%2Fb"));
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_FALSE(parse_s3_list(whole.substr(0, i))) << i;
    for (const char byte : {'<', '>', '%', '&', '\0', '\xC3', '-', '9'}) {
      std::string changed = whole;
      changed[i] = byte;
      const auto page = parse_s3_list(changed);
      if (page) {
        EXPECT_LE(page->objects.size(), 1U);
      }
      const auto uploads = parse_s3_uploads(changed);
      EXPECT_FALSE(uploads);
    }
  }
}

TEST(S3List, UploadsHaveTheirTime) {
  const S3UploadPage page =
      parse_s3_uploads(
          "<ListMultipartUploadsResult><EncodingType>url</EncodingType>"
          "<IsTruncated>true</IsTruncated><NextKeyMarker>a%20b</NextKeyMarker>"
          "<NextUploadIdMarker>7</NextUploadIdMarker><Upload><Key>a+b</Key><UploadId>7</UploadId>"
          "<Initiated>2010-11-10T20:48:33.000Z</Initiated></Upload></ListMultipartUploadsResult>")
          .value();
  ASSERT_EQ(page.uploads.size(), 1U);
  EXPECT_EQ(page.uploads[0].name, "a b");
  EXPECT_EQ(page.uploads[0].id, "7");
  EXPECT_EQ(page.uploads[0].began_unix_ms, 1'289'422'113'000);
  EXPECT_EQ(page.next_name, "a b");
  EXPECT_EQ(page.next_id, "7");
}

TEST(S3List, UploadsWithoutIdOrTimeAreCorrupt) {
  for (const std::string inside :
       {"<Upload><Key>a</Key><Initiated>2010-11-10T20:48:33Z</Initiated></Upload>",
        "<Upload><Key>a</Key><UploadId>1</UploadId></Upload>", "<IsTruncated>true</IsTruncated>"}) {
    EXPECT_FALSE(parse_s3_uploads(
        fmt::format("<ListMultipartUploadsResult>{}</ListMultipartUploadsResult>", inside)));
  }
}

TEST(S3List, ARemovalNamesWhatStayed) {
  const std::vector<std::string> names = {"a & b", "<c>"};
  const XmlNode xml = parse_xml(delete_objects_xml(names)).value();
  ASSERT_EQ(xml.children.size(), 3U);
  EXPECT_EQ(xml.children[0].text_of("Key"), "a & b");
  EXPECT_EQ(xml.children[1].text_of("Key"), "<c>");
  EXPECT_EQ(xml.text_of("Quiet"), "true");
  EXPECT_THAT(parse_s3_removal("<DeleteResult><Error><Key>x</Key><Code>AccessDenied</Code></Error>"
                               "<Error><Key>y</Key><Code>NoSuchKey</Code></Error></DeleteResult>")
                  .value(),
              ElementsAre("x"));
  EXPECT_TRUE(parse_s3_removal("<DeleteResult/>")->empty());
  EXPECT_FALSE(parse_s3_removal("<Error/>"));
}

TEST(S3List, AnUploadIsKnownByItsIdAndItsEnd) {
  EXPECT_EQ(parse_s3_upload_id("<InitiateMultipartUploadResult><UploadId>u+1</UploadId>"
                               "</InitiateMultipartUploadResult>")
                .value(),
            "u+1");
  EXPECT_TRUE(check_s3_completion("<CompleteMultipartUploadResult/>"));
  for (const char* text : {"", "<html/>", "<InitiateMultipartUploadResult/>",
                           "<InitiateMultipartUploadResult><UploadId/>",
                           "<Error><Code>InternalError</Code></Error>"}) {
    EXPECT_EQ(parse_s3_upload_id(text).error().code, Code::corrupt) << text;
    EXPECT_EQ(check_s3_completion(text).error().code, Code::corrupt) << text;
  }
}

}  // namespace
}  // namespace tern
