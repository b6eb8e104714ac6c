#include "cli/find_libtorch.h"

#include <fmt/format.h>

#include <fstream>
#include <string_view>
#include <system_error>

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr char kLibrary[] = "libtorch_cpu.so";

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// The folder with lib/, however its user named it: itself, one above (the wheel has torch/ in it),
// or lib/ itself.
std::optional<fs::path> find_root(const fs::path& folder) {
  if (is_there(folder / "lib" / kLibrary)) return folder;
  if (is_there(folder / "torch/lib" / kLibrary)) return folder / "torch";
  if (is_there(folder / kLibrary)) return (folder / "..").lexically_normal();
  return std::nullopt;
}

// "2.11.0" of `__version__ = '2.11.0+cu130'`; empty if there is no version in the text.
std::string version_in(std::string_view text) {
  const size_t begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos) return "";
  text.remove_prefix(begin);
  return std::string(text.substr(0, text.find_first_not_of("0123456789.")));
}

// Wheels say it in version.py, the archives from pytorch.org in build-version.
std::string version_of(const fs::path& root) {
  std::string line;
  std::ifstream wheel(root / "version.py");
  while (std::getline(wheel, line)) {
    if (line.starts_with("__version__ = ")) return version_in(line);
  }
  std::ifstream archive(root / "build-version");
  return std::getline(archive, line) ? version_in(line) : "";
}

// Nothing if `root` is right, else what is wrong with it.
std::string objection_to(const fs::path& root) {
  const std::string version = version_of(root);
  if (version == kLibTorchVersion) return "";
  if (version.empty()) return "does not say its version (no version.py)";
  return fmt::format("is version {}, not {}", version, kLibTorchVersion);
}

Result<fs::path> check_given(const fs::path& given) {
  constexpr char kNext[] =
      "unset TERN_LIBTORCH to let tern look for it, or set it to the right one";
  const std::optional<fs::path> root = find_root(given);
  if (!root) {
    return fail(Code::invalid, fmt::format("TERN_LIBTORCH is {}, which holds no lib/{}; {}",
                                           given.string(), kLibrary, kNext));
  }
  if (const std::string objection = objection_to(*root); !objection.empty()) {
    return fail(Code::invalid,
                fmt::format("TERN_LIBTORCH is {}, which {}; {}", given.string(), objection, kNext));
  }
  return *root;
}

// Looks at one place after another, and remembers why each was passed over.
class Search {
 public:
  // The root, if the place is right.
  std::optional<fs::path> look(std::string_view whose, const fs::path& folder) {
    const fs::path place = folder.lexically_normal();
    const std::optional<fs::path> root = find_root(place);
    const std::string objection = root ? objection_to(*root) : "nothing there";
    if (objection.empty()) return root;
    passed_over_ += fmt::format("\n  {}: {}: {}", whose, place.string(), objection);
    return std::nullopt;
  }

  void skip(std::string_view why) { passed_over_ += fmt::format("\n  {}", why); }

  Error not_found() const {
    return fail(Code::not_found,
                fmt::format("LibTorch {0} was not found. `make build` fetches it, `pip install "
                            "torch=={0}` installs it, or set TERN_LIBTORCH to the folder it is in. "
                            "Looked at:{1}",
                            kLibTorchVersion, passed_over_));
  }

 private:
  std::string passed_over_;
};

}  // namespace

fs::path fetched_libtorch(const fs::path& cache_folder) {
  return cache_folder / fmt::format("libtorch-{}", kLibTorchVersion);
}

Result<fs::path> find_libtorch(const LibTorchSearch& search) {
  if (!search.given.empty()) {
    // Absolute, because the path is handed on to another program.
    std::error_code error;
    return check_given(fs::absolute(search.given, error));
  }

  Search places;
  for (const char* beside : {"libtorch", "../libtorch", "../lib/libtorch"}) {
    if (auto root = places.look("beside tern", search.programs_folder / beside)) return *root;
  }
  if (const std::optional<fs::path> torch = search.ask_python()) {
    if (auto root = places.look("python3's torch", *torch)) return *root;
  } else {
    places.skip("python3's torch: there is none");
  }
  if (!search.cache_folder.empty()) {
    if (auto root = places.look("fetched", fetched_libtorch(search.cache_folder))) return *root;
  }
  return places.not_found();
}

}  // namespace tern
