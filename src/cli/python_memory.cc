#include "cli/python_memory.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "cli/python_torch.h"
#include "core/hash.h"

extern char** environ;  // POSIX declares it nowhere

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr char kMemoryFile[] = "python-torch.json";
constexpr int kFormat = 1;
// What changed so short a time before it was looked at may change again within the same tick of the
// file system's clock.
constexpr std::chrono::seconds kStillWarm{2};

struct Stamp {
  std::string text;  // another one where the file or folder is another, or has changed
  Nanoseconds changed{0};
};

Stamp stamp_of(const fs::path& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return {.text = "none"};
  return {.text = fmt::format("{}:{}:{}.{:09}", info.st_ino, info.st_size, info.st_mtim.tv_sec,
                              info.st_mtim.tv_nsec),
          .changed = std::chrono::seconds(info.st_mtim.tv_sec) + Nanoseconds(info.st_mtim.tv_nsec)};
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As exec() finds it.
std::optional<fs::path> python_on_path() {
  const std::string path = variable("PATH");
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    const fs::path python = fs::path(folder) / "python3";
    std::error_code ignored;
    if (fs::is_regular_file(python, ignored) && access(python.c_str(), X_OK) == 0) return python;
  }
  return std::nullopt;
}

// The first bytes tell a program from a script, and whose script it is.
std::string beginning_of(const fs::path& file) {
  std::array<char, 512> bytes{};
  std::ifstream in(file, std::ios::binary);
  in.read(bytes.data(), bytes.size());
  return std::string(bytes.data(), static_cast<size_t>(in.gcount()));
}

void add_stamp(nlohmann::json& stamps, const fs::path& path) {
  stamps[path.string()] = stamp_of(path).text;
}

// The files by which pyenv chooses among its versions.
void add_pyenv_choice(nlohmann::json& stamps, const fs::path& shim) {
  const std::string root = variable("PYENV_ROOT");
  add_stamp(stamps, (root.empty() ? shim.parent_path().parent_path() : fs::path(root)) / "version");
  // The nearest one above counts.
  std::error_code ignored;
  for (fs::path folder = fs::current_path(ignored); !folder.empty();
       folder = folder.parent_path()) {
    const fs::path file = folder / ".python-version";
    const bool is_there = fs::exists(file, ignored);
    if (is_there) add_stamp(stamps, file);
    if (is_there || !folder.has_relative_path()) return;
  }
}

// What decides which Python answers, and what it is told; nothing where that cannot be known.
std::optional<nlohmann::json> origin() {
  const std::optional<fs::path> python = python_on_path();
  if (!python) return std::nullopt;
  std::error_code error;
  const fs::path program = fs::canonical(*python, error);
  if (error) return std::nullopt;
  nlohmann::json stamps = nlohmann::json::object();
  add_stamp(stamps, program);
  add_stamp(stamps, python->parent_path().parent_path() / "pyvenv.cfg");
  const std::string beginning = beginning_of(program);
  if (beginning.starts_with("#!") && beginning.find("pyenv") != std::string::npos) {
    add_pyenv_choice(stamps, program);
  } else if (!beginning.starts_with("\x7f"
                                    "ELF") ||
             !program.filename().string().starts_with("python")) {
    return std::nullopt;
  }
  // Their hash: somebody's token may be among them.
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (text.starts_with("PYTHON") || text.starts_with("PYENV_") || text.starts_with("HOME=")) {
      variables.emplace_back(text);
    }
  }
  std::ranges::sort(variables);
  Sha256 hash;
  for (const std::string& entry : variables) hash.update_field(entry);
  // Only then may parts of the path be relative.
  const fs::path folder = variable("PYTHONPATH").empty() ? fs::path() : fs::current_path(error);
  return nlohmann::json{{"format", kFormat},
                        {"python3", python->string()},
                        {"folder", folder.string()},
                        {"variables", to_hex(hash.finish())},
                        {"stamps", stamps}};
}

bool still_holds(const nlohmann::json& stamps) {
  return std::ranges::all_of(stamps.items(), [](const auto& entry) {
    return entry.value() == stamp_of(entry.key()).text;
  });
}

// What is kept, if it is an answer to the same question: an empty path where there is no torch.
std::optional<fs::path> recall(const fs::path& file, const nlohmann::json& origin) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto kept = nlohmann::json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!kept.is_object() || kept.value("origin", nlohmann::json()) != origin) return std::nullopt;
  const auto looked_at = kept.find("looked_at");
  const auto torch = kept.find("torch");
  if (looked_at == kept.end() || !looked_at->is_object() || !still_holds(*looked_at)) {
    return std::nullopt;
  }
  if (torch == kept.end() || !torch->is_string()) return std::nullopt;
  return fs::path(torch->get<std::string>());
}

// What cannot be kept is asked again.
void keep(const fs::path& file, const nlohmann::json& origin, const PythonAnswer& answer,
          Clock& clock) {
  if (answer.looked_at.empty()) return;
  const Nanoseconds cold = Milliseconds(clock.unix_ms()) - Nanoseconds(kStillWarm);
  nlohmann::json looked_at = nlohmann::json::object();
  for (const fs::path& path : answer.looked_at) {
    const Stamp stamp = stamp_of(path);
    if (stamp.changed > cold) return;
    looked_at[path.string()] = stamp.text;
  }
  const nlohmann::json kept{{"origin", origin},
                            {"looked_at", looked_at},
                            {"torch", answer.torch.value_or(fs::path()).string()}};
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const fs::path part = fmt::format("{}.{}", file.string(), getpid());
  // A name that is no UTF-8 cannot be kept.
  const std::string text = kept.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::ofstream(part, std::ios::binary | std::ios::trunc) << text;
  fs::rename(part, file, error);
  if (error) fs::remove(part, error);
}

}  // namespace

std::optional<fs::path> recall_python_torch(const fs::path& cache_folder, Clock& clock,
                                            Nanoseconds limit) {
  const std::optional<nlohmann::json> asked = cache_folder.empty() ? std::nullopt : origin();
  if (!asked) return find_python_torch(clock, limit);
  const fs::path file = cache_folder / kMemoryFile;
  if (const std::optional<fs::path> kept = recall(file, *asked)) {
    return kept->empty() ? std::nullopt : kept;
  }
  const std::optional<PythonAnswer> answer = ask_python(clock, limit);
  if (!answer) return std::nullopt;
  keep(file, *asked, *answer, clock);
  return answer->torch;
}

}  // namespace tern
