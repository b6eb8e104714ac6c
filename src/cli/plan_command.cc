// `tern plan`: checks the run file and becomes tern-train, which has LibTorch to build the network.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/become_trainer.h"
#include "cli/command.h"
#include "core/clock.h"
#include "core/stdio.h"
#include "train/exit_codes.h"
#include "train/plan_flags.h"
#include "train/train_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern plan: what a run will do, before it does it. Nothing is written.

  tern plan FILE [--set key=value]... [--probe] [--price 0.5/h] [--json]

  FILE              a run file, or the name of a recipe (see `tern recipes`)
  --set key=value   set one option, over the run file; may be given many times
  --probe           train 20 steps of each phase on this machine, with synthetic
                    and with real data, and predict time and cost. A batch that
                    does not fit is found, and the largest that does is named
  --price 0.5/h     dollars an hour, instead of train.price
  --json            for programs: steps, parameters, phases and more

Shown are the data, the phases with their image sizes, batches and steps, the
learning rate as a curve, the number of parameters, the size of a checkpoint and
an estimate of the memory. Data that is not here is a warning that says what
makes it; data.samples in the run file then tells how many samples there are.
docs/phases.md explains phases. Ctrl-C stops at once.
)";

}  // namespace

Result<int> plan_command(const Surroundings& surroundings, const Arguments& arguments) {
  const Nanoseconds started = time_since_boot();
  bool help = false;
  PlanRequest request;
  CLI::App app;
  app.set_help_flag();
  app.add_flag("-h,--help", help);
  add_plan_flags(app, request);
  RETURN_IF_ERROR(parse_flags(app, arguments, "tern plan --help"));
  if (help) {
    fmt::print("{}", kHelp);
    return kExitDone;
  }
  if (request.run.file.empty()) {
    return fail(Code::invalid,
                "which run file or recipe? `tern recipes` lists the recipes, `tern plan --help` "
                "explains the flags");
  }
  std::vector<Problem> problems;
  const Result<RunConfig> config =
      load_run_config(request.run, surroundings.list_recipes(), problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  if (!config.has_value()) return config.error();

  Arguments words = {kPlanMode};
  words.insert(words.end(), arguments.begin(), arguments.end());
  return become_trainer(surroundings, {.arguments = std::move(words),
                                       .threads = config->train.threads,
                                       .portable = config->train.portable,
                                       .started = started});
}

}  // namespace tern
