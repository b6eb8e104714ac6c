#include "import/import_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "dataset/index.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr char kLock[] = "import.lock";
constexpr char kPlan[] = "import.json";
constexpr char kShards[] = "shards";
constexpr std::string_view kPart = ".part";
constexpr std::string_view kShardEnding = ".shard";
constexpr mode_t kFileMode = 0666;  // less what the user's umask takes away
// Of a lock file that is removed at the same moment by its holder; each time somebody else got on.
constexpr int kLockAttempts = 100;

// The number of a shard, or of what is left of an unfinished one; -1: it is neither.
int64_t shard_of(std::string name) {
  if (name.ends_with(kPart)) name.resize(name.size() - kPart.size());
  if (!name.ends_with(kShardEnding)) return -1;
  name.resize(name.size() - kShardEnding.size());
  const bool is_number = !name.empty() && name.size() < 18 &&
                         std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? std::stoll(name) : -1;
}

Result<std::vector<std::string>> names_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return file_error("list", folder, error.value());
  std::ranges::sort(names);
  return names;
}

bool is_the_file_at(const fs::path& path, int fd) {
  struct stat by_name{};
  struct stat by_fd{};
  return ::stat(path.c_str(), &by_name) == 0 && ::fstat(fd, &by_fd) == 0 &&
         by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev;
}

Error is_finished(const fs::path& folder) {
  return fail(Code::failed_precondition,
              fmt::format("{} holds a finished data set; use it (`--set data.path={}`), or remove "
                          "it, or import into another folder",
                          folder.string(), folder.string()));
}

// "representation was base, is orig"
std::string difference(const nlohmann::json& was, const nlohmann::json& is) {
  std::vector<std::string> parts;
  const auto show = [](const nlohmann::json& plan, const std::string& key) {
    if (!plan.is_object() || !plan.contains(key)) return std::string("nothing");
    const auto replace = nlohmann::json::error_handler_t::replace;
    return plan[key].is_string() ? plan[key].get<std::string>()
                                 : plan[key].dump(-1, ' ', false, replace);
  };
  for (const auto& [key, value] : is.items()) {
    const std::string before = show(was, key);
    if (before != show(is, key)) {
      parts.push_back(fmt::format("{} was {}, is {}", key, before, show(is, key)));
    }
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

bool only_files_differ(nlohmann::json was, nlohmann::json is) {
  if (!was.is_object() || !was.contains(kPlanFiles)) return false;
  was.erase(kPlanFiles);
  is.erase(kPlanFiles);
  return was == is;
}

}  // namespace

FolderLock::FolderLock(fs::path file, FileDescriptor fd)
    : file_(std::move(file)), fd_(std::move(fd)) {}

FolderLock::~FolderLock() {
  // While it is still held: whoever opened it meanwhile sees below that it is no longer the one.
  std::error_code ignored;
  fs::remove(file_, ignored);
}

Result<std::unique_ptr<FolderLock>> FolderLock::take(const fs::path& file) {
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    FileDescriptor fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode));
    if (!fd.is_open()) return file_error("open", file, errno);
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return file_error("lock", file, errno);
      break;
    }
    if (!is_the_file_at(file, fd.get())) continue;
    return std::unique_ptr<FolderLock>(new FolderLock(file, std::move(fd)));
  }
  return fail(Code::failed_precondition,
              fmt::format("another import works on {} at this moment; wait until it is done, or "
                          "import into another folder",
                          file.parent_path().string()));
}

ImportFolder::ImportFolder(Path folder, bool is_new)
    : folder_(std::move(folder)), is_new_(is_new) {}

ImportFolder::~ImportFolder() {
  if (!lock_) return;
  std::error_code ignored;
  if (!has_shards() && !fs::exists(path(kIndexFile), ignored)) {
    remove_shards_from(0).permit_unchecked_error();
    ::rmdir(path(kShards).c_str());  // if it is empty, as below
    fs::remove(path(kPlan), ignored);
  }
  lock_.reset();
  if (is_new_) ::rmdir(folder_.c_str());
}

Result<std::unique_ptr<ImportFolder>> ImportFolder::open(const Path& folder,
                                                         const nlohmann::json& plan) {
  RealFileDoor door;
  ASSIGN_OR_RETURN(const std::vector<Path> made, door.make_folders(folder));
  std::unique_ptr<ImportFolder> opened(new ImportFolder(folder, !made.empty()));
  // Once before the lock, which should not appear in a folder that is somebody else's, and once
  // after it, when nobody can change it any more.
  RETURN_IF_ERROR(opened->check_content());
  ASSIGN_OR_RETURN(opened->lock_, FolderLock::take(folder / kLock));
  if (const Status content = opened->check_content(); !content) {
    opened->lock_.reset();
    return content.error();
  }
  if (const Status adopted = opened->adopt(plan); !adopted) {
    opened->lock_.reset();
    return adopted.error();
  }
  for (const Path& path : made) RETURN_IF_ERROR(door.sync_folder(path.parent_path()));
  return opened;
}

Status ImportFolder::check_content() const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in(folder_));
  const auto has = [&](std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (has(kIndexFile) && !has(kPlan)) return is_finished(folder_);
  std::vector<std::string> known = {kLock, std::string(kPlan) + ".part", ".download", "source",
                                    kPlan};
  // Ours only if something says that we began here.
  if (has(kPlan)) {
    known.insert(known.end(), {kShards, kIndexFile, std::string(kIndexFile) + ".part"});
  }
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return fail(Code::failed_precondition,
                fmt::format("{} is not empty: it holds {}, which is no part of an import; give an "
                            "empty folder, or one that does not exist yet",
                            folder_.string(), name));
  }
  return {};
}

Status ImportFolder::adopt(const nlohmann::json& plan) {
  const auto replace = nlohmann::json::error_handler_t::replace;
  const std::string text = plan.dump(2, ' ', false, replace) + "\n";
  std::error_code error;
  fs::remove(path(std::string(kPlan).append(kPart)), error);
  if (fs::exists(path(kPlan), error)) {
    ASSIGN_OR_RETURN(const Bytes bytes, door_.read(path(kPlan)));
    if (bytes == text) return {};
    if (fs::exists(path(kIndexFile), error)) return is_finished(folder_);
    const nlohmann::json was = nlohmann::json::parse(bytes, nullptr, /*allow_exceptions=*/false);
    if (has_shards() && only_files_differ(was, plan)) {
      return fail(Code::failed_precondition,
                  fmt::format("the source is not what it was when this import was begun: a file of "
                              "it was written, added or removed since; remove {} to begin anew, or "
                              "import into another folder",
                              folder_.string()));
    }
    if (has_shards()) {
      return fail(Code::failed_precondition,
                  fmt::format("{} holds an unfinished import of something else ({}); finish that "
                              "with its own command, or remove the folder, or import into another",
                              folder_.string(), difference(was, plan)));
    }
    RETURN_IF_ERROR(remove_shards_from(0));
    ::rmdir(path(kShards).c_str());
  }
  return write_durably(kPlan, text);
}

std::string ImportFolder::shard_name(int64_t shard) {
  return fmt::format("{}/{:05}{}", kShards, shard, kShardEnding);
}

bool ImportFolder::has_shards() const {
  std::error_code error;
  return fs::exists(path(shard_name(0)), error);
}

Status ImportFolder::remove_shards_from(int64_t shard) {
  std::error_code error;
  if (!fs::is_directory(path(kShards), error)) return {};
  ASSIGN_OR_RETURN(const std::vector<std::string> names, names_in(path(kShards)));
  for (const std::string& name : names) {
    const bool is_unfinished = name.ends_with(kPart) && shard_of(name) >= 0;
    if (shard_of(name) >= shard || is_unfinished) {
      RETURN_IF_ERROR(door_.remove(path(kShards) / name));
    }
  }
  return {};
}

Status ImportFolder::make_shards_folder() {
  ASSIGN_OR_RETURN(const std::vector<Path> made, door_.make_folders(path(kShards)));
  return made.empty() ? Status() : door_.sync_folder(folder_);
}

Status ImportFolder::write_durably(const std::string& name, BytesView bytes) {
  const Path part = path(name + std::string(kPart));
  std::error_code error;
  fs::remove(part, error);
  if (const Status written = door_.write_new(part, bytes); !written) {
    fs::remove(part, error);
    return written;
  }
  RETURN_IF_ERROR(door_.rename(part, path(name)));
  return door_.sync_folder(folder_);
}

Status ImportFolder::publish_index(BytesView index) { return write_durably(kIndexFile, index); }

Status ImportFolder::forget_plan() {
  RETURN_IF_ERROR(door_.remove(path(kPlan)));
  return door_.sync_folder(folder_);
}

}  // namespace tern
