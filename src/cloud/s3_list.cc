#include "cloud/s3_list.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "cloud/xml.h"
#include "core/iso_time.h"
#include "core/system_files.h"

namespace tern {
namespace {

Result<XmlNode> parse_document(BytesView text, std::string_view name) {
  ASSIGN_OR_RETURN(XmlNode xml, parse_xml(text));
  if (xml.name == name) return xml;
  return fail(Code::corrupt, fmt::format("the answer is a document <{}> where <{}> was expected",
                                         printable_line(xml.name).substr(0, 40), name));
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A store that was asked for encoded names says so if it did; others send them plain.
Result<std::string> name_of(const XmlNode& entry, const XmlNode& page) {
  std::string key = entry.text_of("Key");
  if (page.text_of("EncodingType") != "url") return key;
  return decode_s3_name(key);
}

Error bad_entry(std::string_view what) {
  return fail(Code::corrupt, fmt::format("the listing has an entry without {}", what));
}

}  // namespace

Result<std::string> decode_s3_name(std::string_view text) {
  std::string name;
  name.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      name += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return fail(Code::corrupt, "the listing has a name that is not encoded as it says");
    }
    name += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return name;
}

Result<S3ListPage> parse_s3_list(BytesView text) {
  ASSIGN_OR_RETURN(const XmlNode xml, parse_document(text, "ListBucketResult"));
  S3ListPage page;
  for (const XmlNode& entry : xml.children) {
    if (entry.name != "Contents") continue;
    const std::optional<int64_t> size = parse_whole_number(entry.text_of("Size"));
    if (entry.child("Key") == nullptr) return bad_entry("a key");
    if (!size || *size < 0) return bad_entry("a size");
    ASSIGN_OR_RETURN(std::string name, name_of(entry, xml));
    page.objects.push_back({std::move(name), *size});
  }
  const bool is_last = xml.text_of("IsTruncated") != "true";
  if (is_last) return page;
  page.next = xml.text_of("NextContinuationToken");
  if (page.next.empty()) {
    return fail(Code::corrupt, "the listing is said to go on and does not say where");
  }
  return page;
}

Result<S3UploadPage> parse_s3_uploads(BytesView text) {
  ASSIGN_OR_RETURN(const XmlNode xml, parse_document(text, "ListMultipartUploadsResult"));
  S3UploadPage page;
  for (const XmlNode& entry : xml.children) {
    if (entry.name != "Upload") continue;
    const std::optional<int64_t> began = parse_iso_time(entry.text_of("Initiated"));
    std::string id = entry.text_of("UploadId");
    if (id.empty()) return bad_entry("an upload's id");
    if (!began) return bad_entry("the time when an upload began");
    ASSIGN_OR_RETURN(std::string name, name_of(entry, xml));
    page.uploads.push_back({std::move(name), std::move(id), *began});
  }
  if (xml.text_of("IsTruncated") != "true") return page;
  page.next_name = xml.text_of("NextKeyMarker");
  if (xml.text_of("EncodingType") == "url") {
    ASSIGN_OR_RETURN(page.next_name, decode_s3_name(page.next_name));
  }
  page.next_id = xml.text_of("NextUploadIdMarker");
  if (page.next_name.empty()) {
    return fail(Code::corrupt, "the listing is said to go on and does not say where");
  }
  return page;
}

std::string delete_objects_xml(std::span<const std::string> names) {
  std::string body = "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  for (const std::string& name : names) {
    body += fmt::format("<Object><Key>{}</Key></Object>", escape_xml(name));
  }
  return body + "<Quiet>true</Quiet></Delete>";
}

Result<std::vector<std::string>> parse_s3_removal(BytesView text) {
  ASSIGN_OR_RETURN(const XmlNode xml, parse_document(text, "DeleteResult"));
  std::vector<std::string> failed;
  for (const XmlNode& entry : xml.children) {
    const bool is_failure = entry.name == "Error" && entry.text_of("Code") != "NoSuchKey";
    if (is_failure) failed.push_back(entry.text_of("Key"));
  }
  return failed;
}

Result<std::string> parse_s3_upload_id(BytesView text) {
  ASSIGN_OR_RETURN(const XmlNode xml, parse_document(text, "InitiateMultipartUploadResult"));
  std::string id = xml.text_of("UploadId");
  if (id.empty()) return fail(Code::corrupt, "the answer has no upload's id");
  return id;
}

Status check_s3_completion(BytesView text) {
  RETURN_IF_ERROR(parse_document(text, "CompleteMultipartUploadResult"));
  return {};
}

}  // namespace tern
