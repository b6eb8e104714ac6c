#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>

#include "cli/store_commands.h"
#include "cli/store_objects.h"
#include "core/clock.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern store cat: the bytes of an object, to stdout.

  tern store cat URI           s3://bucket/name, gs://bucket/name,
                               az://account/container/name or a file
  tern store cat URI | less    what is no longer read is no longer fetched
)";

// So much is in memory.
constexpr int64_t kPartBytes = int64_t{4} << 20;
constexpr int64_t kPartsAtOnce = 8;

Error changed(const ObjectInfo& object) {
  return fail(Code::corrupt,
              fmt::format("{} changed while it was printed; run it again", object.name));
}

Status print_object(ObjectStore& store, const ObjectInfo& object) {
  int64_t offset = 0;   // of the next part to ask for
  int64_t printed = 0;  // where the next part that comes begins
  do {
    std::vector<ObjectRange> ranges;
    do {
      ranges.push_back({object.name, offset, std::min(kPartBytes, object.size_bytes - offset)});
      offset += ranges.back().length;
    } while (offset < object.size_bytes && std::ssize(ranges) < kPartsAtOnce);
    if (offset == object.size_bytes) ++ranges.back().length;  // is there if it has grown
    for (const Result<Bytes>& part : store.get_ranges(ranges)) {
      if (!part) return part.error();
      const auto wanted = static_cast<size_t>(std::min(kPartBytes, object.size_bytes - printed));
      const size_t size = std::min(part->size(), wanted);
      if (std::fwrite(part->data(), 1, size, stdout) != size) {
        if (errno == EPIPE) return {};
        return fail(Code::unavailable, "could not write the answer; is the disk full?");
      }
      if (part->size() != wanted) return changed(object);
      printed += kPartBytes;
    }
  } while (offset < object.size_bytes);
  return {};
}

}  // namespace

Result<int> store_cat_command(const Surroundings& surroundings, const Arguments& arguments) {
  CLI::App app;
  ASSIGN_OR_RETURN(const std::optional<StoreAddress> address,
                   parse_uri(app, arguments, "tern store cat", kHelp));
  if (!address) return kExitDone;
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const FoundObjects all, find_objects(door, clock, *address));
  if (!all.has_single) {
    return fail(Code::not_found,
                fmt::format("there is no object {}; `tern store ls` shows what is there",
                            address->to_string()));
  }
  RETURN_IF_ERROR(print_object(*all.store, all.found[0].object));
  return kExitDone;
}

}  // namespace tern
