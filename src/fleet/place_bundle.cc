#include "fleet/place_bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "core/system_files.h"
#include "core/token.h"
#include "fleet/json_fields.h"
#include "fleet/private_file.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr char kListName[] = "SHA256SUMS";

Result<std::string> hash_file(const fs::path& path, std::stop_token stop) {
  std::ifstream file(path, std::ios::binary);
  if (!file.is_open()) {
    return fail(
        Code::permission_denied,
        fmt::format("cannot read {}, a part of tern; check its permissions", path.string()));
  }
  Sha256 hash;
  std::string buffer(1 << 20, '\0');
  while (file && !stop.stop_requested()) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.update(BytesView(buffer).substr(0, static_cast<size_t>(file.gcount())));
  }
  if (stop.stop_requested()) return fail(Code::cancelled, "stopped");
  return to_hex(hash.finish());
}

Status add_tree(const fs::path& root, const fs::path& below, std::vector<BundleFile>& files) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root / below, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->is_regular_file()) continue;
    files.push_back({entry->path().lexically_relative(root).string(), entry->path()});
  }
  if (!error || error == std::errc::no_such_file_or_directory) return {};
  return fail(Code::permission_denied,
              fmt::format("cannot read {}: {}", (root / below).string(), error.message()));
}

void add_if_there(const std::string& name, const fs::path& path, std::vector<BundleFile>& files) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) files.push_back({name, path});
}

// tar follows the links, so that files of a build folder get a bundle's names.
Status lay_out(const std::vector<BundleFile>& files, const std::string& list,
               const fs::path& stage) {
  std::error_code error;
  for (const BundleFile& file : files) {
    const fs::path link = stage / file.name;
    fs::create_directories(link.parent_path(), error);
    fs::create_symlink(fs::absolute(file.path), link, error);
    if (error) {
      return fail(Code::unavailable,
                  fmt::format("cannot write {}: {}", link.string(), error.message()));
    }
  }
  return write_private_file(stage / kListName, list);
}

// A folder that goes with its scope.
class Stage {
 public:
  explicit Stage(fs::path path) : path_(std::move(path)) {}
  ~Stage() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  const fs::path& path() const { return path_; }

 private:
  const fs::path path_;
};

// $base, $dir and verify() for both scripts below, after $hash and $token were set. The list of
// hashes is itself named by its hash.
constexpr std::string_view kScriptHead = R"sh(
set -eu
base=${XDG_CACHE_HOME:-$HOME/.cache}/tern/bundles
dir=$base/$hash
verify() {
  (cd "$1" && [ "$(sha256sum < SHA256SUMS)" = "$hash  -" ] && sha256sum --quiet -c SHA256SUMS >&2)
}
)sh";
constexpr std::string_view kFindScript = R"sh(
if [ -d "$dir" ] && verify "$dir" 2>/dev/null; then printf '%s\n' "$dir"; fi
)sh";
// A damaged one is moved out of the way. Parts of launches that were killed go after an hour: tar's
// -m gives them the time of today, not the archive's.
constexpr std::string_view kSendScript = R"sh(
mkdir -p "$base"
find "$base" -maxdepth 1 -name '*.part.*' -mmin +60 -exec rm -rf {} + 2>/dev/null || :
part=$base/$hash.part.$token
trap 'rm -rf "$part"' EXIT
trap 'exit 130' HUP INT TERM PIPE
mkdir "$part"
tar -xzmf - -C "$part"
verify "$part"
sync -f "$part"
if ! mv -T "$part" "$dir" 2>/dev/null; then
  if ! verify "$dir" 2>/dev/null; then
    mv -T "$dir" "$dir.part.damaged.$token"
    mv -T "$part" "$dir"
    rm -rf "$dir.part.damaged.$token"
  fi
fi
printf '%s\n' "$dir"
)sh";

std::string first_line(const Bytes& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Result<std::vector<BundleFile>> bundle_files(const fs::path& executable,
                                             const fs::path& recipe_folder) {
  std::vector<BundleFile> files;
  const fs::path programs = executable.parent_path();
  const fs::path root = programs.parent_path();
  std::error_code error;
  if (fs::exists(root / "BUNDLE.txt", error)) {
    files.push_back({"BUNDLE.txt", root / "BUNDLE.txt"});
    for (const char* part : {"bin", "lib", "libexec", "share/tern"}) {
      RETURN_IF_ERROR(add_tree(root, part, files));
    }
  } else {
    files.push_back({"bin/tern", executable});
    const bool is_build = fs::exists(programs / "libexec/tern-train", error);
    const fs::path beside = is_build ? programs : root;
    add_if_there("libexec/tern-train", beside / "libexec/tern-train", files);
    add_if_there("lib/libtern_cuda.so", beside / "lib/libtern_cuda.so", files);
    std::vector<BundleFile> recipes;
    RETURN_IF_ERROR(add_tree(recipe_folder, "", recipes));
    for (const BundleFile& recipe : recipes) {
      if (!recipe.name.ends_with(".toml")) continue;
      files.push_back({"share/tern/recipes/" + recipe.name, recipe.path});
    }
  }
  std::ranges::sort(files, {}, &BundleFile::name);
  return files;
}

Result<Bundle> pack_bundle(const std::vector<BundleFile>& files, const fs::path& cache,
                           Clock& clock, std::stop_token stop) {
  std::string list;
  for (const BundleFile& file : files) {
    ASSIGN_OR_RETURN(const std::string hash, hash_file(file.path, stop));
    list += fmt::format("{}  {}\n", hash, file.name);
  }
  Bundle bundle{.hash = to_hex(sha256(list))};
  const fs::path folder = cache / "bundles";
  bundle.archive = folder / (bundle.hash + ".tar.gz");
  RETURN_IF_ERROR(make_private_folder(folder));
  std::error_code error;
  if (!fs::exists(bundle.archive, error)) {
    ASSIGN_OR_RETURN(const std::string token, random_token());
    const Stage stage(folder / fmt::format("{}.part.{}", bundle.hash, token));
    const fs::path packed = folder / fmt::format("{}.part.{}.tar.gz", bundle.hash, token);
    RETURN_IF_ERROR(lay_out(files, list, stage.path()));
    // -1: half the time of the usual level for a tenth more bytes.
    const ChildSetup tar{.command = {"tar", "--create", "--dereference", "--sort=name",
                                     "--mtime=@0", "--owner=0", "--group=0", "--numeric-owner",
                                     "--mode=u=rwX,go=", "--use-compress-program", "gzip -n -1",
                                     "--file", packed.string(), "--directory",
                                     stage.path().string(), "."}};
    Result<ChildAnswer> made = run_child(tar, clock, stop);
    if (made && made->exit_code != 0) {
      made = explain_exit({.name = "here"}, "pack the bundle with tar", *made);
    }
    if (made) fs::rename(packed, bundle.archive, error);
    std::error_code ignored;
    fs::remove(packed, ignored);
    if (!made) return made.error();
    if (error) {
      return fail(Code::unavailable,
                  fmt::format("cannot write {}: {}", bundle.archive.string(), error.message()));
    }
  }
  bundle.size_bytes = static_cast<int64_t>(fs::file_size(bundle.archive, error));
  return bundle;
}

Result<PlacedBundle> place_bundle(const MachineShell& shell, const Bundle& bundle,
                                  std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::string token, random_token());
  const std::string head = fmt::format("hash={}\ntoken={}\n{}", bundle.hash, token, kScriptHead);
  ASSIGN_OR_RETURN(const Bytes found, shell.must_run({.script = head + std::string(kFindScript)},
                                                     "look for the bundle", stop));
  if (!found.empty()) return PlacedBundle{.folder = first_line(found)};
  ASSIGN_OR_RETURN(const Bytes placed, shell.must_run({.script = head + std::string(kSendScript),
                                                       .input_file = bundle.archive,
                                                       .limit = Milliseconds(1'800'000)},
                                                      "send the bundle", stop));
  return PlacedBundle{.folder = first_line(placed), .sent = true};
}

Status check_tern(const MachineShell& shell, const std::string& tern, const std::string& version,
                  std::stop_token stop) {
  ASSIGN_OR_RETURN(const ChildAnswer answer,
                   shell.run({.script = quote_shell(tern) + " --version"}, stop));
  if (answer.exit_code == 0 && printable_line(answer.out) == "tern " + version) return {};
  const std::string said = printable_line(answer.err.empty() ? answer.out : answer.err);
  return fail(Code::failed_precondition,
              fmt::format("machine {}: tern does not start there ({}); it needs 64-bit x86 Linux "
                          "with glibc 2.36 or newer, and a bundle made with `make dist`, which "
                          "brings its libraries: launch with the tern of that bundle",
                          shell.machine().name, said));
}

Status judge_doctor(const FleetMachine& machine, const ChildAnswer& answer) {
  if (answer.exit_code == 0) return {};
  std::string reasons;
  const auto json = nlohmann::json::parse(answer.out, nullptr, /*allow_exceptions=*/false);
  if (json.is_object() && json.contains("advice") && json["advice"].is_array()) {
    for (const auto& advice : json["advice"]) {
      if (!advice.is_object() || !advice.contains("stops") || advice["stops"] != true) continue;
      const std::string to_do = text_in(advice, "to_do");
      if (!reasons.empty()) reasons += "; ";
      reasons += text_in(advice, "what");
      if (!to_do.empty()) reasons += ". To do: " + to_do;
    }
  }
  if (reasons.empty()) {
    reasons = fmt::format("`tern doctor` ended with {}: {}", answer.exit_code,
                          printable_line(answer.err));
  }
  return fail(Code::failed_precondition,
              fmt::format("machine {}: it cannot train: {}", machine.name, reasons));
}

Status pass_doctor(const MachineShell& shell, const std::string& tern, std::stop_token stop) {
  ASSIGN_OR_RETURN(const ChildAnswer answer,
                   shell.run({.script = quote_shell(tern) + " doctor --json --quick",
                              .limit = Milliseconds(180'000)},
                             stop));
  return judge_doctor(shell.machine(), answer);
}

}  // namespace tern
