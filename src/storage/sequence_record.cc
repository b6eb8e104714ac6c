#include "storage/sequence_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/hash.h"

namespace tern {
namespace {

using Json = nlohmann::json;

constexpr int64_t kFormat = 1;
constexpr std::string_view kRecordSuffix = ".json";
constexpr std::string_view kBlobPrefix = "blobs/";
constexpr size_t kNumberDigits = 8;
constexpr size_t kHashDigits = 64;

constexpr std::pair<RecordKind, std::string_view> kKinds[] = {
    {RecordKind::lease, "lease"},
    {RecordKind::checkpoint, "checkpoint"},
    {RecordKind::release, "release"},
    {RecordKind::pruned, "pruned"},
};

std::string kind_text(RecordKind kind) {
  for (const auto& [value, text] : kKinds) {
    if (value == kind) return std::string(text);
  }
  return "unknown";
}

// Only the spelling that record_object() and blob_object() make: "00000012", never "12" or "+12",
// so that a number has one name.
std::optional<int64_t> parse_number(std::string_view digits) {
  if (digits.size() < kNumberDigits) return std::nullopt;
  if (digits.size() > kNumberDigits && digits.front() == '0') return std::nullopt;
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stopped, error] = std::from_chars(digits.data(), end, number);
  if (error != std::errc() || stopped != end || number < 1) return std::nullopt;
  // The next number must exist too.
  if (number == std::numeric_limits<int64_t>::max()) return std::nullopt;
  return number;
}

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string hash_line(BytesView line) { return "sha256 " + to_hex(sha256(line)) + "\n"; }

// Takes typed fields out of a JSON object and remembers the first that is missing or of another
// type, so that a parser reads as the list of its fields.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {
    if (!json.is_object()) problem_ = "it is no JSON object";
  }

  std::string text(const char* name) {
    const Json* field = find(name, &Json::is_string, "a text");
    return field == nullptr ? std::string() : field->get<std::string>();
  }
  std::string text_or_none(const char* name) { return json_.contains(name) ? text(name) : ""; }
  bool boolean(const char* name) {
    const Json* field = find(name, &Json::is_boolean, "true or false");
    return field != nullptr && field->get<bool>();
  }
  int64_t number(const char* name) {
    const Json* field = find(name, &Json::is_number_integer, "a whole number");
    if (field == nullptr) return 0;
    if (field->is_number_unsigned() &&
        field->get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
      problem_ = fmt::format("field '{}' is too large", name);
      return 0;
    }
    return field->get<int64_t>();
  }
  const Json& object(const char* name) { return inner(name, &Json::is_object, "an object"); }
  const Json& array(const char* name) { return inner(name, &Json::is_array, "an array"); }

  void refuse(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  const std::string& problem() const { return problem_; }

 private:
  using Is = bool (Json::*)() const noexcept;

  const Json* find(const char* name, Is is, const char* what) {
    if (!problem_.empty()) return nullptr;
    const auto found = json_.find(name);
    if (found != json_.end() && ((*found).*is)()) return &*found;
    problem_ = fmt::format("field '{}' is not {}", name, found == json_.end() ? "there" : what);
    return nullptr;
  }
  const Json& inner(const char* name, Is is, const char* what) {
    const Json* field = find(name, is, what);
    return field == nullptr ? nothing_ : *field;
  }

  const Json& json_;
  const Json nothing_;
  std::string problem_;
};

Json holder_json(const Holder& holder) {
  Json json = {{"token", holder.token},     {"host", holder.host},
               {"boot_id", holder.boot_id}, {"pid_namespace", holder.pid_namespace},
               {"pid", holder.pid},         {"pid_start", holder.pid_start}};
  if (!holder.group.empty()) json["group"] = holder.group;
  return json;
}

Holder parse_holder(Fields& record) {
  Fields fields(record.object("holder"));
  Holder holder;
  holder.token = fields.text("token");
  holder.host = fields.text("host");
  holder.boot_id = fields.text("boot_id");
  holder.pid_namespace = fields.text("pid_namespace");
  holder.pid = fields.number("pid");
  holder.pid_start = fields.number("pid_start");
  holder.group = fields.text_or_none("group");
  if (holder.token.empty()) fields.refuse("the token is empty");
  if (!fields.problem().empty()) record.refuse("holder: " + fields.problem());
  return holder;
}

std::vector<Blob> parse_blobs(Fields& record) {
  std::vector<Blob> blobs;
  for (const Json& json : record.array("blobs")) {
    Fields fields(json);
    Blob blob;
    blob.object = fields.text("object");
    blob.sha256 = fields.text("sha256");
    blob.size_bytes = fields.number("size_bytes");
    // Retention removes what a record names, so it must not be able to name anything else.
    if (!blob_lease(blob.object) || !blob.object.ends_with("/" + blob.sha256)) {
      fields.refuse("object is not named by its hash");
    }
    if (blob.size_bytes < 0) fields.refuse("size_bytes is negative");
    if (!fields.problem().empty()) record.refuse("blob: " + fields.problem());
    blobs.push_back(std::move(blob));
  }
  return blobs;
}

Error damaged(int64_t number, std::string_view reason) {
  return fail(Code::corrupt, fmt::format("record {} is damaged: {}; an earlier checkpoint is used "
                                         "if one is whole",
                                         number, reason));
}

}  // namespace

std::string record_object(int64_t number) { return fmt::format("{:08}{}", number, kRecordSuffix); }

std::optional<int64_t> record_number(std::string_view object) {
  if (!object.ends_with(kRecordSuffix)) return std::nullopt;
  return parse_number(object.substr(0, object.size() - kRecordSuffix.size()));
}

std::string blob_object(int64_t lease, std::string_view sha256) {
  return fmt::format("{}{:08}/{}", kBlobPrefix, lease, sha256);
}

std::optional<int64_t> blob_lease(std::string_view object) {
  if (!object.starts_with(kBlobPrefix)) return std::nullopt;
  object.remove_prefix(kBlobPrefix.size());
  const size_t slash = object.find('/');
  if (slash == std::string_view::npos || !is_hash(object.substr(slash + 1))) return std::nullopt;
  return parse_number(object.substr(0, slash));
}

bool is_json_object(std::string_view text) { return Json::parse(text, nullptr, false).is_object(); }

Bytes format_record(const SequenceRecord& record) {
  Json json = {{"format", kFormat}, {"number", record.number}, {"kind", kind_text(record.kind)}};
  if (record.kind != RecordKind::pruned) {
    json["holder"] = holder_json(record.holder);
    json["unix_ms"] = record.unix_ms;
    json["lease"] = record.lease;
  }
  if (record.kind == RecordKind::checkpoint) {
    json["best"] = record.best;
    json["state"] = record.state;
    json["blobs"] = Json::array();
    for (const Blob& blob : record.blobs) {
      json["blobs"].push_back(
          {{"object", blob.object}, {"sha256", blob.sha256}, {"size_bytes", blob.size_bytes}});
    }
  }
  // Replacing what is not UTF-8 (a host name may be anything) is the only way not to throw.
  const std::string line = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  return line + "\n" + hash_line(line);
}

Result<SequenceRecord> parse_record(BytesView bytes, int64_t number) {
  const size_t newline = bytes.find('\n');
  if (newline == BytesView::npos) return damaged(number, "it has no second line");
  const BytesView line = bytes.substr(0, newline);
  if (bytes.substr(newline + 1) != hash_line(line)) return damaged(number, "its hash differs");

  const Json json = Json::parse(line, nullptr, false);
  Fields fields(json);
  const int64_t format = fields.number("format");
  if (fields.problem().empty() && format > kFormat) {
    return fail(Code::failed_precondition,
                fmt::format("record {} has format {}, this tern reads up to {}; use the newer tern "
                            "that wrote it",
                            number, format, kFormat));
  }
  SequenceRecord record;
  record.number = fields.number("number");
  const std::string kind = fields.text("kind");
  const auto* known = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [&](const auto& entry) { return entry.second == kind; });
  if (known == std::end(kKinds)) {
    fields.refuse(fmt::format("kind '{}' is none we know", kind));
  } else {
    record.kind = known->first;
  }
  if (record.number != number) fields.refuse(fmt::format("it says it is {}", record.number));
  if (record.kind != RecordKind::pruned) {
    record.holder = parse_holder(fields);
    record.unix_ms = fields.number("unix_ms");
    record.lease = fields.number("lease");
  }
  if (record.kind == RecordKind::checkpoint) {
    record.best = fields.boolean("best");
    record.state = fields.text("state");
    record.blobs = parse_blobs(fields);
  }
  if (!fields.problem().empty()) return damaged(number, fields.problem());
  return record;
}

}  // namespace tern
