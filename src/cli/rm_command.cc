// `tern rm`: takes the run as a trainer would, so that it is nobody's, moves it to a name that says
// what becomes of it, and deletes it there. A kill leaves the run or that folder.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "cli/bucket_rm.h"
#include "cli/command.h"
#include "cli/run_holder.h"
#include "cli/run_list.h"
#include "core/clock.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "preempt/notice.h"
#include "report/accuracy_table.h"
#include "report/event_file.h"
#include "report/sampler.h"
#include "storage/disk_store.h"
#include "storage/ledger.h"
#include "train/exit_codes.h"
#include "train/fresh.h"
#include "train/run_place.h"
#include "train/train_flags.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHelp =
    R"(tern rm: remove runs, with their checkpoints and records.

  tern rm NAME...          asks first: says what would be removed and how large
  tern rm NAME... --yes    does not ask; needed where nobody is there to answer

NAME is a run's name in runs/, the folder of a run, or its place in a bucket
(s3://bucket/prefix and the like). Everything in there is removed and nothing
outside of it: links are removed, not followed. There is no way back.

Refused: a folder that holds no run, or more than a run (your own files, another
run inside), and a run that a process is training. If
that process was on another machine, tern rm waits as long as the run's lease
(lease.term, a minute by default) for a sign of life, and refuses if one comes.

If tern rm is killed, what is left is called NAME.removed.1; `tern ls` shows it,
and `tern rm NAME.removed.1` goes on. In a bucket it keeps its name, and no
command takes it for a run. `tern ls` lists the runs that are here.
)";

constexpr char kCheckpoints[] = "checkpoints";
constexpr char kTemps[] = ".tmp";

// A run that may be removed, as far as can be known without taking it.
struct Doomed {
  fs::path folder;                      // empty: it is in a bucket
  std::string name;                     // the folder, or the address
  StoreAddress place;                   // of one in a bucket
  std::shared_ptr<ObjectStore> bucket;  // null: it is in a folder
  ListedRun run;
};

Error link_refused(const fs::path& link) {
  std::error_code error;
  return fail(Code::failed_precondition,
              fmt::format("{} is a link; remove the run it leads to by that name, {}, and then "
                          "the link",
                          link.string(), fs::read_symlink(link, error).string()));
}

// A folder that holds a run may hold a thesis as well, or another run.
Status refuse_foreign_files(const fs::path& folder) {
  constexpr std::string_view kOurs[] = {
      kRunFileObject,     kLedgerObject,       kMetricsObject,   "log.txt",
      "report.json",      "model.safetensors", kCheckpoints,     kTemps,
      "best.safetensors", "classes.txt",       kSamplesObject,   kAccuracyObject,
      kTensorBoardFolder, kUnfinishedObject,   kCreateOnlyObject};
  constexpr size_t kNamesMax = 5;
  std::vector<std::string> others;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::string name = entry->path().filename().string();
    // Where a record log is kept in pieces, they are in NAME.d.
    const std::string whole = name.ends_with(".d") ? name.substr(0, name.size() - 2) : name;
    // A folder under the name of a file is somebody else's; a link is removed, not followed.
    std::error_code gone;
    const bool may_be = whole != name || name == kCheckpoints || name == kTemps ||
                        name == kTensorBoardFolder ||
                        !fs::is_directory(entry->symlink_status(gone));
    const bool is_ours =
        may_be && std::ranges::find(kOurs, std::string_view(whole)) != std::end(kOurs);
    if (!is_ours) others.push_back(std::move(name));
  }
  if (error) return file_error("list", folder, error.value());
  if (others.empty()) return {};
  std::ranges::sort(others);
  const size_t more = others.size() - std::min(others.size(), kNamesMax);
  others.resize(std::min(others.size(), kNamesMax));
  return fail(Code::failed_precondition,
              fmt::format("{} holds more than a run: {}{}; move that away first, or remove the "
                          "folder yourself",
                          folder.string(), fmt::join(others, ", "),
                          more > 0 ? fmt::format(" and {} more", more) : ""));
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

// Links are seen only by a path without "/." or "/" at its end. Refused where ".." follows a link:
// the short path would be that of another folder.
Result<fs::path> find_folder(const std::string& name) {
  ASSIGN_OR_RETURN(const fs::path given, parse_run_folder(name));
  std::error_code error;
  fs::path folder = fs::absolute(given, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (fs::exists(given, error) && !fs::equivalent(given, folder, error)) {
    return fail(Code::failed_precondition,
                fmt::format("{} leads through a link and back; write the path without '..'",
                            given.string()));
  }
  return folder;
}

// Everything that can be refused before anything is touched.
Result<Doomed> look_at(const std::string& name, FileDoor& door) {
  ASSIGN_OR_RETURN(const fs::path folder, find_folder(name));
  std::error_code error;
  if (fs::is_symlink(folder, error)) return link_refused(folder);
  if (!fs::is_directory(folder, error)) {
    return fail(
        Code::not_found,
        fmt::format("no run folder {}; `tern ls` lists the runs that are here", folder.string()));
  }
  if (!is_run_folder(folder)) {
    return fail(Code::failed_precondition,
                fmt::format("{} holds no run, so tern does not remove it; `tern ls` lists the runs "
                            "that are here",
                            folder.string()));
  }
  if (fs::is_symlink(folder / kCheckpoints, error)) return link_refused(folder / kCheckpoints);
  RETURN_IF_ERROR(refuse_foreign_files(folder));
  const fs::path real = fs::canonical(folder, error);
  if (is_inside(fs::current_path(error), real)) {
    return fail(
        Code::failed_precondition,
        fmt::format("you are inside {}; leave it (`cd`) and name it from there", real.string()));
  }
  ASSIGN_OR_RETURN(const auto store, DiskStore::open(folder, door));
  RETURN_IF_ERROR(refuse_if_held(*store, folder.string()));
  return Doomed{.folder = folder, .name = folder.string(), .run = read_listed_run(folder, door)};
}

Result<Doomed> look_at_bucket(const std::string& name, CloudDoor& door) {
  ASSIGN_OR_RETURN(const StoreAddress place, parse_run_place(name));
  Doomed doomed{.name = place.to_string(), .place = place};
  ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> store, door.open(place));
  doomed.bucket = std::move(store);
  RETURN_IF_ERROR(check_removable(*doomed.bucket, doomed.name));
  ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, doomed.bucket->list(""));
  int64_t bytes = 0;
  for (const ObjectInfo& object : objects) bytes += object.size_bytes;
  doomed.run = read_listed_run(*doomed.bucket, doomed.name, bytes);
  return doomed;
}

std::string describe(const Doomed& doomed) {
  return fmt::format("{} ({}, step {}, {})", doomed.name, doomed.run.status, doomed.run.step,
                     format_bytes(doomed.run.bytes));
}

// False for anything but a clear yes.
bool ask(const std::vector<Doomed>& all) {
  std::string question = "To be removed:";
  for (const Doomed& doomed : all) question += fmt::format("\n  {}", describe(doomed));
  write_stderr(question + "\nThere is no way back. Remove? [y/N] ");
  std::string answer;
  for (int c = std::getchar(); c != EOF && c != '\n'; c = std::getchar()) {
    answer += static_cast<char>(c);
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

// What makes the folder a run goes last, so that `tern rm` can go on after a kill.
Status delete_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> order;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != kLedgerObject && name != kCheckpoints) order.push_back(entry->path());
  }
  order.insert(order.end(), {folder / kCheckpoints, folder});
  for (const fs::path& path : order) {
    if (!error) fs::remove_all(path, error);
  }
  if (!error) return {};
  return fail(Code::permission_denied,
              fmt::format("cannot remove all of {}: {}; mend that, then `tern rm {}` goes on",
                          folder.string(), error.message(), folder.string()));
}

// What killed processes had begun to send, which S3 keeps and charges for. The run is gone by then,
// and to list uploads is a right of its own: that it is missing is no failure.
void remove_uploads(const Doomed& doomed, CloudDoor& cloud, Log& log) {
  const auto remove = [&]() -> Status {
    ASSIGN_OR_RETURN(const std::unique_ptr<Bucket> bucket, cloud.open_bucket(doomed.place));
    ASSIGN_OR_RETURN(const auto uploads, uploads_below(*bucket, doomed.place.prefix));
    return bucket->abort_uploads(uploads);
  };
  const Status removed = remove();
  if (removed) return;
  log.warn("rm",
           fmt::format("unfinished uploads of the run may be left; `tern store rm {} --uploads "
                       "--older-than 0s` removes them",
                       doomed.name),
           {{"cause", removed.error().to_string()}});
}

Status remove_run(const Doomed& doomed, FileDoor& door, CloudDoor& cloud, Clock& clock, Log& log) {
  if (doomed.bucket != nullptr) {
    RETURN_IF_ERROR(remove_bucket_run(*doomed.bucket, doomed.name, clock, log));
    remove_uploads(doomed, cloud, log);
    return {};
  }
  RETURN_IF_ERROR(refuse_foreign_files(doomed.folder));  // people take their time to answer
  ASSIGN_OR_RETURN(const Holder me, this_process());
  ASSIGN_OR_RETURN(const auto store, DiskStore::open(doomed.folder, door));
  const LeaseOptions lease = recorded_options(*store).lease;
  const NoticeBoard board;  // nobody posts: a signal ends this program, also while it waits
  ASSIGN_OR_RETURN(const auto aside, set_old_run_aside(doomed.folder, door, clock, log, me, lease,
                                                       board, kRemovedMark));
  return aside ? delete_folder(*aside) : Status();
}

}  // namespace

Result<int> rm_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool yes = false;
  std::vector<std::string> names;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--yes", yes);
  app.add_option("NAME", names);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern rm --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  if (names.empty()) {
    return fail(Code::invalid, "which run? `tern ls` lists those that are here");
  }
  RealFileDoor door;
  SystemClock clock;
  CloudDoor cloud(surroundings.cloud, clock, {}, kImpatient);
  std::vector<Doomed> all;
  for (const std::string& name : names) {
    Result<Doomed> found =
        is_cloud_address(name) ? look_at_bucket(name, cloud) : look_at(name, door);
    if (!found) return found.error();
    Doomed doomed = std::move(*found);
    const auto is_same = [&](const Doomed& other) {
      std::error_code error;
      return other.name == doomed.name || fs::equivalent(other.folder, doomed.folder, error);
    };
    if (std::ranges::none_of(all, is_same)) all.push_back(std::move(doomed));
  }
  if (!yes && isatty(STDIN_FILENO) == 0) {
    return fail(Code::invalid,
                fmt::format("nobody is here to ask; add --yes to remove {}{}", describe(all[0]),
                            all.size() == 1 ? "" : fmt::format(" and {} more", all.size() - 1)));
  }
  if (!yes && !ask(all)) {
    fmt::print("Nothing was removed.\n");
    return kExitDone;
  }
  Log log(clock, Level::info);
  for (const Doomed& doomed : all) {
    RETURN_IF_ERROR(remove_run(doomed, door, cloud, clock, log).at("remove " + doomed.name));
    fmt::print("removed {}, {}\n", doomed.name, format_bytes(doomed.run.bytes));
  }
  return kExitDone;
}

}  // namespace tern
