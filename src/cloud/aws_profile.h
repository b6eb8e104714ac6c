// The files that AWS's tools share: ~/.aws/config and ~/.aws/credentials, with their profiles.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "cloud/open_store.h"
#include "core/bytes.h"
#include "core/result.h"

namespace tern {

using AwsSettings = std::map<std::string, std::string>;

// Sections by their name as it stands in the brackets, blanks around it aside. Names of settings in
// lower case; one nested below another is "s3.addressing_style". Never fails: lines that are
// nothing are passed over, as AWS's own tools do, which share these files with newer ones.
std::map<std::string, AwsSettings> parse_aws_file(BytesView text);

// One profile, of both files.
struct AwsProfile {
  std::string name = "default";
  std::filesystem::path config_file;
  std::filesystem::path credentials_file;
  AwsSettings config;
  AwsSettings credentials;

  // Of the config file, else of the credentials file; empty if neither has it.
  std::string setting(const std::string& name) const;
};

// The profile that AWS_PROFILE names (or AWS_DEFAULT_PROFILE, or "default"), of the files that
// AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE name. A file or a profile "default" that is not
// there is empty; another profile that is in neither file is `failed_precondition`, a file that
// cannot be read `permission_denied`.
Result<AwsProfile> read_aws_profile(const CloudSurroundings& surroundings);

// The variable's value; nothing if it is not set or empty, which AWS's tools take for the same.
std::optional<std::string> aws_variable(const CloudSurroundings& surroundings,
                                        const std::string& name);

// A small file's text; not_found, permission_denied, or `invalid` above 4 MiB.
Result<std::string> read_aws_file(const std::filesystem::path& path);

}  // namespace tern
