#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "import/archive.h"
#include "import/cifar_source.h"
#include "import/file_walk.h"
#include "import/idx_source.h"
#include "import/imagenet_source.h"
#include "import/member_path.h"
#include "import/source.h"
#include "import/survey.h"
#include "import/tiny_imagenet_source.h"
#include "import/tree_source.h"
#include "import/webdataset_source.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Opened = Result<std::unique_ptr<Source>>;

constexpr char kUnderstood[] =
    "understood are a folder or archive with a folder of images per class (perhaps below train/ "
    "and val/), ImageNet-2012's tars and devkit, Tiny-ImageNet, CIFAR-10 and CIFAR-100 (binary "
    "version), IDX files, and WebDataset shards of .cls with .jpg or .png";

// Something is there, but nothing to import: says what, if it can be told.
Error nothing_known(const std::string& where, const Survey& survey) {
  std::string found = fmt::format("{} files, none an image", survey.files);
  if (survey.files == 0) found = "no files";
  if (survey.files == 1) found = "1 file, which is no image";
  if (survey.find("data_batch_1")) {
    found = "CIFAR-10's python version, which only Python reads: download the binary version";
  } else if (!survey.archives.empty()) {
    found = fmt::format("{} archive{}, the first is {}: give one archive, or WebDataset shards",
                        survey.archives.size(), survey.archives.size() == 1 ? "" : "s",
                        printable_path(survey.archives.front()));
  }
  return fail(Code::invalid, fmt::format("{} has {}; {}", where, found, kUnderstood));
}

// The kinds that a folder and an archive may have.
Opened open_surveyed(std::unique_ptr<FileWalk> files, const Survey& survey,
                     const SourceOptions& options) {
  if (looks_like_tiny_imagenet(survey)) {
    return open_tiny_imagenet(std::move(files), survey, options);
  }
  if (looks_like_cifar(survey)) return open_cifar(std::move(files), survey, options);
  if (survey.images > 0) return open_tree(std::move(files), survey, options);
  return nothing_known(files->where(), survey);
}

bool names_imagenet(const std::string& file) { return file.starts_with("ILSVRC2012_"); }

Opened open_archive_source(const fs::path& path, const SourceOptions& options) {
  // A look into it would take minutes and find tars, or images without labels.
  if (names_imagenet(path.filename().string())) {
    return fail(Code::invalid, fmt::format("{} is a part of ImageNet-2012; give the folder that "
                                           "has it together with the other parts",
                                           path.string()));
  }
  std::unique_ptr<FileWalk> files = walk_files_of_archive(path);
  ASSIGN_OR_RETURN(const Survey survey, survey_files(*files));
  if (survey.cls_files > 0) {
    return open_webdataset(path.parent_path(), {path.filename().string()}, options);
  }
  return open_surveyed(std::move(files), survey, options);
}

// A shard is told by its first label: the walk over it ends there, or after some members.
Result<bool> is_shard(const fs::path& path) {
  constexpr int kMembersMax = 1000;
  int members = 0;
  bool found = false;
  const Status walked = walk_archive(path, nullptr, [&](ArchiveMember& member) -> Status {
    found = lower_case(member.name()).ends_with(".cls");
    if (found || ++members == kMembersMax) return fail(Code::cancelled, "seen enough");
    return {};
  });
  if (!walked && walked.error().code != Code::cancelled) return walked.error();
  return found;
}

Opened open_folder_source(const fs::path& path, const SourceOptions& options) {
  if (looks_like_imagenet(path)) return open_imagenet(path, options);
  if (looks_like_idx(path)) return open_idx_source(path, options);
  std::unique_ptr<FileWalk> files = walk_files_of_folder(path);
  ASSIGN_OR_RETURN(Survey survey, survey_files(*files));
  if (survey.images == 0 && !survey.archives.empty()) {
    ASSIGN_OR_RETURN(const bool found, is_shard(path / survey.archives.front()));
    if (found) return open_webdataset(path, std::move(survey.archives), options);
  }
  return open_surveyed(std::move(files), survey, options);
}

}  // namespace

Opened open_source(const fs::path& path, const SourceOptions& options) {
  std::error_code error;
  const fs::path whole = fs::canonical(path, error);
  if (error == std::errc::permission_denied) {
    return fail(Code::permission_denied,
                fmt::format("may not read {}; make it readable for this user", path.string()));
  }
  if (error) {
    return fail(Code::not_found, fmt::format("there is nothing at {} ({}); check the path",
                                             path.string(), error.message()));
  }
  if (fs::is_directory(whole, error)) return open_folder_source(whole, options);
  if (fs::is_regular_file(whole, error) && looks_like_archive(whole)) {
    return open_archive_source(whole, options);
  }
  return fail(Code::invalid, fmt::format("{} is neither a folder nor a tar or zip; {}",
                                         whole.string(), kUnderstood));
}

}  // namespace tern
