#include "cli/command_table.h"

#include "cli/data_commands.h"
#include "cli/program_commands.h"
#include "cli/store_commands.h"

namespace tern {
namespace {

constexpr Flag kTrainFlags[] = {
    {"--run", "the run's folder or address, or its name in runs/", Takes::run},
    {"--set", "set one option, over the run file", Takes::option},
    {"--steps", "stop after this step", Takes::text},
    {"--ranks", "so many processes share each batch", Takes::text},
    {"--halt-file", "save and leave once this file exists", Takes::file},
    {"--on-event", "a command to run when this process ends", Takes::text},
    {"--from", "begin with a checkpoint of another run, DIR@STEP", Takes::run},
    {"--init", "weights to begin with: .safetensors or .pth", Takes::file},
    {"--fresh", "begin anew; the old run is kept beside it"},
    {"--create", "make the bucket of --run if it is not there"},
    {"--options", "explain every option"},
};
constexpr Flag kReportFlags[] = {
    {"--price", "dollars an hour, as 0.526/h", Takes::text},
    {"--json", "for programs"},
};
constexpr Flag kPlanFlags[] = {
    {"--set", "set one option, over the run file", Takes::option},
    {"--probe", "measure some steps; predict time and cost"},
    {"--price", "dollars an hour, as 0.526/h", Takes::text},
    {"--json", "for programs"},
};
constexpr Flag kEvalFlags[] = {
    {"--data", "another data set of the same classes", Takes::folder},
    {"--split", "train or test", Takes::text},
    {"--checkpoint", "best, last or a number", Takes::text},
    {"--init", "a file of weights; DIR is then a run file", Takes::file},
    {"--batch", "samples a batch", Takes::text},
    {"--per-class", "the accuracy of every class"},
    {"--set", "set one option", Takes::option},
    {"--json", "for programs"},
};
constexpr Flag kPredictFlags[] = {
    {"--top", "how many classes a picture", Takes::text},
    {"--checkpoint", "best, last or a number", Takes::text},
    {"--init", "a file of weights; DIR is then a run file", Takes::file},
    {"--set", "set one option", Takes::option},
    {"--json", "for programs"},
};
constexpr Flag kTensorBoardFlags[] = {
    {"--port", "the port, instead of 6006", Takes::text},
    {"--print", "print the command that would be started"},
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
    {"--quick", "only what keeps it from training"},
};
constexpr Flag kLaunchFlags[] = {
    {"--name", "what it is called from now on", Takes::text},
    {"--on", "local, ssh or slurm", Takes::text},
    {"--hosts", "a file of machines, or names in ~/.ssh/config", Takes::file},
    {"--machines", "use so many of them", Takes::text},
    {"--spares", "and so many that rest", Takes::text},
    {"--ranks-per-machine", "training processes on each", Takes::text},
    {"--run", "where the run is kept, on the machines", Takes::text},
    {"--set", "set one option, over the run file", Takes::option},
    {"--slurm", "an option for sbatch", Takes::text},
    {"--leave-port-free", "a program listens itself"},
    {"--detach", "return once it runs"},
};
constexpr Flag kStatusFlags[] = {
    {"--follow", "until it has ended; -f for short"},
    {"--json", "for programs"},
    {"--names", "for completion", Takes::nothing, /*hidden=*/true},
};
constexpr Flag kLogsFlags[] = {
    {"--follow", "until it has ended; -f for short"},
    {"--machine", "of one machine", Takes::text},
};
constexpr Flag kRestartFlags[] = {
    {"--machine", "on one machine", Takes::text},
};
constexpr Flag kStopFlags[] = {
    {"--wait", "seconds to wait for it", Takes::text},
};
constexpr Flag kPreemptFlags[] = {
    {"--machine", "the machine that is to go", Takes::text},
};
constexpr Flag kDownFlags[] = {
    {"--grace", "seconds to save itself", Takes::text},
};
constexpr Flag kRmFlags[] = {
    {"--yes", "do not ask"},
};
constexpr Flag kRecipesFlags[] = {
    {"--names", "for completion", Takes::nothing, /*hidden=*/true},
};

constexpr Flag kDataImportFlags[] = {
    {"--pack", "copy into shards: orig, base, short:256:q90 or raw", Takes::text},
    {"--test-share", "share of samples for the test split, if there is none", Takes::text},
    {"--threads", "not given: all cores", Takes::text},
    {"--sha256", "what a fetched file must hash to", Takes::text},
};
constexpr Flag kDataLsFlags[] = {
    {"--json", "for programs"},
};
constexpr Flag kDataVerifyFlags[] = {
    {"--decode", "decode every sample too"},
    {"--threads", "not given: all cores", Takes::text},
};
constexpr Flag kDataShowFlags[] = {
    {"--grid", "a contact sheet, as 8x8", Takes::text},
    {"--split", "train or test", Takes::text},
    {"--out", "the PNG to write", Takes::file},
    {"--set", "an option of [image] or [augment]", Takes::option},
};
constexpr Flag kDataBenchFlags[] = {
    {"--set", "an option of [image], [augment] or [loader]", Takes::option},
    {"--batch", "samples a batch", Takes::text},
    {"--samples", "samples a pass", Takes::text},
    {"--passes", "the best counts", Takes::text},
    {"--shuffle", "full, window:W or sequential", Takes::text},
    {"--split", "train or test", Takes::text},
    {"--stage", "read through a local copy in this folder", Takes::folder},
    {"--json", "for programs"},
};
constexpr Command kDataCommands[] = {
    {"import", "index or pack what you have", data_import_command, Takes::file, kDataImportFlags},
    {"ls", "what a data set holds", data_ls_command, Takes::folder, kDataLsFlags},
    {"verify", "read every byte and name what is damaged", data_verify_command, Takes::folder,
     kDataVerifyFlags},
    {"show", "look at samples", data_show_command, Takes::folder, kDataShowFlags},
    {"bench", "samples per second, by stage", data_bench_command, Takes::folder, kDataBenchFlags},
};

constexpr Flag kStoreLsFlags[] = {
    {"--recursive", "every object"},
    {"--json", "for programs"},
};
constexpr Flag kStoreCpFlags[] = {
    {"--recursive", "everything below"},
    {"--force", "replace what is there"},
    {"--verify", "read every copy again"},
    {"--part-size", "bytes moved at once, as 16M", Takes::text},
    {"--in-flight", "requests at once", Takes::text},
};
constexpr Flag kStoreRmFlags[] = {
    {"--recursive", "everything below"},
    {"--uploads", "uploads that were never finished"},
    {"--older-than", "begun so long ago, as 24h", Takes::text},
    {"--yes", "do not ask"},
};
constexpr Flag kStoreBenchFlags[] = {
    {"--objects", "how many small ones", Takes::text},
    {"--size", "bytes of a small one, as 110K", Takes::text},
    {"--large", "bytes of the large one, as 64M", Takes::text},
    {"--in-flight", "requests at once", Takes::text},
    {"--json", "for programs"},
};
constexpr Command kStoreCommands[] = {
    {"ls", "what is there, with sizes", store_ls_command, Takes::file, kStoreLsFlags},
    {"cp", "copy files, folders and objects", store_cp_command, Takes::file, kStoreCpFlags},
    {"cat", "an object, to stdout", store_cat_command, Takes::file, {}},
    {"rm", "remove objects", store_rm_command, Takes::text, kStoreRmFlags},
    {"mb", "make a bucket", store_mb_command, Takes::text, {}},
    {"bench", "how fast it is", store_bench_command, Takes::folder, kStoreBenchFlags},
};
constexpr Flag kRunCopyFlags[] = {
    {"--create", "make the bucket if it is not there"},
};
constexpr Command kRunCommands[] = {
    {"copy", "copy a run with all its checkpoints", run_copy_command, Takes::run, kRunCopyFlags},
};

constexpr Command kCommands[] = {
    {"train", "train on this machine, or continue a run", train_command, Takes::run_file,
     kTrainFlags},
    {"plan", "what a run will do, before it does it", plan_command, Takes::run_file, kPlanFlags},
    {"eval", "accuracy of a run's weights, on any data", eval_command, Takes::run, kEvalFlags},
    {"predict", "what a run's weights see in pictures", predict_command, Takes::run, kPredictFlags},
    {"launch", "train, or run any program, on other machines", launch_command, Takes::run_file,
     kLaunchFlags},
    {"status", "how a launched run is", status_command, Takes::launched, kStatusFlags},
    {"logs", "what a launched run says", logs_command, Takes::launched, kLogsFlags},
    {"connect", "a shell on a machine of it", connect_command, Takes::launched, {}},
    {"restart", "start what was lost of it", restart_command, Takes::launched, kRestartFlags},
    {"stop", "have it save itself and stop", stop_command, Takes::launched, kStopFlags},
    {"preempt", "the fire drill: a real notice", preempt_command, Takes::launched, kPreemptFlags},
    {"down", "leave nothing of it on its machines", down_command, Takes::launched, kDownFlags},
    {"data",
     "data sets: import, ls, verify, show, bench",
     data_command,
     Takes::nothing,
     {},
     false,
     kDataCommands},
    {"report", "how a run ended and why", report_command, Takes::run, kReportFlags},
    {"ls", "the runs that are here", ls_command, Takes::folder, kLsFlags},
    {"checkpoints", "what a run has saved", checkpoints_command, Takes::run, kCheckpointsFlags},
    {"rm", "remove runs", rm_command, Takes::run, kRmFlags},
    {"run", "runs as a whole: copy", run_command, Takes::nothing, {}, false, kRunCommands},
    {"store",
     "buckets: ls, cp, cat, rm, mb, bench",
     store_command,
     Takes::nothing,
     {},
     false,
     kStoreCommands},
    {"tensorboard", "show runs in TensorBoard", tensorboard_command, Takes::run, kTensorBoardFlags},
    {"recipes", "what can be trained out of the box", recipes_command, Takes::nothing,
     kRecipesFlags},
    {"init", "print a run file to edit", init_command, Takes::recipe, {}},
    {"doctor", "what this machine or a bucket can do, and what is wrong with it", doctor_command,
     Takes::folder, kDoctorFlags},
    {"completion", "print a completion script", completion_command, Takes::shell, {}},
    {"agent", "asked by other terns", agent_command, Takes::text, {}, /*hidden=*/true},
    {"program", "any program as ranks", program_command, Takes::text, {}, /*hidden=*/true},
    {"program-rank", "one of them", program_rank_command, Takes::text, {}, /*hidden=*/true},
    {"docs", "write docs/configuration.md", docs_command, Takes::text, {}, /*hidden=*/true},
};

}  // namespace

std::span<const Command> command_table() { return kCommands; }
std::span<const Command> data_command_table() { return kDataCommands; }
std::span<const Command> store_command_table() { return kStoreCommands; }
std::span<const Command> run_command_table() { return kRunCommands; }

}  // namespace tern
