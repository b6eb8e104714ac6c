// `tern predict`: checks what it can without LibTorch, then becomes tern-train.
#include "cli/command.h"
#include "cli/start_with_weights.h"
#include "train/eval_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern predict: what a run's weights see in pictures, a line a file.

  tern predict DIR FILE... [--top N] [--checkpoint last|best|STEP] [--json]
                           [--set key=value]...
  tern predict RUNFILE FILE... --init WEIGHTS

  DIR                a run's name in runs/, or the folder of a run
  FILE               JPEG and PNG files; of a folder all .jpg, .jpeg and .png
                     files below it
  --top N            the N most likely classes; not given: 5
  --checkpoint ONE   last (if not given), best, or the one of a step
  --json             for programs: an array of objects with file and predictions
                     (label, class and probability), or file and error
  --set key=value    change one of the run's options, such as image.size
  --init WEIGHTS     instead of a run's: the weights of a .safetensors file, or
                     of a .pth that torch.save() made of a state dict, in the
                     model that RUNFILE, a run file or a recipe, describes
  --help             this page

  tern predict demo cat.jpg holiday/

DIR and WEIGHTS may be in a bucket: s3://bucket/name, gs://bucket/name or
az://account/container/name.
A picture is seen as in the run's evaluations: resized, its middle cut out. One
that cannot be read is named on stderr; the others are predicted all the same,
and the exit code at the end is not 0. Ctrl-C leaves nothing behind.
)";

}  // namespace

Result<int> predict_command(const Surroundings& surroundings, const Arguments& arguments) {
  PredictRequest request;
  return weights_command(
      {"tern predict", kHelp, kPredictMode}, surroundings, arguments, request.weights,
      [&request](CLI::App& app) { add_predict_flags(app, request); },
      [&request] { return check_request(request); });
}

}  // namespace tern
