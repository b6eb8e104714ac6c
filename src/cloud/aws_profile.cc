#include "cloud/aws_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <optional>

namespace tern {
namespace {

constexpr size_t kFileBytesMax = size_t{4} << 20;
constexpr std::string_view kBlanks = " \t\r\f\v";

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// A file beginning with '~/' is below the home folder, as a shell would have it.
std::filesystem::path file_of(const CloudSurroundings& surroundings, const std::string& variable,
                              const std::string& usual) {
  const std::optional<std::string> named = aws_variable(surroundings, variable);
  if (!named) return surroundings.home / ".aws" / usual;
  if (named->starts_with("~/")) return surroundings.home / named->substr(2);
  return *named;
}

Result<std::map<std::string, AwsSettings>> read_sections(const std::filesystem::path& path) {
  Result<std::string> text = read_aws_file(path);
  if (text) return parse_aws_file(*text);
  if (text.error().code == Code::not_found) return std::map<std::string, AwsSettings>{};
  return text.error();
}

const AwsSettings* find_section(const std::map<std::string, AwsSettings>& sections,
                                const std::string& name) {
  const auto found = sections.find(name);
  return found == sections.end() ? nullptr : &found->second;
}

}  // namespace

std::map<std::string, AwsSettings> parse_aws_file(BytesView text) {
  std::map<std::string, AwsSettings> sections;
  AwsSettings* section = nullptr;
  std::string above;  // the setting that indented lines belong to
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::string_view inside = trimmed(line);
    if (inside.empty() || inside[0] == '#' || inside[0] == ';') continue;
    if (inside[0] == '[') {
      const size_t end = inside.find(']');
      section = nullptr;
      if (end != std::string_view::npos) {
        section = &sections[std::string(trimmed(inside.substr(1, end - 1)))];
      }
      above.clear();
      continue;
    }
    const size_t equals = inside.find('=');
    if (section == nullptr || equals == std::string_view::npos) continue;
    std::string name = lower_case(trimmed(inside.substr(0, equals)));
    const bool nested = kBlanks.find(line[0]) != std::string_view::npos && !above.empty();
    if (nested) {
      name = fmt::format("{}.{}", above, name);
    } else {
      above = name;
    }
    (*section)[name] = trimmed(inside.substr(equals + 1));
  }
  return sections;
}

std::string AwsProfile::setting(const std::string& wanted) const {
  for (const AwsSettings* settings : {&config, &credentials}) {
    const auto found = settings->find(wanted);
    if (found != settings->end() && !found->second.empty()) return found->second;
  }
  return {};
}

std::optional<std::string> aws_variable(const CloudSurroundings& surroundings,
                                        const std::string& name) {
  if (!surroundings.variable) return std::nullopt;
  std::optional<std::string> value = surroundings.variable(name);
  if (value && value->empty()) return std::nullopt;
  return value;
}

Result<std::string> read_aws_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return fail(Code::not_found, fmt::format("there is no file {}", path.string()));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return fail(Code::permission_denied,
                fmt::format("{} cannot be read; check its owner and mode", path.string()));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kFileBytesMax) {
    return fail(Code::invalid, fmt::format("{} has more than 4 MiB, so it is not one of AWS's "
                                           "files; name the right one",
                                           path.string()));
  }
  return text;
}

Result<AwsProfile> read_aws_profile(const CloudSurroundings& surroundings) {
  AwsProfile profile;
  std::optional<std::string> named = aws_variable(surroundings, "AWS_PROFILE");
  if (!named) named = aws_variable(surroundings, "AWS_DEFAULT_PROFILE");
  if (named) profile.name = *named;
  profile.config_file = file_of(surroundings, "AWS_CONFIG_FILE", "config");
  profile.credentials_file = file_of(surroundings, "AWS_SHARED_CREDENTIALS_FILE", "credentials");
  ASSIGN_OR_RETURN(const auto config, read_sections(profile.config_file));
  ASSIGN_OR_RETURN(const auto credentials, read_sections(profile.credentials_file));
  const AwsSettings* in_config = find_section(config, "profile " + profile.name);
  if (in_config == nullptr && profile.name == "default") {
    in_config = find_section(config, "default");
  }
  const AwsSettings* in_credentials = find_section(credentials, profile.name);
  if (in_config == nullptr && in_credentials == nullptr && named && *named != "default") {
    return fail(Code::failed_precondition,
                fmt::format("AWS_PROFILE names the profile '{}', which is neither in {} nor in {}; "
                            "correct the name or add it with `aws configure --profile {}`",
                            profile.name, profile.config_file.string(),
                            profile.credentials_file.string(), profile.name));
  }
  if (in_config != nullptr) profile.config = *in_config;
  if (in_credentials != nullptr) profile.credentials = *in_credentials;
  return profile;
}

}  // namespace tern
