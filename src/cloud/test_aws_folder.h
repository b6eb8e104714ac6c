// A home folder and an environment of a test's own, as a cloud's credentials are looked for there.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "cloud/open_store.h"
#include "core/result.h"

namespace tern {

// Removed with all that is in it.
class AwsFolder {
 public:
  AwsFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tern_aws_XXXXXX").string();
    TERN_CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~AwsFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  AwsFolder(const AwsFolder&) = delete;
  AwsFolder& operator=(const AwsFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }

  // As they are when it is called.
  CloudSurroundings surroundings() const {
    return {.variable = [all = variables](const std::string& name) -> std::optional<std::string> {
              const auto found = all.find(name);
              if (found == all.end()) return std::nullopt;
              return found->second;
            },
            .home = path_,
            .certificates = {}};
  }

  std::map<std::string, std::string> variables;

 private:
  std::filesystem::path path_;
};

}  // namespace tern
