#include "cli/store_objects.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>

#include "cli/copy_progress.h"
#include "cli/parse_or_help.h"
#include "cloud/whole_list.h"
#include "core/progress.h"
#include "core/system_files.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

std::string last_part(const std::string& name) { return name.substr(name.rfind('/') + 1); }

Result<FoundObjects> find_files(CloudDoor& door, const StoreAddress& address) {
  std::error_code error;
  const fs::path path = fs::absolute(address.prefix, error).lexically_normal();
  FoundObjects all;
  if (fs::is_directory(path, error)) {
    ASSIGN_OR_RETURN(all.store, door.open({.prefix = path}));
    ASSIGN_OR_RETURN(const std::vector<ObjectInfo> objects, all.store->list(""));
    for (const ObjectInfo& object : objects) all.found.push_back({object, object.name});
    return all;
  }
  ASSIGN_OR_RETURN(all.store, door.open({.prefix = path.parent_path()}));
  const Result<ObjectInfo> file = all.store->stat(path.filename());
  if (!file && file.error().code != Code::not_found) return file.error();
  if (!file) return all;
  all.has_single = true;
  all.found.push_back({*file, file->name});
  return all;
}

}  // namespace

Result<std::optional<StoreAddress>> parse_uri(CLI::App& app, const Arguments& arguments,
                                              std::string_view name, std::string_view help) {
  std::string uri;
  app.add_option("URI", uri);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, name, help));
  if (is_help) return std::optional<StoreAddress>();
  ASSIGN_OR_RETURN(StoreAddress address, parse_store_address(uri));
  return std::optional<StoreAddress>(std::move(address));
}

int64_t FoundObjects::bytes() const {
  int64_t sum = 0;
  for (const FoundObject& each : found) sum += each.object.size_bytes;
  return sum;
}

bool is_folder_mark(const ObjectInfo& object) {
  return object.size_bytes == 0 && object.name.ends_with('/') &&
         check_object_name(object.name.substr(0, object.name.size() - 1)).has_value();
}

std::string describe_left_out(const std::vector<ObjectInfo>& left_out) {
  constexpr size_t kShownMax = 60;
  std::string name = printable_line(left_out.front().name);
  if (name.size() > kShownMax) name = name.substr(0, kShownMax) + "...";
  return fmt::format(
      "{} with names that tern does not take ('//', a '/' at an end, a part over 255 bytes and the "
      "like), such as '{}'",
      format_count(std::ssize(left_out), "object"), name);
}

Result<FoundObjects> find_objects(CloudDoor& door, Clock& clock, const StoreAddress& address) {
  if (address.is_folder()) return find_files(door, address);
  FoundObjects all;
  ASSIGN_OR_RETURN(all.store, door.open_bucket(address));
  Log log(clock, Level::info);
  std::vector<ObjectInfo> objects;
  RETURN_IF_ERROR(with_progress(
      log, clock, {.what = "list", .unit = "objects"}, [&](const OnDone& on_done) -> Status {
        ASSIGN_OR_RETURN(objects, list_whole(*all.store, address.prefix, on_done));
        return {};
      }));
  const std::string below = address.prefix.empty() ? "" : address.prefix + "/";
  for (const ObjectInfo& object : objects) {
    const bool is_there = object.name == address.prefix || object.name.starts_with(below);
    if (is_there && !check_object_name(object.name)) {
      all.left_out.push_back(object);
    } else if (object.name == address.prefix) {
      all.has_single = true;  // sorted: it is the first
      all.found.push_back({object, last_part(object.name)});
    } else if (object.name.starts_with(below)) {
      all.found.push_back({object, object.name.substr(below.size())});
    }
  }
  return all;
}

Result<int64_t> parse_size(const std::string& flag, const std::string& text, int64_t min,
                           int64_t max) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  const bool is_size = failure == std::errc{} && shift >= 0 && number >= 0;
  if (is_size && number <= (max >> shift) && (number << shift) >= min) return number << shift;
  return fail(Code::invalid, fmt::format("{} is a number of bytes such as 16M, from {} to {}; '{}' "
                                         "is not",
                                         flag, format_bytes(min), format_bytes(max), text));
}

}  // namespace tern
