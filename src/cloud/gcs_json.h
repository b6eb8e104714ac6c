// The JSON of Google Cloud Storage, read into plain values. Any of it may be garbage: then the
// answer is nothing, and the caller says what was asked.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"

namespace tern {

struct GcsObject {
  std::string name;
  int64_t size_bytes = 0;
  std::string generation;          // decimal digits; empty: not said
  std::optional<uint32_t> crc32c;  // nothing: not said
  std::string nonce;               // of its metadata (nonce.h); empty: it has none
};

struct GcsPage {
  std::vector<GcsObject> objects;
  std::string next;  // the token of the next page; empty: this is the last
};

// Of an error: {"error": {"code": 403, "message": "...", "errors": [{"reason": "forbidden"}]}}.
struct GcsComplaint {
  std::string reason;
  std::string message;  // one printable line, at most 300 bytes
};

std::optional<GcsObject> parse_gcs_object(BytesView json);
std::optional<GcsPage> parse_gcs_page(BytesView json);
std::optional<GcsComplaint> parse_gcs_complaint(BytesView json);

// As Google writes it: base64 of its four bytes, the highest first.
std::string crc32c_text(uint32_t crc);
std::optional<uint32_t> parse_crc32c_text(std::string_view text);

// An object not deeper than all that is read here; nothing for anything else.
std::optional<nlohmann::json> parse_small_json(BytesView text);
// Empty if there is no such member or it is no text.
std::string text_member(const nlohmann::json& json, const char* name);
// "fields" of others' text that people see: one printable line, at most 300 bytes.
std::string shown_text(std::string_view text);

}  // namespace tern
