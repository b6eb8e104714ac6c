#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/store_commands.h"
#include "cli/store_objects.h"
#include "core/clock.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "train/exit_codes.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern store rm: remove objects from a bucket.

  tern store rm URI                  one object; asks first
  tern store rm URI --recursive      everything below URI/ as well
  tern store rm URI --yes            does not ask; needed where nobody is there

URI is s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix.
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

}  // namespace

Result<int> store_rm_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool help = false;
  bool yes = false;
  bool recursive = false;
  std::string uri;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  app.add_flag("--yes", yes);
  app.add_flag("--recursive", recursive);
  app.add_option("URI", uri);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern store rm --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(uri));
  const std::string name = address.to_string();
  if (address.is_folder()) {
    return fail(Code::invalid,
                fmt::format("{} is a path of this machine; remove it with rm(1)", name));
  }
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const FoundObjects all, find_objects(door, address));
  ASSIGN_OR_RETURN(const std::vector<std::string> doomed, choose(all, name, recursive));
  const std::string what =
      doomed.size() == 1 && !recursive
          ? fmt::format("{} ({})", name, format_bytes(all.found[0].object.size_bytes))
          : fmt::format("{} objects in {} ({})", format_count(std::ssize(doomed)), name,
                        format_bytes(all.bytes()));
  if (!yes && isatty(STDIN_FILENO) == 0) {
    return fail(Code::invalid, fmt::format("nobody is here to ask; add --yes to remove {}", what));
  }
  if (!yes && !ask(fmt::format("To be removed: {}.", what))) {
    fmt::print("Nothing was removed.\n");
    return kExitDone;
  }
  RETURN_IF_ERROR(all.store->remove_all(doomed).at("remove " + name));
  fmt::print("removed {}\n", what);
  return kExitDone;
}

}  // namespace tern
