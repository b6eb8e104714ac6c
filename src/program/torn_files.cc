#include "program/torn_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A program that writes is killed with the file just written to; half a second may pass before that
// is seen on another rank.
constexpr int64_t kLastMomentsMs = 2'000;
// A line each: the path of one that was moved, or path and inode of one that was open.
constexpr char kList[] = "set-aside.jsonl";

using Time = std::tuple<int64_t, int64_t>;  // seconds and nanoseconds

Time time_of(const timespec& time) { return {time.tv_sec, time.tv_nsec}; }

enum class Judgement { whole, torn, open };

// A name that is given changes the folder that it is in, and the file or folder that gets it; a
// write changes neither folder. Where files' times are coarse, what was made, written and renamed
// within some milliseconds has all of them alike, and is taken for whole.
Judgement judge(const fs::path& folder, const fs::path& path, bool was_open,
                int64_t ended_unix_ms) {
  struct stat info{};
  if (lstat((folder / path).c_str(), &info) != 0) return Judgement::whole;
  const Time written = time_of(info.st_mtim);
  const int64_t written_ms = info.st_mtim.tv_sec * 1'000 + info.st_mtim.tv_nsec / 1'000'000;
  const bool is_old = written_ms < ended_unix_ms - kLastMomentsMs;
  if (is_old || time_of(info.st_ctim) > written) return Judgement::whole;
  for (fs::path above = path.parent_path(); !was_open; above = above.parent_path()) {
    const bool is_there = lstat((folder / above).c_str(), &info) == 0;
    if (!is_there || time_of(info.st_ctim) >= written) return Judgement::whole;
    if (!above.has_parent_path()) break;
  }
  return is_being_written(folder / path) ? Judgement::open : Judgement::torn;
}

Json read_lines(const fs::path& work) {
  Json lines = Json::array();
  std::ifstream list(work / kList);
  for (std::string line; std::getline(list, line);) {
    lines.push_back(Json::parse(line, nullptr, /*allow_exceptions=*/false));
  }
  return lines;
}

void add_line(const fs::path& work, const Json& line) {
  std::ofstream(work / kList, std::ios::app) << line.dump() + "\n" << std::flush;
}

}  // namespace

std::vector<std::string> set_torn_aside(const fs::path& folder, const fs::path& work,
                                        const FolderScan& kept, int64_t ended_unix_ms) {
  const Json before = read_lines(work);
  std::vector<std::string> torn;
  // All are judged before any is moved, which changes its folder; what another rank's program still
  // writes is remembered as that.
  for (const auto& [path, stamp] : scan_folder(folder)) {
    const auto same = kept.find(path);
    if (same != kept.end() && same->second == stamp) continue;
    const Json open_one = {path, stamp.inode};
    const bool was_open = std::ranges::find(before, open_one) != before.end();
    const Judgement judgement = judge(folder, path, was_open, ended_unix_ms);
    if (judgement == Judgement::torn) torn.push_back(path);
    if (judgement == Judgement::open) add_line(work, open_one);
  }
  std::erase_if(torn, [&](const std::string& path) {
    const fs::path target = work / kSetAsideFolder / path;
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    // First: whoever sees that it is gone must know why.
    add_line(work, path);
    fs::rename(folder / path, target, error);
    return static_cast<bool>(error);
  });
  return torn;
}

std::vector<std::string> list_set_aside(const fs::path& work) {
  std::vector<std::string> paths;
  for (const Json& line : read_lines(work)) {
    if (line.is_string()) paths.push_back(line.get<std::string>());
  }
  return paths;
}

void forget_set_aside(const fs::path& work) {
  std::error_code ignored;
  fs::remove(work / kList, ignored);
}

}  // namespace tern
