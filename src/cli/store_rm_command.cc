#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <span>

#include "cli/bucket_rm.h"
#include "cli/copy_progress.h"
#include "cli/store_commands.h"
#include "cli/store_objects.h"
#include "core/clock.h"
#include "core/options.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "core/system_files.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr char kOlderThan[] = "24h";
constexpr size_t kRemovedAtOnce = 1000;  // as S3 takes them in one request

constexpr std::string_view kHelp =
    R"(tern store rm: remove objects from a bucket.

  tern store rm URI                  one object; asks first
  tern store rm URI --recursive      everything below URI/ as well
  tern store rm URI --yes            does not ask; needed where nobody is there

  tern store rm URI --uploads        uploads below URI/ that were never
                                     finished, as killed processes leave them:
                                     S3 keeps them, and asks money for them
  --older-than 24h                   with --uploads: begun so long ago; not
                                     given: 24h, which spares those under way

URI is s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix.
Google and Azure forget unfinished uploads by themselves, after a week.
There is no way back, unless the bucket keeps versions. The bucket itself stays.
A run is removed by `tern rm URI`, which sees that nobody is training it.
)";

// False for anything but a clear yes.
bool ask(const std::string& question) {
  write_stderr(question + " There is no way back. Remove? [y/N] ");
  std::string answer;
  for (int c = std::getchar(); c != EOF && c != '\n'; c = std::getchar()) {
    answer += static_cast<char>(c);
  }
  return answer == "y" || answer == "Y" || answer == "yes";
}

// What is to go, of what was found.
Result<std::vector<std::string>> choose(const FoundObjects& all, const std::string& name,
                                        bool recursive) {
  std::vector<std::string> doomed;
  if (all.found.empty() && !all.left_out.empty()) {
    return fail(Code::failed_precondition,
                fmt::format("nothing in {} can be removed: there is {}; remove these with the "
                            "store's own tool",
                            name, describe_left_out(all.left_out)));
  }
  if (!recursive && !all.has_single) {
    return all.found.empty()
               ? fail(Code::not_found,
                      fmt::format("there is no object {}; `tern store ls` shows what is there",
                                  name))
               : fail(Code::invalid,
                      fmt::format("{} is no object, but {} objects are below it; add --recursive "
                                  "to remove them",
                                  name, all.found.size()));
  }
  for (const FoundObject& each : all.found) {
    doomed.push_back(each.object.name);
    if (!recursive) break;
  }
  return doomed;
}

// Whether to go on: asks, unless that was answered by --yes. `what` is to be removed.
Result<bool> agree(const std::string& what, bool yes) {
  if (!yes && isatty(STDIN_FILENO) == 0) {
    return fail(Code::invalid, fmt::format("nobody is here to ask; add --yes to remove {}", what));
  }
  if (yes || ask(fmt::format("To be removed: {}.", what))) return true;
  fmt::print("Nothing was removed.\n");
  return false;
}

// All are tried, unless the store is away; the first failure is returned.
Status remove_all(ObjectStore& store, std::span<const std::string> names, const OnDone& on_done) {
  Status first;
  while (!names.empty()) {
    const auto some = names.first(std::min(kRemovedAtOnce, names.size()));
    const Status removed = store.remove_all(some);
    if (first && !removed) first = removed;
    if (!removed && removed.error().code == Code::unavailable) break;
    names = names.subspan(some.size());
    on_done(std::ssize(some));
  }
  return first;
}

Status remove_objects(CloudDoor& door, Clock& clock, const StoreAddress& address, bool recursive,
                      bool yes) {
  const std::string name = address.to_string();
  ASSIGN_OR_RETURN(const FoundObjects all, find_objects(door, clock, address));
  ASSIGN_OR_RETURN(const std::vector<std::string> doomed, choose(all, name, recursive));
  const std::string what =
      doomed.size() == 1 && !recursive
          ? fmt::format("{} ({})", name, format_bytes(all.found[0].object.size_bytes))
          : fmt::format("{} in {} ({})", format_count(std::ssize(doomed), "object"), name,
                        format_bytes(all.bytes()));
  ASSIGN_OR_RETURN(const bool is_agreed, agree(what, yes));
  if (!is_agreed) return {};
  Log log(clock, Level::info);
  RETURN_IF_ERROR(
      with_progress(log, clock, {.what = "remove", .unit = "objects", .total = std::ssize(doomed)},
                    [&](const OnDone& on_done) { return remove_all(*all.store, doomed, on_done); })
          .at("remove " + name));
  fmt::print("removed {}\n", what);
  if (!recursive || all.left_out.empty()) return {};
  return fail(Code::failed_precondition,
              fmt::format("not removed: {}; remove these with the store's own tool",
                          describe_left_out(all.left_out)));
}

// --uploads, begun before `before_unix_ms`.
Status remove_uploads(CloudDoor& door, const StoreAddress& address, int64_t before_unix_ms,
                      bool yes) {
  const std::string name = address.to_string();
  if (address.kind != StoreAddress::Kind::s3) {
    fmt::print(
        "{} lists no unfinished uploads, and forgets them by itself after a week; nothing "
        "is to be removed in {}\n",
        address.kind == StoreAddress::Kind::gcs ? "Google Cloud Storage" : "Azure Blob", name);
    return {};
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Bucket> bucket, door.open_bucket(address));
  ASSIGN_OR_RETURN(std::vector<OpenUpload> uploads, uploads_below(*bucket, address.prefix));
  std::erase_if(uploads,
                [&](const OpenUpload& upload) { return upload.began_unix_ms > before_unix_ms; });
  if (uploads.empty()) {
    fmt::print("no unfinished upload that was begun before {} is in {}\n",
               format_utc(before_unix_ms), name);
    return {};
  }
  for (const OpenUpload& upload : uploads) {
    fmt::print("{}  {}\n", format_utc(upload.began_unix_ms),
               check_object_name(upload.name) ? upload.name : printable_line(upload.name));
  }
  std::fflush(stdout);  // before the question
  const std::string what =
      fmt::format("{} in {}", format_count(std::ssize(uploads), "unfinished upload"), name);
  ASSIGN_OR_RETURN(const bool is_agreed, agree(what, yes));
  if (!is_agreed) return {};
  RETURN_IF_ERROR(bucket->abort_uploads(uploads).at("remove " + what));
  fmt::print("removed {}\n", what);
  return {};
}

}  // namespace

Result<int> store_rm_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool yes = false;
  bool recursive = false;
  bool uploads = false;
  std::string older_than = kOlderThan;
  CLI::App app;
  app.add_flag("--yes", yes);
  CLI::Option* const whole = app.add_flag("--recursive", recursive);
  CLI::Option* const unfinished = app.add_flag("--uploads", uploads)->excludes(whole);
  app.add_option("--older-than", older_than)->needs(unfinished);
  ASSIGN_OR_RETURN(const std::optional<StoreAddress> address,
                   parse_uri(app, arguments, "tern store rm", kHelp));
  if (!address) return kExitDone;
  if (address->is_folder()) {
    return fail(Code::invalid, fmt::format("{} is a path of this machine; remove it with rm(1)",
                                           address->to_string()));
  }
  const Result<Milliseconds> age = parse_duration(older_than);
  if (!age) return age.error().at("--older-than");
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  RETURN_IF_ERROR(uploads ? remove_uploads(door, *address, clock.unix_ms() - age->count(), yes)
                          : remove_objects(door, clock, *address, recursive, yes));
  return kExitDone;
}

}  // namespace tern
