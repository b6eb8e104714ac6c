#include "cli/import_request.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "core/download.h"
#include "core/hash.h"
#include "core/machine.h"
#include "core/progress.h"
#include "dataset/index.h"
#include "import/import_folder.h"
#include "import/source.h"
#include "storage/file_door.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr char kDownloads[] = ".download";
constexpr char kSource[] = "source";
constexpr char kLock[] = "import.lock";
// Of the address whose file, or part of it, lies beside: its hash, for addresses may hold
// passwords.
constexpr char kAddress[] = ".address";
constexpr size_t kChunkBytes = size_t{1} << 20;

Result<std::string> hash_file(const fs::path& file, std::stop_token stop) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"),
                                                               &std::fclose);
  if (!stream) return file_error("read", file, errno);
  std::vector<char> chunk(kChunkBytes);
  Sha256 hash;
  while (true) {
    if (stop.stop_requested()) return fail(Code::cancelled, "stopped");
    const size_t got = std::fread(chunk.data(), 1, chunk.size(), stream.get());
    if (got == 0) break;
    hash.update({chunk.data(), got});
  }
  if (std::ferror(stream.get()) != 0) return file_error("read", file, EIO);
  return to_hex(hash.finish());
}

Status check_sha256(const fs::path& file, std::string wanted, std::stop_token stop) {
  std::ranges::transform(wanted, wanted.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    return fail(Code::invalid, fmt::format("--sha256 is for one file, which {} is not; leave it "
                                           "out",
                                           file.string()));
  }
  ASSIGN_OR_RETURN(const std::string found, hash_file(file, std::move(stop)));
  if (found == wanted) return {};
  return fail(Code::corrupt,
              fmt::format("the SHA-256 of {} is {}, not {}; remove that file and fetch it again",
                          file.string(), found, wanted));
}

// import_dataset() would find that too, but only after the source was fetched and looked through.
Status refuse_finished(const fs::path& folder) {
  std::error_code error;
  const bool is_finished =
      fs::exists(folder / kIndexFile, error) && !fs::exists(folder / "import.json", error);
  if (!is_finished) return {};
  return fail(Code::failed_precondition,
              fmt::format("{} holds a finished data set; use it (`--set data.path={}`), or remove "
                          "it, or import into another folder",
                          folder.string(), folder.string()));
}

// The fetched file of an import; while this lives, no other process fetches it.
class Fetched {
 public:
  static Result<std::unique_ptr<Fetched>> fetch(const ImportRequest& request, Log& log,
                                                Clock& clock, const std::stop_token& stop) {
    std::unique_ptr<Fetched> fetched(new Fetched(request));
    ASSIGN_OR_RETURN(const std::vector<fs::path> made,
                     RealFileDoor().make_folders(fetched->downloads_));
    fetched->is_new_ = made.size() > 1;
    ASSIGN_OR_RETURN(fetched->lock_, FolderLock::take(fetched->downloads_ / kLock));
    RETURN_IF_ERROR(fetched->belong_to_address());
    RETURN_IF_ERROR(fetched->bring(log, clock, stop));
    return fetched;
  }
  ~Fetched() {
    std::error_code ignored;
    const bool is_kept = fs::exists(arrival_, ignored) || fs::exists(part(), ignored) ||
                         (fs::exists(kept_, ignored) && !is_done_);
    if (!is_kept && lock_) fs::remove(downloads_ / kAddress, ignored);
    lock_.reset();
    // Each only if it is an empty folder.
    ::rmdir(downloads_.c_str());
    if (is_new_) ::rmdir(request_.destination.c_str());
  }

  const fs::path& file() const { return file_; }
  // It is no archive, but a page that says "log in first"; or it was cut short. So that the next
  // call fetches it anew, it goes. With a sha256 it is what was asked for, and would be the same
  // again.
  Error unreadable(const Error& why) {
    const bool is_bad = why.code == Code::corrupt || why.code == Code::invalid;
    if (!is_bad || !request_.sha256.empty()) return why;
    remove();
    return fail(why.code, why.message +
                              "; what was fetched is removed, so that the same command fetches it "
                              "anew");
  }
  // After a packed import nobody reads it any more.
  void finish() {
    if (request_.pack) remove();
    is_done_ = true;
  }

 private:
  explicit Fetched(const ImportRequest& request)
      : request_(request),
        downloads_(request.destination / kDownloads),
        arrival_(downloads_ / file_name_of(request.source)),
        kept_(request.destination / kSource / file_name_of(request.source)),
        file_(request.pack ? arrival_ : kept_) {}

  fs::path part() const { return arrival_.string() + ".part"; }

  // Two addresses may end in the same name. What came from the other one goes.
  Status belong_to_address() const {
    const std::string mine = to_hex(sha256(request_.source));
    std::error_code error;
    const fs::path note = downloads_ / kAddress;
    RealFileDoor door;
    if (fs::exists(note, error)) {
      ASSIGN_OR_RETURN(const Bytes noted, door.read(note));
      if (noted == mine) return {};
      ASSIGN_OR_RETURN(const std::vector<FileInfo> found, door.list(downloads_));
      std::vector<fs::path> others = {kept_};
      for (const FileInfo& file : found) {
        if (file.path != kLock && file.path != kAddress) others.push_back(downloads_ / file.path);
      }
      others.push_back(note);  // last: until then, what is left is known to be the other's
      for (const fs::path& other : others) {
        if (!fs::remove(other, error) && error) return file_error("remove", other, error.value());
      }
    }
    return door.write_new(note, mine);
  }

  void remove() const {
    std::error_code ignored;
    fs::remove(file_, ignored);
    ::rmdir((request_.destination / kSource).c_str());  // if it is empty
  }

  Status bring(Log& log, Clock& clock, const std::stop_token& stop) {
    std::error_code error;
    if (fs::exists(file_, error)) {  // by an earlier call
      return request_.sha256.empty() ? Status() : check_sha256(file_, request_.sha256, stop);
    }
    if (!fs::exists(arrival_, error)) RETURN_IF_ERROR(download(log, clock, stop));
    if (request_.pack) return {};
    RETURN_IF_ERROR(RealFileDoor().make_folders(kept_.parent_path()));
    return RealFileDoor().rename(arrival_, kept_);
  }

  Status download(Log& log, Clock& clock, const std::stop_token& stop) const {
    std::unique_ptr<Progress> progress;
    const auto show = [&](int64_t done, int64_t total) {
      if (!progress) {
        progress = std::make_unique<Progress>(
            log, clock,
            ProgressOptions{.what = "fetch", .unit = "bytes", .total = total, .start = done});
      }
      progress->update(done);
    };
    const auto say = [&log](const Error& why, Nanoseconds pause) {
      log.warn("import", why.message, {{"again_in", format_seconds(to_seconds(pause))}});
    };
    return tern::download({.url = request_.source,
                           .file = arrival_,
                           .sha256 = request_.sha256,
                           .certificates = request_.certificates,
                           .clock = &clock,
                           .on_progress = show,
                           .on_retry = say},
                          stop);
  }

  const ImportRequest& request_;
  const fs::path downloads_;
  const fs::path arrival_;  // first
  const fs::path kept_;     // in place: then
  const fs::path file_;     // the one of them that is read
  bool is_new_ = false;     // the destination: made by us
  bool is_done_ = false;
  std::unique_ptr<FolderLock> lock_;
};

Status refuse_inside(const fs::path& source, const fs::path& destination) {
  std::error_code error;
  if (!fs::is_directory(source, error)) return {};
  const fs::path real = fs::weakly_canonical(destination, error);
  const fs::path relative = real.lexically_relative(fs::canonical(source, error));
  if (relative.empty() || *relative.begin() == "..") return {};
  return fail(Code::invalid,
              fmt::format("{} lies in {}, so the import would find itself; give a folder beside it",
                          destination.string(), source.string()));
}

Result<std::unique_ptr<Source>> open_requested(const ImportRequest& request, const fs::path& path,
                                               Log& log) {
  ASSIGN_OR_RETURN(std::unique_ptr<Source> source,
                   open_source(path, {.test_share = request.test_share}));
  log.info("import", source->describe());
  if (request.test_share > 0 && source->has_test_split()) {
    log.warn("import", "--test-share changes nothing: the source has a test split of its own");
  }
  return source;
}

Result<ImportResult> import_opened(const ImportRequest& request, Source& source, Log& log,
                                   Clock& clock, std::stop_token stop) {
  return import_dataset(source,
                        {.destination = request.destination,
                         .pack = request.pack,
                         .threads = request.threads > 0 ? request.threads : usable_cores(),
                         .test_share = request.test_share,
                         .address = is_web_address(request.source) ? request.source : "",
                         .tern_version = request.tern_version},
                        log, clock, std::move(stop));
}

}  // namespace

std::string file_name_of(const std::string& address) {
  std::string path = address.substr(0, address.find_first_of("?#"));
  if (const size_t host = path.find("://"); host != std::string::npos) path.erase(0, host + 3);
  const size_t slash = path.rfind('/');
  std::string name = slash == std::string::npos ? "" : path.substr(slash + 1);
  const bool is_odd = name.empty() || name.front() == '.' || name.size() > 200 ||
                      name.find('\0') != std::string::npos || name.ends_with(".part");
  return is_odd ? "data" : name;
}

Status refuse_other_addresses(const std::string& source) {
  const size_t end = source.find("://");
  std::error_code error;
  if (end == std::string::npos || is_web_address(source) || fs::exists(source, error)) return {};
  std::string scheme = source.substr(0, end);
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '+'; };
  if (scheme.empty() || !std::ranges::all_of(scheme, is_letter)) return {};
  std::ranges::transform(scheme, scheme.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (scheme == "s3" || scheme == "gs" || scheme == "az") {
    return fail(Code::invalid,
                fmt::format("{} is in a bucket, and tern imports what is on this machine; fetch it "
                            "first: `tern store cp --recursive {} DIR`",
                            source, source));
  }
  return fail(Code::invalid,
              fmt::format("{}:// is not fetched, https:// and http:// are; download it first, then "
                          "give the file",
                          scheme));
}

Result<ImportResult> import_as_requested(const ImportRequest& given, Log& log, Clock& clock,
                                         std::stop_token stop) {
  ImportRequest request = given;
  std::error_code error;
  request.destination = fs::absolute(given.destination, error).lexically_normal();
  if (!request.destination.has_filename()) {
    request.destination = request.destination.parent_path();
  }
  RETURN_IF_ERROR(refuse_finished(request.destination));
  RETURN_IF_ERROR(refuse_other_addresses(request.source));
  if (!is_web_address(request.source)) {
    RETURN_IF_ERROR(refuse_inside(request.source, request.destination));
    if (!request.sha256.empty()) {
      RETURN_IF_ERROR(check_sha256(request.source, request.sha256, stop));
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<Source> source,
                     open_requested(request, request.source, log));
    return import_opened(request, *source, log, clock, stop);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Fetched> fetched,
                   Fetched::fetch(request, log, clock, stop));
  const Result<std::unique_ptr<Source>> source = open_requested(request, fetched->file(), log);
  if (!source) return fetched->unreadable(source.error());
  ASSIGN_OR_RETURN(ImportResult result, import_opened(request, **source, log, clock, stop));
  fetched->finish();
  return result;
}

}  // namespace tern
