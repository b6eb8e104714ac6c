#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/data_bench.h"
#include "cli/data_commands.h"
#include "cli/data_summary.h"
#include "cli/parse_or_help.h"
#include "core/machine.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern data bench: how fast a data set can be fed to a network.

  tern data bench DST
  --set key=value   an option of [image], [augment] or [loader], as a run file
                    has them; image.size is 224 and augment.flip true unless
                    set, or samples as they are if all have one size;
                    loader.threads is the number of cores
  --batch N         samples a batch; not given: 64
  --samples N       samples a pass; not given: 2000
  --passes N        the best pass counts; not given: 3
  --shuffle SCOPE   full, window:W or sequential; not given: full
  --split NAME      train or test; not given: train
  --stage DIR       behind a local copy, as data.stage
  --json            for programs

DST is a folder that `tern data import` made, or a copy of one in a bucket:
s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix.
Fetching, decoding and augmenting are measured alone on one core, then the
loader with all its threads. The slowest stage bounds the rate; with more
threads each stage's limit grows up to the number of cores.
)";

struct Request {
  bool as_json = false;
  std::string place;
  std::string shuffle = "full";
  std::string split = "train";
  std::string stage;
  std::vector<std::string> assignments;
};

}  // namespace

Result<int> data_bench_command(const Surroundings& surroundings, const Arguments& arguments) {
  Request request;
  SystemClock clock;
  BenchSetup setup{.clock = &clock};
  CLI::App app;
  app.add_flag("--json", request.as_json);
  app.add_option("--set", request.assignments)->allow_extra_args(false);
  app.add_option("--batch", setup.batch)->check(CLI::Range(1, 65536));
  app.add_option("--samples", setup.samples)->check(CLI::Range(1, 1'000'000'000));
  app.add_option("--passes", setup.passes)->check(CLI::Range(1, 1000));
  app.add_option("--shuffle", request.shuffle);
  app.add_option("--split", request.split)->check(CLI::IsMember({"train", "test"}));
  app.add_option("--stage", request.stage);
  app.add_option("DST", request.place);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern data bench", kHelp));
  if (is_help) return kExitDone;
  // As patient as a run is.
  CloudDoor door(surroundings.cloud, clock);
  ASSIGN_OR_RETURN(const ImportedData data, open_data_set(request.place, door));
  const Split split = request.split == "train" ? Split::train : Split::test;
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, open_split(data, split, request.stage));
  ASSIGN_OR_RETURN(setup.shuffle, parse_shuffle(request.shuffle));
  setup.dataset = dataset.get();
  setup.image.size = dataset->shape().bytes() == 0 ? 224 : 0;
  setup.augment.flip = true;
  setup.loader.threads = usable_cores();
  OptionSet set;
  set.section("image", "", setup.image);
  set.section("augment", "", setup.augment);
  set.section("loader", "", setup.loader);
  for (const std::string& assignment : request.assignments) {
    if (const auto problem = set.set(assignment)) return fail(Code::invalid, problem->message);
  }
  if (setup.image.size == 0 && dataset->shape().bytes() == 0) {
    return fail(Code::invalid, "the images have many sizes; set image.size");
  }
  ASSIGN_OR_RETURN(const BenchResult result, bench_data(setup));
  if (request.as_json) {
    fmt::print("{}\n", bench_json(result).dump());
  } else {
    fmt::print("{}", format_bench(result));
  }
  return kExitDone;
}

}  // namespace tern
