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
    ASSIGN_OR_RETURN(fetched->lock_, FolderLock::take(fetched->downloads_ / "import.lock"));
    RETURN_IF_ERROR(fetched->bring(log, clock, stop));
    return fetched;
  }
  ~Fetched() {
    lock_.reset();
    // Each only if it is an empty folder.
    ::rmdir(downloads_.c_str());
    if (is_new_) ::rmdir(request_.destination.c_str());
  }

  const fs::path& file() const { return file_; }
  // After a packed import nobody reads it any more.
  void remove() {
    std::error_code ignored;
    fs::remove(file_, ignored);
  }

 private:
  explicit Fetched(const ImportRequest& request)
      : request_(request), downloads_(request.destination / kDownloads) {}

  Status bring(Log& log, Clock& clock, const std::stop_token& stop) {
    const std::string name = file_name_of(request_.source);
    const fs::path arrival = downloads_ / name;
    const fs::path kept = request_.destination / kSource / name;
    file_ = request_.pack ? arrival : kept;
    std::error_code error;
    if (fs::exists(file_, error)) {  // by an earlier call
      return request_.sha256.empty() ? Status() : check_sha256(file_, request_.sha256, stop);
    }
    if (!fs::exists(arrival, error)) RETURN_IF_ERROR(download_to(arrival, log, clock, stop));
    if (request_.pack) return {};
    RETURN_IF_ERROR(RealFileDoor().make_folders(kept.parent_path()));
    return RealFileDoor().rename(arrival, kept);
  }

  Status download_to(const fs::path& arrival, Log& log, Clock& clock,
                     const std::stop_token& stop) const {
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
    return download({.url = request_.source,
                     .file = arrival,
                     .sha256 = request_.sha256,
                     .certificates = request_.certificates,
                     .clock = &clock,
                     .on_progress = show,
                     .on_retry = say},
                    stop);
  }

  const ImportRequest& request_;
  const fs::path downloads_;
  bool is_new_ = false;  // the destination: made by us
  fs::path file_;
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

Result<ImportResult> import_file(const ImportRequest& request, const fs::path& path, Log& log,
                                 Clock& clock, std::stop_token stop) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Source> source,
                   open_source(path, {.test_share = request.test_share}));
  log.info("import", source->describe());
  return import_dataset(*source,
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

Result<ImportResult> import_as_requested(const ImportRequest& given, Log& log, Clock& clock,
                                         std::stop_token stop) {
  ImportRequest request = given;
  std::error_code error;
  request.destination = fs::absolute(given.destination, error).lexically_normal();
  if (!request.destination.has_filename()) {
    request.destination = request.destination.parent_path();
  }
  RETURN_IF_ERROR(refuse_finished(request.destination));
  if (!is_web_address(request.source)) {
    RETURN_IF_ERROR(refuse_inside(request.source, request.destination));
    if (!request.sha256.empty()) {
      RETURN_IF_ERROR(check_sha256(request.source, request.sha256, stop));
    }
    return import_file(request, request.source, log, clock, stop);
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Fetched> fetched,
                   Fetched::fetch(request, log, clock, stop));
  ASSIGN_OR_RETURN(ImportResult result, import_file(request, fetched->file(), log, clock, stop));
  if (request.pack) fetched->remove();
  return result;
}

}  // namespace tern
