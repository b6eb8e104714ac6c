#include "program/checkpoint_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/hash.h"
#include "program/torn_files.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kPieceBytes = 1 << 20;
// A program that always writes somewhere is saved all the same, without what it is writing.
constexpr std::chrono::seconds kUnsettledMax{5};
// Numbers that may be taken by our own tries.
constexpr int64_t kNumbersTried = 8;
constexpr char kStateFile[] = "checkpoints.json";
constexpr char kCopyFile[] = "checkpoint.copy";

// Our own copy of a file, which nobody else changes, as memory.
class MappedFile {
 public:
  MappedFile(const fs::path& path, int64_t size_bytes)
      : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), size_(static_cast<size_t>(size_bytes)) {
    if (fd_.is_open() && size_ > 0) {
      memory_ = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_.get(), 0);
    }
  }
  ~MappedFile() {
    if (memory_ != MAP_FAILED) munmap(memory_, size_);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  bool is_open() const { return size_ == 0 || memory_ != MAP_FAILED; }
  BytesView view() const {
    return size_ == 0 ? BytesView() : BytesView(static_cast<const char*>(memory_), size_);
  }

 private:
  const FileDescriptor fd_;
  const size_t size_;
  void* memory_ = MAP_FAILED;
};

Result<std::string> hash_file(const fs::path& path) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_open()) return file_error("read", path, errno);
  Sha256 hash;
  Bytes piece(kPieceBytes, '\0');
  for (;;) {
    const ssize_t got = read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", path, errno);
    if (got == 0) return to_hex(hash.finish());
    hash.update({piece.data(), static_cast<size_t>(got)});
  }
}

Json stamp_json(const FileStamp& stamp) {
  return {stamp.size_bytes, stamp.modified_ns, stamp.inode};
}

std::optional<FileStamp> parse_stamp(const Json& json) {
  const bool is_stamp =
      json.is_array() && json.size() == 3 &&
      std::ranges::all_of(json, [](const Json& n) { return n.is_number_integer(); });
  if (!is_stamp) return std::nullopt;
  return FileStamp{json[0].get<int64_t>(), json[1].get<int64_t>(), json[2].get<int64_t>()};
}

}  // namespace

Status CheckpointFolder::look_at_store() {
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, list_manifests(*setup_.run));
  last_ = numbers.empty() ? 0 : numbers.back();
  std::erase_if(manifests_, [&](const auto& entry) {
    return !std::ranges::binary_search(numbers, entry.first);
  });
  for (const int64_t number : numbers) {
    if (manifests_.contains(number)) continue;
    Result<Manifest> manifest = read_manifest(*setup_.run, number);
    if (manifest) {
      manifests_[number] = std::move(*manifest);
    } else if (manifest.error().code == Code::corrupt) {
      setup_.warn(manifest.error().message + "; the one before it is used");
    } else if (manifest.error().code != Code::not_found) {  // pruned meanwhile
      return manifest.error();
    }
  }
  return {};
}

Result<int64_t> CheckpointFolder::restore_newest() {
  RETURN_IF_ERROR(look_at_store());
  read_state();
  for (auto entry = manifests_.rbegin(); entry != manifests_.rend(); ++entry) {
    if (entry->first == number_) return number_;
    const Status fetched = fetch(entry->second);
    if (fetched) return number_;
    if (fetched.error().code != Code::corrupt && fetched.error().code != Code::not_found) {
      return fetched.error();
    }
    setup_.warn(fmt::format("checkpoint {} cannot be restored ({}); the one before it is used",
                            entry->first, fetched.error().message));
  }
  // Nothing was saved, or nothing of it is whole: what the folder has, if anything, is all there
  // is.
  number_ = 0;
  known_.clear();
  return number_;
}

Status CheckpointFolder::restore(int64_t number) {
  if (number > 0) {
    ASSIGN_OR_RETURN(const Manifest manifest, read_manifest(*setup_.run, number));
    return fetch(manifest);
  }
  keep_only({});
  number_ = 0;
  write_state();
  return {};
}

Status CheckpointFolder::adopt() {
  RETURN_IF_ERROR(look_at_store());
  read_state();
  if (manifests_.empty() || manifests_.rbegin()->first == number_) return {};
  // Its last words were lost: what is in the store is recognised by its hash.
  number_ = manifests_.rbegin()->first;
  known_.clear();
  for (const SavedFile& file : manifests_.rbegin()->second.files) known_[file.path] = {{}, file};
  return {};
}

std::vector<std::string> CheckpointFolder::set_torn_aside(int64_t ended_unix_ms) const {
  return tern::set_torn_aside(setup_.folder, setup_.work, kept_stamps(), ended_unix_ms);
}

Result<bool> CheckpointFolder::restore_torn() {
  const std::vector<std::string> torn = list_set_aside(setup_.work);
  if (torn.empty()) return false;
  RETURN_IF_ERROR(look_at_store());
  if (!manifests_.empty()) {
    for (const SavedFile& file : manifests_.rbegin()->second.files) {
      const bool is_gone = std::ranges::find(torn, file.path) != torn.end() &&
                           !fs::exists(setup_.folder / file.path);
      if (is_gone) RETURN_IF_ERROR(fetch_file(file));
    }
  }
  forget_set_aside(setup_.work);
  return true;
}

Status CheckpointFolder::fetch(const Manifest& manifest) {
  for (const SavedFile& file : manifest.files) {
    const auto known = known_.find(file.path);
    const auto stamp = stamp_of(setup_.folder / file.path);
    const bool is_there = known != known_.end() && known->second.file.sha256 == file.sha256 &&
                          stamp == known->second.stamp;
    if (is_there) continue;
    if (stamp && stamp->size_bytes == file.size_bytes) {
      const Result<std::string> hash = hash_file(setup_.folder / file.path);
      if (hash && *hash == file.sha256) continue;
    }
    RETURN_IF_ERROR(fetch_file(file));
  }
  keep_only(manifest);
  number_ = manifest.number;
  write_state();
  return {};
}

Status CheckpointFolder::fetch_file(const SavedFile& file) {
  const fs::path target = setup_.folder / file.path;
  fs::path part = target;
  part += ".part";
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  const FileDescriptor fd(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.is_open()) return file_error("write", part, errno);
  const RangeSink sink = [&](int64_t at, BytesView piece) -> Status {
    // Pieces may come again from the beginning.
    for (size_t done = 0; done < piece.size();) {
      const ssize_t put = pwrite(fd.get(), piece.data() + done, piece.size() - done,
                                 at + static_cast<int64_t>(done));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) return file_error("write", part, errno);
      done += static_cast<size_t>(put);
    }
    return {};
  };
  if (file.size_bytes > 0) {
    const Result<int64_t> got = setup_.run->get_range_to(file.object, 0, file.size_bytes, sink);
    if (!got) return got.error();
  }
  ASSIGN_OR_RETURN(const std::string hash, hash_file(part));
  if (hash != file.sha256) {
    fs::remove(part, error);
    return fail(Code::corrupt,
                fmt::format("{} ({}) is damaged in the store", file.object, file.path));
  }
  if (fdatasync(fd.get()) != 0) return file_error("write", part, errno);
  if (rename(part.c_str(), target.c_str()) != 0) return file_error("write", target, errno);
  return {};
}

// What else is there was written by a program whose work was lost: another rank would not find it.
void CheckpointFolder::keep_only(const Manifest& manifest) {
  known_.clear();
  for (const SavedFile& file : manifest.files) {
    if (const auto stamp = stamp_of(setup_.folder / file.path)) {
      known_[file.path] = {*stamp, file};
    }
  }
  std::error_code error;
  for (const auto& [path, stamp] : scan_folder(setup_.folder)) {
    if (!known_.contains(path)) fs::remove(setup_.folder / path, error);
  }
}

// Times of files are some milliseconds coarse, so that two looks must agree; but a file that took
// another's name was finished before, and one that does so all the time would never rest.
bool CheckpointFolder::has_rested(const std::string& path, const FileStamp& stamp) const {
  const auto seen = seen_.find(path);
  if (seen == seen_.end()) return false;
  return seen->second == stamp || seen->second.inode != stamp.inode;
}

// The scan without what is not finished, which stays as it was known; nothing: not yet.
std::optional<FolderScan> CheckpointFolder::find_settled(const FolderScan& scan, When when) {
  FolderScan settled;
  for (const std::string& path : list_set_aside(setup_.work)) {
    const auto known = known_.find(path);
    if (known != known_.end() && !scan.contains(path)) settled[path] = known->second.stamp;
  }
  // What the program has removed is news too.
  bool is_new = std::ranges::any_of(known_, [&](const auto& entry) {
    return !scan.contains(entry.first) && !settled.contains(entry.first);
  });
  bool is_all = true;
  FolderScan seen = scan;
  for (const auto& [path, stamp] : scan) {
    const auto known = known_.find(path);
    if (known != known_.end() && known->second.stamp == stamp) {
      settled[path] = stamp;
      continue;
    }
    const bool is_open = is_being_written(setup_.folder / path);
    // It rests from when it is closed: if that was a kill, it is set aside before it has rested.
    if (is_open) seen.erase(path);
    if (!is_open && (when == When::now || has_rested(path, stamp))) {
      settled[path] = stamp;
      is_new = true;
      continue;
    }
    is_all = false;
    if (known != known_.end()) settled[path] = known->second.stamp;
  }
  seen_ = std::move(seen);
  if (is_all || !is_new) {
    unsettled_since_.reset();
    return is_new ? std::optional(std::move(settled)) : std::nullopt;
  }
  if (!unsettled_since_) unsettled_since_ = setup_.clock->now();
  const bool is_late = setup_.clock->now() - *unsettled_since_ > kUnsettledMax;
  if (when != When::now && !is_late) return std::nullopt;
  return settled;
}

Result<std::optional<Manifest>> CheckpointFolder::save(When when) {
  const FolderScan scan = scan_folder(setup_.folder);
  const std::optional<FolderScan> settled = find_settled(scan, when);
  if (!settled) return std::optional<Manifest>();
  Manifest manifest{.writer = setup_.writer};
  std::map<std::string, Known> known;
  for (const auto& [path, stamp] : *settled) {
    const auto before = known_.find(path);
    if (before != known_.end() && before->second.stamp == stamp) {
      known[path] = before->second;
    } else {
      ASSIGN_OR_RETURN(const std::optional<SavedFile> file, put_file(path, stamp));
      if (!file) return std::optional<Manifest>();
      known[path] = {stamp, *file};
    }
    manifest.files.push_back(known[path].file);
  }
  manifest.unix_ms = setup_.clock->unix_ms();
  RETURN_IF_ERROR(commit(manifest));
  known_ = std::move(known);
  unsettled_since_.reset();
  note(manifest);
  return std::optional(std::move(manifest));
}

Status CheckpointFolder::fence() {
  const auto newest = manifests_.find(last_);
  if (newest != manifests_.end() && newest->second.writer == setup_.writer) return {};
  Manifest manifest{.unix_ms = setup_.clock->unix_ms(), .writer = setup_.writer};
  if (const auto own = manifests_.find(number_); own != manifests_.end()) {
    manifest.files = own->second.files;
  }
  RETURN_IF_ERROR(commit(manifest));
  note(manifest);
  return {};
}

// It was committed, and is what the folder descends from.
void CheckpointFolder::note(const Manifest& manifest) {
  number_ = last_ = manifest.number;
  manifests_[number_] = manifest;
  write_state();
  const Status pruned = prune();
  // It only costs space, and the next save tries again.
  if (!pruned) setup_.warn("old checkpoints are not removed: " + pruned.error().message);
}

// Nothing if the file changed meanwhile, or is gone.
Result<std::optional<SavedFile>> CheckpointFolder::put_file(const std::string& path,
                                                            const FileStamp& stamp) {
  ASSIGN_OR_RETURN(std::optional<SavedFile> file, copy_aside(path, stamp));
  if (!file) return file;
  const auto before = known_.find(path);
  if (before != known_.end() && before->second.file.sha256 == file->sha256) {
    return std::optional(before->second.file);  // written anew, as it was
  }
  const MappedFile bytes(setup_.work / kCopyFile, file->size_bytes);
  if (!bytes.is_open()) return file_error("read", setup_.work / kCopyFile, errno);
  // With the writer in its name: another process never removes what this one is about to commit.
  file->object = fmt::format("{}{}-{}", kFilePrefix, file->sha256, setup_.writer.substr(0, 8));
  RETURN_IF_ERROR(setup_.run->put(file->object, bytes.view()));
  return file;
}

// Read once, into a file of ours: what is hashed is what is stored, whatever the program does.
Result<std::optional<SavedFile>> CheckpointFolder::copy_aside(const std::string& path,
                                                              const FileStamp& stamp) {
  const std::optional<SavedFile> none;
  const fs::path source = setup_.folder / path;
  const fs::path target = setup_.work / kCopyFile;
  const FileDescriptor from(open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!from.is_open()) return none;
  const FileDescriptor to(open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!to.is_open()) return file_error("write", target, errno);
  Sha256 hash;
  int64_t copied = 0;
  Bytes piece(kPieceBytes, '\0');
  for (;;) {
    const ssize_t got = read(from.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return file_error("read", source, errno);
    if (got == 0) break;
    const BytesView view(piece.data(), static_cast<size_t>(got));
    hash.update(view);
    size_t written = 0;
    if (const int error = write_fully(to.get(), view, written); error != 0) {
      return file_error("write", target, error);
    }
    copied += got;
  }
  // Of the file that was read: another may have its name by now, which is for the next time.
  if (copied != stamp.size_bytes || stamp_of(from.get()) != stamp || is_being_written(source)) {
    return none;
  }
  return std::optional(
      SavedFile{.path = path, .size_bytes = copied, .sha256 = to_hex(hash.finish())});
}

// Creates it under the next number that is free, which it is given.
Status CheckpointFolder::commit(Manifest& manifest) {
  for (int64_t number = last_ + 1; number <= last_ + kNumbersTried; ++number) {
    manifest.number = number;
    const Status created = setup_.run->create(manifest_object(number), format_manifest(manifest));
    if (created || created.error().code != Code::already_exists) return created;
    const Result<Manifest> there = read_manifest(*setup_.run, number);
    // Ours, if the answer to an earlier try was lost; or half a manifest, which counts for nothing.
    const bool counts_not =
        there ? there->writer == setup_.writer : there.error().code == Code::corrupt;
    if (!counts_not) break;
  }
  return fail(Code::aborted,
              "another process saves for this run; what is new here is not kept. Give each launch "
              "a --run of its own");
}

Status CheckpointFolder::prune() {
  while (manifests_.size() > kManifestsKept) {
    // One whose files are those of the next, as a fence leaves it, is nothing to go back to.
    auto first = std::ranges::adjacent_find(manifests_, [](const auto& one, const auto& next) {
      return one.second.files == next.second.files;
    });
    if (first == manifests_.end()) first = manifests_.begin();
    const Manifest oldest = first->second;
    // The list goes first: it must never name what is gone.
    RETURN_IF_ERROR(setup_.run->remove(manifest_object(oldest.number)));
    manifests_.erase(first);
    std::set<std::string> kept;
    for (const auto& [number, manifest] : manifests_) {
      for (const SavedFile& file : manifest.files) kept.insert(file.object);
    }
    std::vector<std::string> gone;
    for (const SavedFile& file : oldest.files) {
      if (!kept.contains(file.object)) gone.push_back(file.object);
    }
    RETURN_IF_ERROR(setup_.run->remove_all(gone));
  }
  return {};
}

Status CheckpointFolder::sweep() {
  // A manifest that cannot be read may list any of them.
  if (last_ != (manifests_.empty() ? 0 : manifests_.rbegin()->first)) return {};
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, setup_.run->list(kFilePrefix));
  std::set<std::string> listed;
  for (const auto& [number, manifest] : manifests_) {
    for (const SavedFile& file : manifest.files) listed.insert(file.object);
  }
  std::vector<std::string> waste;
  for (const ObjectInfo& object : objects) {
    if (!listed.contains(object.name)) waste.push_back(object.name);
  }
  return setup_.run->remove_all(waste);
}

// Of the last save from this folder, whichever process made it.
FolderScan CheckpointFolder::kept_stamps() const {
  FolderScan kept;
  RealFileDoor door;
  const Result<Bytes> text = door.read(setup_.work / kStateFile);
  const Json json = Json::parse(text.value_or(""), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("stamps") || !json["stamps"].is_object()) return kept;
  for (const auto& [path, stamp] : json["stamps"].items()) {
    if (const auto parsed = parse_stamp(stamp)) kept[path] = *parsed;
  }
  return kept;
}

// What this machine knew when it last ran. If it is lost or damaged the files are read again.
void CheckpointFolder::read_state() {
  number_ = 0;
  known_.clear();
  RealFileDoor door;
  const Result<Bytes> text = door.read(setup_.work / kStateFile);
  if (!text) return;
  const Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("number") || !json["number"].is_number_integer()) return;
  const auto manifest = manifests_.find(json["number"].get<int64_t>());
  const auto stamps = json.find("stamps");
  if (manifest == manifests_.end() || stamps == json.end() || !stamps->is_object()) return;
  number_ = manifest->first;
  for (const SavedFile& file : manifest->second.files) {
    const auto stamp = stamps->find(file.path);
    const auto parsed = stamp == stamps->end() ? std::nullopt : parse_stamp(*stamp);
    if (parsed) known_[file.path] = {*parsed, file};
  }
}

void CheckpointFolder::write_state() {
  Json stamps = Json::object();
  for (const auto& [path, known] : known_) stamps[path] = stamp_json(known.stamp);
  const fs::path target = setup_.work / kStateFile;
  fs::path part = target;
  part += ".part";
  std::error_code error;
  fs::remove(part, error);
  RealFileDoor door;
  const Json state = {{"number", number_}, {"stamps", std::move(stamps)}};
  Status written = door.write_new(part, state.dump());
  if (written) written = door.rename(part, target);
  if (!written) setup_.warn(written.error().message);
}

}  // namespace tern
