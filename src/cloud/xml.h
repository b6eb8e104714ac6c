// The XML in which S3 and Azure answer, read into plain values. By pugixml, seen only in xml.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

// One element. Prefixes of namespaces are dropped ("s3:Key" is "Key"); comments and processing
// instructions are not kept, and of the attributes only whether Encoded is "true".
struct XmlNode {
  std::string name;
  std::string text;  // its own, references resolved; blanks count only where nothing else is
  std::vector<XmlNode> children;
  bool is_encoded = false;  // Azure: the text is percent-encoded, as XML cannot hold it

  // The first of that name, or nothing.
  const XmlNode* child(std::string_view name) const;
  // The text of the first child of that name; empty if there is none.
  std::string text_of(std::string_view name) const;
};

// The document's one element. `corrupt`, with what is wrong and how it begins, for what is not
// XML, is above 32 MiB, deeper than 32 elements, or has more than a million of them. Entities
// beyond XML's own five are not expanded, so that a small document stays small.
Result<XmlNode> parse_xml(BytesView text);

// For text between tags: & < > and quotes as references.
std::string escape_xml(std::string_view text);

}  // namespace tern
