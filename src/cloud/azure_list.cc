#include "cloud/azure_list.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "cloud/azure_name.h"
#include "cloud/shared_key.h"
#include "cloud/xml.h"

namespace tern {
namespace {

Error not_a_listing(std::string_view problem) {
  return fail(Code::corrupt, fmt::format("the store's listing {}; check that the endpoint is an "
                                         "object store, and that no proxy changes its answers",
                                         problem));
}

std::optional<int64_t> size_of(const std::string& text) {
  int64_t size = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), size);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return size < 0 ? std::nullopt : std::optional(size);
}

}  // namespace

Result<AzurePage> parse_azure_page(BytesView xml) {
  const Result<XmlNode> parsed = parse_xml(xml);
  if (!parsed) return not_a_listing("cannot be read: " + parsed.error().message);
  const XmlNode& root = *parsed;
  const XmlNode* blobs = root.child("Blobs");
  if (root.name != "EnumerationResults" || blobs == nullptr) {
    return not_a_listing("is some other document");
  }
  AzurePage page{.next = root.text_of("NextMarker")};
  for (const XmlNode& blob : blobs->children) {
    if (blob.name != "Blob") continue;
    const XmlNode* name = blob.child("Name");
    const XmlNode* properties = blob.child("Properties");
    if (name == nullptr || properties == nullptr) return not_a_listing("has an entry without name");
    if (properties->text_of("ResourceType") == "directory") continue;
    ObjectInfo info{from_azure_name(name->is_encoded ? percent_decode(name->text) : name->text)};
    const std::optional<int64_t> size = size_of(properties->text_of("Content-Length"));
    if (!size) return not_a_listing("has an entry without size");
    info.size_bytes = *size;
    page.objects.push_back(std::move(info));
  }
  return page;
}

}  // namespace tern
