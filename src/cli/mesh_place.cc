#include "cli/mesh_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "core/system_files.h"
#include "ranks/messages.h"

namespace tern {
namespace {

// 64 digits and a newline; what is longer is another file.
constexpr size_t kSecretFileBytesMax = 1'024;

std::string text_of(const VariableReader& variable, const char* name) {
  return variable ? variable(name).value_or("") : "";
}

Error wrong(const char* name, const std::string& what) {
  return fail(Code::invalid,
              fmt::format("{} {}; `tern launch` sets these variables, or unset {} to "
                          "train on this machine alone",
                          name, what, kPeersVariable));
}

Result<std::vector<std::string>> read_peers(const std::string& text) {
  std::vector<std::string> peers;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (const Result<HostAndPort> parsed = parse_address(word); !parsed) {
      return wrong(kPeersVariable, "has an entry that is none: " + parsed.error().message);
    }
    peers.push_back(word);
  }
  if (std::set(peers.begin(), peers.end()).size() != peers.size()) {
    return wrong(kPeersVariable, "names an address twice");
  }
  if (static_cast<int64_t>(peers.size()) > kMachinesMax) {
    return wrong(kPeersVariable, fmt::format("names {} machines, and {} can train together",
                                             peers.size(), kMachinesMax));
  }
  return peers;
}

Result<int64_t> read_number(const VariableReader& variable, const char* name, int64_t min,
                            int64_t max) {
  const std::string text = text_of(variable, name);
  const std::optional<int64_t> number = parse_whole_number(text);
  if (number && *number >= min && *number <= max) return *number;
  return wrong(name, fmt::format("is '{}', and with {} it must be a number from {} to {}",
                                 printable_line(text), kPeersVariable, min, max));
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

Result<Bytes> read_secret(const std::string& file) {
  if (file.empty()) return wrong(kSecretFileVariable, "is not set");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) {
    return fail(Code::not_found, fmt::format("cannot read {} ({}); it must be a file of 64 "
                                             "hexadecimal digits, the same on all machines",
                                             file, kSecretFileVariable));
  }
  std::string text(kSecretFileBytesMax, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  const bool is_hex = std::ranges::all_of(text, [](char c) { return digit_of(c) >= 0; });
  if (text.size() != 2 * kSecretBytes || !is_hex) {
    return fail(Code::corrupt, fmt::format("{} ({}) does not hold 64 hexadecimal digits; make it "
                                           "anew, the same on all machines",
                                           file, kSecretFileVariable));
  }
  Bytes secret;
  for (size_t i = 0; i < text.size(); i += 2) {
    secret += static_cast<char>(16 * digit_of(text[i]) + digit_of(text[i + 1]));
  }
  return secret;
}

}  // namespace

Result<std::optional<MeshPlace>> read_mesh_place(const VariableReader& variable) {
  MeshPlace place;
  ASSIGN_OR_RETURN(place.peers, read_peers(text_of(variable, kPeersVariable)));
  if (place.peers.size() < 2) return std::optional<MeshPlace>();
  const auto machines = static_cast<int64_t>(place.peers.size());
  ASSIGN_OR_RETURN(place.machine, read_number(variable, kMachineVariable, 0, machines - 1));
  ASSIGN_OR_RETURN(place.working, read_number(variable, kMachinesVariable, 1, machines));
  ASSIGN_OR_RETURN(place.secret, read_secret(text_of(variable, kSecretFileVariable)));
  return std::optional(std::move(place));
}

}  // namespace tern
