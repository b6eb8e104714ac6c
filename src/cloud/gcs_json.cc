#include "cloud/gcs_json.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cloud/nonce.h"
#include "core/crypto.h"
#include "core/system_files.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr int kDepthMax = 8;
constexpr size_t kShownBytesMax = 300;
constexpr size_t kTokenBytesMax = 8192;
constexpr size_t kGenerationDigitsMax = 19;

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// 64-bit numbers travel as texts, which JavaScript cannot spoil.
std::optional<int64_t> size_member(const Json& json, const char* name) {
  const std::string text = text_member(json, name);
  if (!is_digits(text)) return std::nullopt;
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<GcsObject> read_object(const Json& json) {
  GcsObject object;
  object.name = text_member(json, "name");
  const std::optional<int64_t> size = size_member(json, "size");
  if (object.name.empty() || !size) return std::nullopt;
  object.size_bytes = *size;
  object.generation = text_member(json, "generation");
  if (!is_digits(object.generation) || object.generation.size() > kGenerationDigitsMax) {
    object.generation.clear();
  }
  object.crc32c = parse_crc32c_text(text_member(json, "crc32c"));
  const auto metadata = json.find("metadata");
  if (metadata != json.end()) object.nonce = text_member(*metadata, kNonceName);
  return object;
}

}  // namespace

std::optional<Json> parse_small_json(BytesView text) {
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kDepthMax;
    return depth <= kDepthMax;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || !json.is_object()) return std::nullopt;
  return json;
}

std::string text_member(const Json& json, const char* name) {
  if (!json.is_object()) return {};
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string shown_text(std::string_view text) {
  std::string line = printable_line(text);
  if (line.size() > kShownBytesMax) line.resize(kShownBytesMax);
  return line;
}

std::optional<GcsObject> parse_gcs_object(BytesView text) {
  const std::optional<Json> json = parse_small_json(text);
  return json ? read_object(*json) : std::nullopt;
}

std::optional<GcsPage> parse_gcs_page(BytesView text) {
  const std::optional<Json> json = parse_small_json(text);
  if (!json) return std::nullopt;
  GcsPage page;
  page.next = text_member(*json, "nextPageToken");
  if (page.next.size() > kTokenBytesMax) return std::nullopt;
  // An empty page may lack its items, and with "fields" is then "{}".
  const auto items = json->find("items");
  if (items == json->end()) {
    const bool is_page = json->empty() || !page.next.empty() || json->contains("kind");
    return is_page ? std::optional(page) : std::nullopt;
  }
  if (!items->is_array()) return std::nullopt;
  page.objects.reserve(items->size());
  for (const Json& item : *items) {
    std::optional<GcsObject> object = read_object(item);
    if (!object) return std::nullopt;
    page.objects.push_back(std::move(*object));
  }
  return page;
}

std::optional<GcsComplaint> parse_gcs_complaint(BytesView text) {
  const std::optional<Json> json = parse_small_json(text);
  if (!json) return std::nullopt;
  const auto error = json->find("error");
  if (error == json->end() || !error->is_object()) return std::nullopt;
  GcsComplaint complaint;
  complaint.message = shown_text(text_member(*error, "message"));
  const auto errors = error->find("errors");
  if (errors != error->end() && errors->is_array() && !errors->empty()) {
    complaint.reason = shown_text(text_member(errors->front(), "reason"));
  }
  return complaint;
}

std::string crc32c_text(uint32_t crc) {
  Bytes bytes;
  for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes += static_cast<char>(crc >> shift & 0xFFU);
  return base64(bytes);
}

std::optional<uint32_t> parse_crc32c_text(std::string_view text) {
  const Result<Bytes> bytes = decode_base64(text);
  if (!bytes || bytes->size() != 4) return std::nullopt;
  uint32_t crc = 0;
  for (const char byte : *bytes) crc = crc << 8U | static_cast<unsigned char>(byte);
  return crc;
}

}  // namespace tern
