#include "train/branch_source.h"

#include <fmt/format.h>

#include <charconv>
#include <filesystem>

#include "train/run_config.h"

namespace tern {
namespace {

constexpr char kBest[] = "best";
constexpr char kTry[] = "write --from DIR, --from DIR@STEP or --from DIR@best";

// The same place, however it is spelt.
std::string resolved(const StoreAddress& place) {
  if (!place.is_folder()) return place.to_string();
  const std::filesystem::path folder = place.prefix;
  std::error_code failed;
  std::filesystem::path whole = std::filesystem::absolute(folder, failed);
  if (!failed) whole = std::filesystem::weakly_canonical(whole, failed);
  // "runs/demo/" has an empty last part.
  if (!whole.has_filename()) whole = whole.parent_path();
  return failed ? folder.string() : whole.string();
}

}  // namespace

std::string BranchSource::folder() const { return resolved(run); }

std::string BranchSource::to_string() const {
  switch (which) {
    case Which::newest: return run.to_string();
    case Which::best: return fmt::format("{}@{}", run.to_string(), kBest);
    case Which::step: return fmt::format("{}@{}", run.to_string(), step);
  }
  return run.to_string();
}

Result<BranchSource> parse_from(const std::string& text) {
  const size_t at = text.rfind('@');
  const bool has_step = at != std::string::npos && text.find('/', at) == std::string::npos;
  const std::string folder = has_step ? text.substr(0, at) : text;
  if (folder.empty()) {
    return fail(Code::invalid, fmt::format("--from '{}' names no run; {}", text, kTry));
  }
  BranchSource source;
  ASSIGN_OR_RETURN(source.run, parse_run_place(folder).at("--from"));
  if (!has_step) return source;
  const std::string which = text.substr(at + 1);
  source.which = BranchSource::Which::best;
  if (which == kBest) return source;
  source.which = BranchSource::Which::step;
  const char* const end = which.data() + which.size();
  const auto [rest, failure] = std::from_chars(which.data(), end, source.step);
  if (failure != std::errc{} || rest != end || source.step < 0) {
    return fail(Code::invalid, fmt::format("--from: '{}' is no step; {}", which, kTry));
  }
  return source;
}

Status check_new_folder(const BranchSource& source, const StoreAddress& run) {
  if (resolved(source.run) != resolved(run)) return {};
  return fail(Code::invalid,
              fmt::format("--from names {}, the folder of the new run itself; give the new run "
                          "another one, with --run DIR",
                          source.run.to_string()));
}

}  // namespace tern
