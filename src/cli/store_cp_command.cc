#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <set>

#include "cli/copy_progress.h"
#include "cli/parse_or_help.h"
#include "cli/store_commands.h"
#include "cli/store_copy.h"
#include "cli/store_objects.h"
#include "core/progress.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kHelp =
    R"(tern store cp: copy files, folders and objects, in any direction.

  tern store cp FROM TO                 one file or object; where TO is a folder
                                        or ends in '/', under its own name
  tern store cp FROM TO --recursive     everything below FROM/, to TO/
  --force                               replace what is there; without it
                                        nothing is copied if a name is taken
  --verify                              read every copy again and compare it
  --part-size 16M  --in-flight 16       how much at once; memory is at most the
                                        one times the other

FROM and TO are s3://bucket/name, gs://bucket/name, az://account/container/name,
file:///path or plain paths. A copy is whole or not there, also after Ctrl-C:
the first stops after the object under way, a second leaves at once. Sizes are
compared, and what is sent to a bucket is checked by it against a checksum.
Run the same command with --force to go on after a stop.
)";

struct Request {
  bool recursive = false;
  bool force = false;
  bool verify = false;
  std::string from;
  std::string to;
  std::string part_size = "16M";
  int64_t in_flight = 16;
};

void add_flags(CLI::App& app, Request& request) {
  app.add_flag("--recursive", request.recursive);
  app.add_flag("--force", request.force);
  app.add_flag("--verify", request.verify);
  app.add_option("--part-size", request.part_size);
  app.add_option("--in-flight", request.in_flight)->check(CLI::Range(1, 256));
  app.add_option("FROM", request.from);
  app.add_option("TO", request.to);
}

// A copy, before it begins.
struct Plan {
  FoundObjects from;
  std::unique_ptr<ObjectStore> to;
  std::vector<CopyItem> items;
  int64_t bytes = 0;
};

Result<std::vector<FoundObject>> choose(const FoundObjects& all, const Request& request) {
  const auto first_below = all.found.begin() + (all.has_single ? 1 : 0);
  const bool has_below = first_below != all.found.end();
  if (request.recursive && has_below) return std::vector(first_below, all.found.end());
  if (all.has_single) return std::vector{all.found.front()};
  if (has_below) {
    return fail(Code::invalid, fmt::format("{} is no single object; add --recursive to copy the {} "
                                           "below it",
                                           request.from, all.found.size()));
  }
  if (!all.left_out.empty()) {
    return fail(Code::not_found, fmt::format("there is nothing at {} that can be copied; left out: "
                                             "{}; copy these with the store's own tool",
                                             request.from, describe_left_out(all.left_out)));
  }
  return fail(Code::not_found, fmt::format("there is nothing at {}; `tern store ls` shows what is "
                                           "there",
                                           request.from));
}

// Where the names of the copies begin: opens the store, and sets what stands before each name.
Result<std::string> open_destination(const Request& request, bool is_single, CloudDoor& door,
                                     Plan& plan) {
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(request.to));
  std::error_code error;
  const bool is_into = !is_single || request.to.ends_with('/') || address.prefix.empty() ||
                       (address.is_folder() && fs::is_directory(address.prefix, error));
  if (!address.is_folder()) {
    ASSIGN_OR_RETURN(plan.to, door.open_bucket(address));
    return is_into && !address.prefix.empty() ? address.prefix + "/" : address.prefix;
  }
  const fs::path path = fs::absolute(address.prefix, error).lexically_normal();
  ASSIGN_OR_RETURN(plan.to, door.open({.prefix = is_into ? path : path.parent_path()}));
  return is_into ? std::string() : path.filename().string();
}

Status refuse_taken_names(const Plan& plan, const std::string& prefix) {
  std::set<std::string> taken;
  if (plan.to->local_path("x")) {
    std::error_code error;
    for (const CopyItem& item : plan.items) {
      const auto path = plan.to->local_path(item.to);
      if (path && fs::exists(fs::symlink_status(*path, error))) taken.insert(item.to);
    }
  } else {
    ASSIGN_OR_RETURN(const std::vector<ObjectInfo> there, plan.to->list(prefix));
    std::set<std::string> names;
    for (const ObjectInfo& object : there) names.insert(object.name);
    for (const CopyItem& item : plan.items) {
      if (names.contains(item.to)) taken.insert(item.to);
    }
  }
  if (taken.empty()) return {};
  return fail(Code::already_exists,
              fmt::format("{} is there already{}; --force replaces what is there", *taken.begin(),
                          taken.size() == 1 ? "" : fmt::format(", and {} more", taken.size() - 1)));
}

Result<Plan> make_plan(const Request& request, CloudDoor& door, Clock& clock) {
  Plan plan;
  ASSIGN_OR_RETURN(const StoreAddress from, parse_store_address(request.from));
  ASSIGN_OR_RETURN(plan.from, find_objects(door, clock, from));
  ASSIGN_OR_RETURN(const std::vector<FoundObject> chosen, choose(plan.from, request));
  const bool is_single = !request.recursive || (chosen.size() == 1 && plan.from.has_single);
  ASSIGN_OR_RETURN(const std::string prefix, open_destination(request, is_single, door, plan));
  const bool is_whole_name = is_single && !prefix.empty() && !prefix.ends_with('/');
  for (const FoundObject& each : chosen) {
    plan.items.push_back({each.object, is_whole_name ? prefix : prefix + each.relative});
    plan.bytes += each.object.size_bytes;
    RETURN_IF_ERROR(check_object_name(plan.items.back().to));
  }
  if (!request.force) RETURN_IF_ERROR(refuse_taken_names(plan, prefix));
  return plan;
}

// Fails where not everything that was asked for could be copied.
Status refuse_to_leave_out(const Request& request, std::vector<ObjectInfo> left_out) {
  std::erase_if(left_out, is_folder_mark);
  if (!request.recursive || left_out.empty()) return {};
  return fail(
      Code::failed_precondition,
      fmt::format("not copied: {}; copy these with the store's own tool, or give them other "
                  "names there",
                  describe_left_out(left_out)));
}

// Reads a copy again.
Status verify_copy(const CopySetup& setup, const CopyItem& item) {
  ASSIGN_OR_RETURN(const auto source,
                   ObjectBytes::open(*setup.from, item.from, setup.move, setup.stop));
  ASSIGN_OR_RETURN(const ObjectInfo there, setup.to->stat(item.to));
  ASSIGN_OR_RETURN(const auto copy, ObjectBytes::open(*setup.to, there, setup.move, setup.stop));
  if (source->equals(*copy)) return {};
  return fail(Code::corrupt,
              fmt::format("the copy of {} does not have its bytes; copy it again, with --force",
                          item.from.name));
}

}  // namespace

Result<int> store_cp_command(const Surroundings& surroundings, const Arguments& arguments) {
  Request request;
  CLI::App app;
  add_flags(app, request);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern store cp", kHelp));
  if (is_help) return kExitDone;
  if (request.from.empty() || request.to.empty()) {
    return fail(Code::invalid, "copy what to where? see `tern store cp --help`");
  }
  MappedFiles mapped;
  MoveOptions move{.in_flight_max = request.in_flight, .mapped = &mapped};
  ASSIGN_OR_RETURN(move.part_bytes, parse_size("--part-size", request.part_size, int64_t{5} << 20,
                                               int64_t{1} << 30));
  SystemClock clock;
  ASSIGN_OR_RETURN(const auto interruptible, Interruptible::start(clock));
  Log log(clock, Level::info);
  CloudDoor door(surroundings.cloud, clock, {}, {},
                 {.part_bytes = move.part_bytes,
                  .in_flight_max = move.in_flight_max,
                  .on_sent = [&mapped](BytesView bytes) { mapped.let_go(bytes); }});
  ASSIGN_OR_RETURN(Plan plan, make_plan(request, door, clock));

  const Nanoseconds started = clock.now();
  const Status copied = with_progress(
      log, clock, {.what = "copy", .unit = "bytes", .total = plan.bytes},
      [&](const OnDone& on_bytes) {
        CopySetup setup{.from = plan.from.store.get(),
                        .to = plan.to.get(),
                        .move = move,
                        .existing = request.force ? Existing::replace : Existing::refuse,
                        .stop = interruptible->stop_token(),
                        .on_bytes = on_bytes};
        if (request.verify) {
          setup.copy_one = [&setup](const CopyItem& item) {
            const Status done = copy_object(setup, item);
            return done ? verify_copy(setup, item) : done;
          };
        }
        return copy_objects(setup, plan.items);
      });
  if (!copied) {
    const auto code = interruptible->exit_code(
        copied.error(), "whole objects that were copied stay; --force goes over them again");
    if (code) return *code;
    return copied.error();
  }
  const double seconds = to_seconds(clock.now() - started);
  fmt::print("copied {}, {}, in {:.1f} s ({}/s)\n", format_count(std::ssize(plan.items), "object"),
             format_bytes(plan.bytes), seconds,
             format_bytes(
                 static_cast<int64_t>(static_cast<double>(plan.bytes) / std::max(seconds, 1e-9))));
  RETURN_IF_ERROR(refuse_to_leave_out(request, plan.from.left_out));
  return kExitDone;
}

}  // namespace tern
