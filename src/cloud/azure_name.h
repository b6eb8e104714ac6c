// How names of ours are names of Azure's, which takes '\' for '/'.
#pragma once

#include <string>
#include <string_view>

namespace tern {

// '\' is kept as "%5C", and what looks like that already as "%255C", and so on: every name has one
// form there, and all names without '\' and "%5C" are themselves.
std::string to_azure_name(std::string_view name);
std::string from_azure_name(std::string_view name);

// The longest text with which the forms of all names begin that begin with `prefix`.
std::string to_azure_prefix(std::string_view prefix);

}  // namespace tern
