#include "cloud/xml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

using testing::HasSubstr;

XmlNode parsed(BytesView text) {
  Result<XmlNode> node = parse_xml(text);
  EXPECT_TRUE(node) << (node ? "" : node.error().to_string());
  return node.value_or(XmlNode{});
}

std::string problem_of(BytesView text) {
  const Result<XmlNode> node = parse_xml(text);
  EXPECT_FALSE(node) << text.substr(0, 100);
  if (!node) {
    EXPECT_EQ(node.error().code, Code::corrupt);
  }
  return node ? "" : node.error().message;
}

TEST(Xml, AListingIsReadWithItsNamesToTheByte) {
  const XmlNode node = parsed(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n"
      "  <IsTruncated>false</IsTruncated>\n"
      "  <Contents><Key>a &amp; b&#39;s &lt;x&gt;</Key><Size>12</Size></Contents>\n"
      "  <Contents><Key> Gr\xC3\xB6\xC3\x9F"
      "e </Key><Size>0</Size></Contents>\n"
      "</ListBucketResult>\n");
  EXPECT_EQ(node.name, "ListBucketResult");
  EXPECT_EQ(node.text_of("IsTruncated"), "false");
  ASSERT_EQ(node.children.size(), 3U);
  EXPECT_EQ(node.children[1].text_of("Key"), "a & b's <x>");
  EXPECT_EQ(node.children[1].text_of("Size"), "12");
  EXPECT_EQ(node.children[2].text_of("Key"),
            " Gr\xC3\xB6\xC3\x9F"
            "e ");
}

TEST(Xml, TheFirstChildOfANameIsFoundAndAnAbsentOneIsEmpty) {
  const XmlNode node = parsed("<a><b>1</b><c/><b>2</b></a>");
  ASSERT_NE(node.child("b"), nullptr);
  EXPECT_EQ(node.child("b")->text, "1");
  EXPECT_EQ(node.text_of("c"), "");
  EXPECT_EQ(node.child("d"), nullptr);
  EXPECT_EQ(node.text_of("d"), "");
}

TEST(Xml, PrefixesOfNamespacesAreDropped) {
  const XmlNode node = parsed("<s3:Error xmlns:s3=\"x\"><s3:Code>NoSuchKey</s3:Code></s3:Error>");
  EXPECT_EQ(node.name, "Error");
  EXPECT_EQ(node.text_of("Code"), "NoSuchKey");
}

TEST(Xml, AByteOrderMarkAndCdataAreRead) {
  const XmlNode node = parsed("\xEF\xBB\xBF<?xml version=\"1.0\"?><a><b><![CDATA[<&>]]> x</b></a>");
  EXPECT_EQ(node.text_of("b"), "<&> x");
}

TEST(Xml, ANameOfBlanksIsKept) { EXPECT_EQ(parsed("<a><Key> </Key></a>").text_of("Key"), " "); }

TEST(Xml, WhatIsNotXmlIsRefusedWithItsBeginning) {
  using namespace std::string_literals;
  EXPECT_THAT(problem_of(""), HasSubstr("empty answer"));
  EXPECT_THAT(problem_of("hello"), HasSubstr("begins 'hello'"));
  EXPECT_THAT(problem_of("garbage <a/>"), HasSubstr("no tag at its beginning"));
  EXPECT_THAT(problem_of("<a></a><b></b>"), HasSubstr("more than one"));
  EXPECT_THAT(problem_of("{\"error\": 1}\n\x01\xFF"), HasSubstr("begins '{\"error\": 1}   '"));
  for (const std::string& text :
       {"<"s, "<a"s, "<a>"s, "<a></b>"s, "<a><b></a></b>"s, "<a b=></a>"s, "<?xml"s, "<!-- x"s,
        "<a>\0</a>"s, "<a/>\0"s, "   "s, "<?xml version=\"1.0\"?>"s, "<!DOCTYPE a>"s}) {
    EXPECT_NE(problem_of(text), "") << text;
  }
}

TEST(Xml, TooDeepTooManyAndTooLargeAreRefused) {
  std::string deep;
  for (int i = 0; i < 33; ++i) deep += "<a>";
  for (int i = 0; i < 33; ++i) deep += "</a>";
  EXPECT_THAT(problem_of(deep), HasSubstr("too deep"));
  EXPECT_TRUE(parse_xml(deep.substr(3, deep.size() - 7)));
  std::string many = "<r>";
  for (int i = 0; i < 1'000'001; ++i) many += "<a/>";
  EXPECT_THAT(problem_of(many + "</r>"), HasSubstr("too many"));
  EXPECT_THAT(problem_of("<a>" + std::string(size_t{33} << 20, ' ') + "</a>"),
              HasSubstr("too large"));
}

TEST(Xml, EntitiesOfTheDocumentItselfAreNotExpanded) {
  const Result<XmlNode> node =
      parse_xml("<!DOCTYPE a [<!ENTITY x \"xxxxxxxxxx\">]><a><b>&x;&x;</b></a>");
  if (node) {
    EXPECT_EQ(node->text_of("b"), "&x;&x;");
  }
}

// Every cut and every changed byte of an answer: an error or some document, never a crash.
TEST(Xml, DamagedAnswersNeverCrash) {
  const std::string whole =
      "<?xml version=\"1.0\"?><E xmlns:a='b'><a:C>x &amp; &#x41; <![CDATA[y]]></a:C><!-- z --></E>";
  for (size_t i = 0; i < whole.size(); ++i) {
    const Result<XmlNode> cut = parse_xml(whole.substr(0, i));
    EXPECT_FALSE(cut) << i;
    for (const char byte : {'<', '>', '&', ';', '\0', '\xFF', '"', '/', ' '}) {
      std::string changed = whole;
      changed[i] = byte;
      const Result<XmlNode> node = parse_xml(changed);
      if (node) {
        EXPECT_LE(node->children.size(), 2U);
      }
    }
  }
}

TEST(Xml, EscapedTextComesBackEqual) {
  const std::string odd = "a & b <c> \"d\" 'e' &amp; \xC3\xA9 %2F";
  EXPECT_EQ(parsed("<a><b>" + escape_xml(odd) + "</b></a>").text_of("b"), odd);
}

}  // namespace
}  // namespace tern
