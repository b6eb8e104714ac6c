#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/run_list.h"
#include "cli/store_commands.h"
#include "cli/store_objects.h"
#include "core/clock.h"
#include "core/progress.h"
#include "core/stdio.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern store ls: what is in a bucket or a folder, with sizes.

  tern store ls URI                what is there; what has a '/' further on is
                                   shown as a folder, with the sum of its sizes
  tern store ls URI --recursive    every object
  tern store ls URI --json         for programs: every object, an array of
                                   objects with name (below URI) and bytes

URI is s3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix,
file:///path or a plain path.
)";

struct Line {
  int64_t bytes = 0;
  int64_t objects = 0;
  bool is_folder = false;
};

// Names on a terminal must not do more than be read; names of objects have no control characters.
std::string format_lines(const FoundObjects& all, bool recursive) {
  std::map<std::string, Line> lines;
  for (const FoundObject& each : all.found) {
    const size_t slash = recursive ? std::string::npos : each.relative.find('/');
    const bool is_folder = slash != std::string::npos;
    Line& line = lines[is_folder ? each.relative.substr(0, slash + 1) : each.relative];
    line.bytes += each.object.size_bytes;
    ++line.objects;
    line.is_folder = is_folder;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, line] : lines) {
    rows.push_back({format_bytes(line.bytes),
                    line.is_folder ? format_count(line.objects, "object") : "", name});
  }
  std::string text = format_table(rows, "rrl");
  text += fmt::format("{} in {}\n", format_bytes(all.bytes()),
                      format_count(std::ssize(all.found), "object"));
  return text;
}

}  // namespace

Result<int> store_ls_command(const Surroundings& surroundings, const Arguments& arguments) {
  bool as_json = false;
  bool recursive = false;
  CLI::App app;
  app.add_flag("--json", as_json);
  app.add_flag("--recursive", recursive);
  ASSIGN_OR_RETURN(const std::optional<StoreAddress> address,
                   parse_uri(app, arguments, "tern store ls", kHelp));
  if (!address) return kExitDone;
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const FoundObjects all, find_objects(door, clock, *address));
  if (as_json) {
    nlohmann::json list = nlohmann::json::array();
    for (const FoundObject& each : all.found) {
      list.push_back({{"name", each.relative}, {"bytes", each.object.size_bytes}});
    }
    const auto replace = nlohmann::json::error_handler_t::replace;
    fmt::print("{}\n", list.dump(2, ' ', false, replace));
  } else if (all.found.empty()) {
    fmt::print("There is nothing in {}.\n", address->to_string());
  } else {
    fmt::print("{}", format_lines(all, recursive));
  }
  if (all.left_out.empty()) return kExitDone;
  const std::string left_out = fmt::format("left out: {}\n", describe_left_out(all.left_out));
  if (as_json) {
    write_stderr(left_out);
  } else {
    fmt::print("{}", left_out);
  }
  return kExitDone;
}

}  // namespace tern
