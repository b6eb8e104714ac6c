// Fields of a line of records, read without trust: a field that is missing, of another type or out
// of range reads as the fallback, so that a damaged line can make a report poorer but never stop
// it.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace tern {

// Nothing if it is no integer, negative, or beyond 2^53: no counter of ours gets there, and sums of
// smaller ones do not overflow.
inline std::optional<int64_t> find_count(const nlohmann::json& record, const char* name) {
  constexpr int64_t kLargest = int64_t{1} << 53;
  const auto field = record.find(name);
  if (field == record.end() || !field->is_number_integer()) return std::nullopt;
  const int64_t value = field->get<int64_t>();
  if (value < 0 || value > kLargest) return std::nullopt;
  return value;
}

inline int64_t count_or(const nlohmann::json& record, const char* name, int64_t fallback) {
  return find_count(record, name).value_or(fallback);
}

// JSON has no NaN: a loss that was none is null in the file and nothing here.
inline std::optional<double> find_number(const nlohmann::json& record, const char* name) {
  const auto field = record.find(name);
  if (field == record.end() || !field->is_number()) return std::nullopt;
  const double value = field->get<double>();
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

// A number that counts or measures something: neither negative nor beyond 10^15, so that sums of
// such numbers stay finite.
inline std::optional<double> find_amount(const nlohmann::json& record, const char* name) {
  constexpr double kLargest = 1e15;
  const std::optional<double> value = find_number(record, name);
  if (!value || *value < 0 || *value > kLargest) return std::nullopt;
  return value;
}

// Null if there is none.
inline const nlohmann::json* find_object(const nlohmann::json& record, const char* name) {
  const auto field = record.find(name);
  return field != record.end() && field->is_object() ? &*field : nullptr;
}

inline std::string text_or(const nlohmann::json& record, const char* name, const char* fallback) {
  const auto field = record.find(name);
  if (field == record.end() || !field->is_string()) return fallback;
  return field->get<std::string>();
}

}  // namespace tern
