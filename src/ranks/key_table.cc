#include "ranks/key_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "core/system_files.h"

namespace tern {

Status KeyTable::set(BytesView key, BytesView value) {
  ASSIGN_OR_RETURN(Bytes* const place, make_room(key, value.size()));
  *place = value;
  return {};
}

Status KeyTable::append(BytesView key, BytesView more) {
  const Bytes* const value = find(key);
  const size_t before = value == nullptr ? 0 : value->size();
  ASSIGN_OR_RETURN(Bytes* const place, make_room(key, before + more.size()));
  place->append(more);
  return {};
}

Result<Bytes*> KeyTable::make_room(BytesView key, size_t value_bytes) {
  if (key.size() > limits_.key_bytes) {
    return fail(Code::exhausted,
                fmt::format("a key of {} bytes; {} are allowed", key.size(), limits_.key_bytes));
  }
  const auto found = values_.find(key);
  const bool is_new = found == values_.end();
  const size_t before = is_new ? 0 : key.size() + found->second.size();
  const size_t after = key.size() + value_bytes;
  if ((is_new && values_.size() >= limits_.keys) || bytes_ - before + after > limits_.all_bytes) {
    return fail(Code::exhausted,
                fmt::format("the rendezvous holds {} keys of {} bytes, and {} keys of {} bytes are "
                            "allowed; remove those that are done with",
                            values_.size(), bytes_, limits_.keys, limits_.all_bytes));
  }
  bytes_ = bytes_ - before + after;
  return is_new ? &values_[Bytes(key)] : &found->second;
}

const Bytes* KeyTable::find(BytesView key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Result<int64_t> KeyTable::add(BytesView key, int64_t amount) {
  int64_t sum = 0;
  if (const Bytes* value = find(key)) {
    const std::optional<int64_t> number = parse_whole_number(*value);
    if (!number) return fail(Code::invalid, "the value of the key is no number");
    sum = *number;
  }
  if (__builtin_add_overflow(sum, amount, &sum)) {
    return fail(Code::invalid, "the sum is too large for a number");
  }
  RETURN_IF_ERROR(set(key, std::to_string(sum)));
  return sum;
}

Result<Bytes> KeyTable::compare_set(BytesView key, BytesView expected, BytesView desired) {
  const Bytes* value = find(key);
  const bool matches = value == nullptr ? expected.empty() : *value == expected;
  if (matches) {
    RETURN_IF_ERROR(set(key, desired));
    return Bytes(desired);
  }
  return value == nullptr ? Bytes(expected) : *value;
}

bool KeyTable::remove(BytesView key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= found->first.size() + found->second.size();
  values_.erase(found);
  return true;
}

void KeyTable::clear() {
  values_.clear();
  bytes_ = 0;
}

bool KeyTable::has_all(const std::vector<Bytes>& keys) const {
  return std::ranges::all_of(keys, [this](const Bytes& key) { return find(key) != nullptr; });
}

std::vector<Bytes> KeyTable::names() const {
  std::vector<Bytes> names;
  names.reserve(values_.size());
  for (const auto& [key, value] : values_) names.push_back(key);
  return names;
}

}  // namespace tern
