#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/store_commands.h"
#include "cli/store_objects.h"
#include "core/clock.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern store mb: make a bucket. One that is there already stays as it is.

  tern store mb s3://bucket              in the region of the credentials
  tern store mb gs://bucket              in the project of the credentials
  tern store mb az://account/container

It gets the cloud's defaults: private, one class of storage, no versions. Make
it with the cloud's own tools if it is to be otherwise.
)";

}  // namespace

Result<int> store_mb_command(const Surroundings& surroundings, const Arguments& arguments) {
  CLI::App app;
  ASSIGN_OR_RETURN(std::optional<StoreAddress> address,
                   parse_uri(app, arguments, "tern store mb", kHelp));
  if (!address) return kExitDone;
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const std::unique_ptr<Bucket> bucket, door.open_bucket(*address));
  RETURN_IF_ERROR(bucket->make_bucket());
  address->prefix.clear();
  fmt::print("{} is there\n", address->to_string());
  return kExitDone;
}

}  // namespace tern
