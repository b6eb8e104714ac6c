#include "cloud/xml.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <pugixml.hpp>

namespace tern {
namespace {

// A page of 5000 blobs with names of 1024 bytes, all escaped, is below 20 MiB and 200,000 elements.
constexpr size_t kBytesMax = size_t{32} << 20;
constexpr int64_t kElementsMax = 1'000'000;
constexpr int kDepthMax = 32;

// What an answer begins with, for a message: one line of printable ASCII.
std::string beginning_of(BytesView text) {
  std::string shown(text.substr(0, 60));
  for (char& c : shown) {
    if (c < 0x20 || c == 0x7F) c = ' ';  // also above ASCII, where char is signed
  }
  return shown;
}

Error not_xml(BytesView text, std::string_view problem) {
  if (text.empty()) return fail(Code::corrupt, "an empty answer where XML was expected");
  return fail(Code::corrupt, fmt::format("the answer is not usable XML ({}); it has {} bytes and "
                                         "begins '{}'",
                                         problem, text.size(), beginning_of(text)));
}

std::string_view without_prefix(std::string_view name) {
  const size_t colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

// Copies `from` with all below it. False if there is too much of it.
bool copy(const pugi::xml_node& from, XmlNode& to, int depth, int64_t& elements) {
  if (depth > kDepthMax || ++elements > kElementsMax) return false;
  to.name = without_prefix(from.name());
  to.is_encoded = std::string_view(from.attribute("Encoded").value()) == "true";
  for (const pugi::xml_node& inside : from) {
    if (inside.type() == pugi::node_pcdata || inside.type() == pugi::node_cdata) {
      to.text += inside.value();
    } else if (inside.type() == pugi::node_element) {
      if (!copy(inside, to.children.emplace_back(), depth + 1, elements)) return false;
    }
  }
  return true;
}

}  // namespace

const XmlNode* XmlNode::child(std::string_view wanted) const {
  for (const XmlNode& one : children) {
    if (one.name == wanted) return &one;
  }
  return nullptr;
}

std::string XmlNode::text_of(std::string_view wanted) const {
  const XmlNode* found = child(wanted);
  return found == nullptr ? std::string() : found->text;
}

Result<XmlNode> parse_xml(BytesView text) {
  if (text.size() > kBytesMax) return not_xml(text, "too large");
  // pugixml skips what stands before the first tag and stops at a zero byte; neither is XML.
  BytesView start = text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
  start.remove_prefix(std::min(start.find_first_not_of(" \t\r\n"), start.size()));
  if (!start.starts_with('<')) return not_xml(text, "no tag at its beginning");
  if (text.find('\0') != BytesView::npos) return not_xml(text, "a zero byte");
  pugi::xml_document document;
  const pugi::xml_parse_result parsed =
      document.load_buffer(text.data(), text.size(),
                           pugi::parse_default | pugi::parse_ws_pcdata_single, pugi::encoding_utf8);
  if (!parsed) {
    return not_xml(text, fmt::format("{} at byte {}", parsed.description(), parsed.offset));
  }
  const pugi::xml_node root = document.document_element();
  if (root.next_sibling()) return not_xml(text, "more than one document");
  XmlNode node;
  int64_t elements = 0;
  if (!copy(root, node, 1, elements)) return not_xml(text, "too deep or too many elements");
  return node;
}

std::string escape_xml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&apos;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

}  // namespace tern
