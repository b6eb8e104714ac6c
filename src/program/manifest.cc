#include "program/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/hash.h"
#include "core/system_files.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr int kFormat = 1;
constexpr size_t kDigits = 12;
constexpr char kEnding[] = ".json";
constexpr char kChecksum[] = "checksum";

std::string dump(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Error damaged(int64_t number, std::string_view why) {
  return fail(Code::corrupt, fmt::format("{}: {}", manifest_object(number), why));
}

template <typename T>
std::optional<T> field(const Json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  if constexpr (std::is_same_v<T, int64_t>) {
    return found->is_number_integer() ? std::optional(found->get<int64_t>()) : std::nullopt;
  } else {
    return found->is_string() ? std::optional(found->get<std::string>()) : std::nullopt;
  }
}

std::optional<SavedFile> parse_file(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto size = field<int64_t>(json, "size_bytes");
  SavedFile file{.path = field<std::string>(json, "path").value_or(""),
                 .size_bytes = size.value_or(-1),
                 .sha256 = field<std::string>(json, "sha256").value_or(""),
                 .object = field<std::string>(json, "object").value_or("")};
  // The path becomes a file's, and the object is removed one day: neither may be anything else's.
  const bool is_ours =
      file.size_bytes >= 0 && is_sha256(file.sha256) && check_object_name(file.path).has_value() &&
      check_object_name(file.object).has_value() && file.object.starts_with(kFilePrefix);
  return is_ours ? std::optional(std::move(file)) : std::nullopt;
}

}  // namespace

int64_t Manifest::size_bytes() const {
  return std::accumulate(files.begin(), files.end(), int64_t{0},
                         [](int64_t sum, const SavedFile& file) { return sum + file.size_bytes; });
}

std::string manifest_object(int64_t number) {
  return fmt::format("{}{:0{}}{}", kManifestPrefix, number, kDigits, kEnding);
}

Bytes format_manifest(const Manifest& manifest) {
  Json files = Json::array();
  for (const SavedFile& file : manifest.files) {
    files.push_back({{"path", file.path},
                     {"size_bytes", file.size_bytes},
                     {"sha256", file.sha256},
                     {"object", file.object}});
  }
  Json json = {{"format", kFormat},
               {"number", manifest.number},
               {"unix_ms", manifest.unix_ms},
               {"writer", manifest.writer},
               {"files", std::move(files)}};
  json[kChecksum] = to_hex(sha256(dump(json)));
  return dump(json) + "\n";
}

Result<Manifest> parse_manifest(BytesView text, int64_t number) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return damaged(number, "is no JSON object");
  if (field<int64_t>(json, "format").value_or(0) > kFormat) {
    return fail(
        Code::failed_precondition,
        fmt::format("{} was written by a newer tern; use that one", manifest_object(number)));
  }
  const std::string checksum = field<std::string>(json, kChecksum).value_or("");
  json.erase(kChecksum);
  if (checksum != to_hex(sha256(dump(json)))) return damaged(number, "its checksum differs");
  Manifest manifest{.number = field<int64_t>(json, "number").value_or(-1),
                    .unix_ms = field<int64_t>(json, "unix_ms").value_or(0),
                    .writer = field<std::string>(json, "writer").value_or("")};
  if (manifest.number != number || !json["files"].is_array()) {
    return damaged(number, "is not of this number");
  }
  for (const Json& each : json["files"]) {
    std::optional<SavedFile> file = parse_file(each);
    if (!file) return damaged(number, "lists what is no file");
    manifest.files.push_back(std::move(*file));
  }
  return manifest;
}

Result<std::vector<int64_t>> list_manifests(ObjectStore& run) {
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, run.list(kManifestPrefix));
  std::vector<int64_t> numbers;
  for (const ObjectInfo& object : objects) {
    const std::string digits = object.name.substr(
        sizeof kManifestPrefix - 1, object.name.rfind('.') - (sizeof kManifestPrefix - 1));
    const auto number = parse_whole_number(digits);
    if (number && manifest_object(*number) == object.name) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  return numbers;
}

Result<Manifest> read_manifest(ObjectStore& run, int64_t number) {
  ASSIGN_OR_RETURN(const Bytes text, run.get(manifest_object(number)));
  return parse_manifest(text, number);
}

}  // namespace tern
