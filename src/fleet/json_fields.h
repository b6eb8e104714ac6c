// Members of JSON that another machine sent: what is absent or of another kind counts as not said.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>

#include "preempt/json_text.h"  // text_in()

namespace tern {

inline int64_t number_in(const nlohmann::json& object, const char* key, int64_t otherwise) {
  if (!object.is_object()) return otherwise;
  const auto member = object.find(key);
  return member != object.end() && member->is_number_integer() ? member->get<int64_t>() : otherwise;
}

}  // namespace tern
