#include "storage/ledger.h"

#include <nlohmann/json.hpp>

namespace tern {

Result<std::unique_ptr<Ledger>> Ledger::open(ObjectStore& run, Clock& clock,
                                             int64_t price_microusd_per_hour) {
  ASSIGN_OR_RETURN(std::unique_ptr<RecordLog> log,
                   open_record_log(run, kLedgerObject).at("open the ledger"));
  return std::unique_ptr<Ledger>(new Ledger(std::move(log), clock, price_microusd_per_hour));
}

Status Ledger::record(std::string_view kind, const nlohmann::json& fields) {
  TERN_CHECK(fields.is_object());
  const int64_t now_ms = clock_.unix_ms();
  // Ordered, because people read this file too: when and what come first.
  nlohmann::ordered_json line = {{"ms", now_ms}, {"at", format_utc(now_ms)}, {"kind", kind}};
  if (price_microusd_per_hour_ >= 0) line["price_microusd_per_hour"] = price_microusd_per_hour_;
  // emplace: a field cannot replace what the ledger itself says.
  for (const auto& [name, value] : fields.items()) line.emplace(name, value);
  // A command line or a file's name may be no UTF-8; dump() would throw on it.
  const std::string text =
      line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  newest_ = parse_json_record(text).value_or(nullptr);
  RETURN_IF_ERROR(log_->append(text).at("write the ledger"));
  return log_->sync().at("write the ledger");
}

Result<std::vector<nlohmann::json>> read_json_records(ObjectStore& run, const std::string& name,
                                                      int64_t& skipped) {
  ASSIGN_OR_RETURN(const std::vector<std::string> lines,
                   read_records(run, name).at("read " + name));
  std::vector<nlohmann::json> records;
  records.reserve(lines.size());
  for (const std::string& line : lines) {
    if (std::optional<nlohmann::json> record = parse_json_record(line)) {
      records.push_back(std::move(*record));
    } else {
      ++skipped;
    }
  }
  return records;
}

std::optional<nlohmann::json> parse_json_record(const std::string& line) {
  nlohmann::json record =
      nlohmann::json::parse(line, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (!record.is_object()) return std::nullopt;
  return record;
}

}  // namespace tern
