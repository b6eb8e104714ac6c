#include "cli/command_table.h"

namespace tern {
namespace {

constexpr Flag kTrainFlags[] = {
    {"--run", "the run's folder, or its name in runs/", Takes::run},
    {"--set", "set one option, over the run file", Takes::option},
    {"--steps", "stop after this step", Takes::text},
    {"--halt-file", "save and leave once this file exists", Takes::file},
    {"--on-event", "a command to run when this process ends", Takes::text},
    {"--from", "begin with a checkpoint of another run, DIR@STEP", Takes::run},
    {"--fresh", "begin anew; the old run is kept beside it"},
    {"--options", "explain every option"},
};
constexpr Flag kReportFlags[] = {
    {"--price", "dollars an hour, as 0.526/h", Takes::text},
    {"--json", "for programs"},
};
constexpr Flag kLsFlags[] = {
    {"--json", "for programs"},
    {"--names", "for completion", Takes::nothing, /*hidden=*/true},
};
constexpr Flag kCheckpointsFlags[] = {
    {"--verify", "read every byte and check it"},
    {"--json", "for programs"},
};
constexpr Flag kDoctorFlags[] = {
    {"--json", "for programs"},
};
constexpr Flag kRmFlags[] = {
    {"--yes", "do not ask"},
};
constexpr Flag kRecipesFlags[] = {
    {"--names", "for completion", Takes::nothing, /*hidden=*/true},
};

constexpr Command kCommands[] = {
    {"train", "train on this machine, or continue a run", train_command, Takes::run_file,
     kTrainFlags},
    {"report", "how a run ended and why", report_command, Takes::run, kReportFlags},
    {"ls", "the runs that are here", ls_command, Takes::folder, kLsFlags},
    {"checkpoints", "what a run has saved", checkpoints_command, Takes::run, kCheckpointsFlags},
    {"rm", "remove runs", rm_command, Takes::run, kRmFlags},
    {"recipes", "what can be trained out of the box", recipes_command, Takes::nothing,
     kRecipesFlags},
    {"init", "print a run file to edit", init_command, Takes::recipe, {}},
    {"doctor", "what this machine can do, and what is wrong with it", doctor_command,
     Takes::nothing, kDoctorFlags},
    {"completion", "print a completion script", completion_command, Takes::shell, {}},
    {"docs", "write docs/configuration.md", docs_command, Takes::text, {}, /*hidden=*/true},
};

}  // namespace

std::span<const Command> command_table() { return kCommands; }

}  // namespace tern
