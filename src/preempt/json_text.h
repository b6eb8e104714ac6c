// Members of JSON from the network, read without trust.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tern {

// Empty if it is no object, has no such member, or that is no text.
inline std::string text_in(const nlohmann::json& json, const char* name) {
  if (!json.is_object()) return "";
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace tern
