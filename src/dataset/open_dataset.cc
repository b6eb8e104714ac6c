#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <utility>

#include "dataset/cifar10.h"
#include "dataset/dataset.h"
#include "dataset/idx.h"
#include "dataset/in_memory_dataset.h"
#include "dataset/indexed_dataset.h"
#include "dataset/options.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<Dataset>> open_format(const DataOptions& options, Split split) {
  if (options.format == "idx") return open_idx(options, split);
  if (options.format == "cifar10") return open_cifar10(options, split);
  return fail(Code::invalid, fmt::format("there is no data format '{}'; set data.format to idx or "
                                         "cifar10",
                                         options.format));
}

constexpr std::string_view kFileScheme = "file://";

bool is_address(std::string_view path) { return path.find("://") != std::string_view::npos; }

Result<std::unique_ptr<Dataset>> open_in_store(const DataOptions& options, Split split,
                                               OnStageFailure on_stage_failure) {
  if (!options.open_store) {
    return fail(Code::invalid, fmt::format("{} is in a bucket, and this needs a folder; copy it: "
                                           "`tern store cp --recursive {} DIR`",
                                           options.path, options.path));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, options.open_store(options.path));
  Result<std::unique_ptr<Dataset>> opened = open_indexed(
      std::move(store), options.path, split, options.stage, std::move(on_stage_failure));
  if (opened || opened.error().code != Code::not_found) return opened;
  return fail(
      Code::not_found,
      fmt::format("{}. A bucket takes data sets that `tern data import SRC DIR --pack orig` "
                  "made: `tern store cp --recursive DIR {}`",
                  opened.error().message, options.path));
}

// `tern data import` leaves these while it works, and adds the index last.
bool is_half_imported(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "import.json", ignored) ||
         fs::is_directory(folder / "shards", ignored);
}

Result<std::unique_ptr<Dataset>> open_imported(const DataOptions& options, Split split,
                                               OnStageFailure on_stage_failure) {
  Result<std::unique_ptr<Dataset>> opened =
      is_address(options.path)
          ? open_in_store(options, split, std::move(on_stage_failure))
          : open_indexed(options.path, split, options.stage, std::move(on_stage_failure));
  if (!opened) return opened.error();
  std::unique_ptr<Dataset> dataset = std::move(*opened);
  if (options.classes != 0 && dataset->classes() != options.classes) {
    return fail(Code::invalid,
                fmt::format("the data set in {} has {} classes, but data.classes is {}; set "
                            "data.classes={}",
                            options.path, dataset->classes(), options.classes, dataset->classes()));
  }
  return dataset;
}

Result<std::unique_ptr<Dataset>> open_as_found(const DataOptions& options, Split split,
                                               OnStageFailure on_stage_failure) {
  if (options.path.starts_with(kFileScheme)) {
    DataOptions plain = options;
    plain.path.erase(0, kFileScheme.size());
    return open_as_found(plain, split, std::move(on_stage_failure));
  }
  if (is_address(options.path) || is_imported(options.path))
    return open_imported(options, split, std::move(on_stage_failure));
  if (options.classes == 0) {
    return fail(Code::invalid,
                "data.classes = 0 is for data sets that `tern data import` made, "
                "which know their classes; set data.classes to their number");
  }
  Result<std::unique_ptr<Dataset>> opened = open_format(options, split);
  if (opened || opened.error().code != Code::not_found) return opened;
  // Only now: a folder that has the format's files is that, whatever else lies in it.
  if (is_half_imported(options.path)) {
    return fail(Code::failed_precondition,
                fmt::format("the import into {} is not finished; run `tern data import` again",
                            options.path));
  }
  return fail(Code::not_found,
              fmt::format("{}. If the data there is of another kind, run `tern data import {} DST` "
                          "and set data.path=DST",
                          opened.error().message, options.path));
}

}  // namespace

Result<std::unique_ptr<Dataset>> open_dataset(const DataOptions& options, Split split,
                                              OnStageFailure on_stage_failure) {
  try {
    return open_as_found(options, split, std::move(on_stage_failure))
        .at(fmt::format("open the {} data", split_name(split)));
  } catch (const std::bad_alloc&) {
    // The one place where this much memory is asked for at once, so it is worth a message.
    return fail(Code::exhausted,
                fmt::format("the {} data in {} does not fit in memory; use a machine with more",
                            split_name(split), options.path));
  }
}

}  // namespace tern
