// `tern eval`: checks what it can without LibTorch, then becomes tern-train.
#include "cli/command.h"
#include "cli/start_with_weights.h"
#include "train/eval_flags.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern eval: the accuracy of a run's weights, on its test data or on other data.

  tern eval DIR [--data PATH] [--split test|train] [--checkpoint last|best|STEP]
                [--batch N] [--per-class] [--json] [--set key=value]...
  tern eval FILE --init WEIGHTS ...

  DIR                a run's name in runs/, or the folder of a run; it may be
                     training. It is only read
  --data PATH        another data set with the same classes in the same order:
                     one that `tern data import` made, or in the run's format
  --split WHICH      which half of it: test (if not given) or train
  --checkpoint ONE   last (if not given), best, or the one of a step; `tern
                     checkpoints DIR` lists them
  --batch N          samples at once; not given: the run's train.evaluate_batch
  --per-class        the accuracy of every class, too
  --json             for programs: top1, top5, loss, samples, bad_samples, data,
                     data_id, split, weights, checkpoint, step, and classes: an
                     array of objects with label, name, samples and top1
  --set key=value    change one of the run's options, such as
                     data.on_bad_sample=skip or train.device=cpu
  --init WEIGHTS     instead of a run's: the weights of a .safetensors file, or
                     of a .pth that torch.save() made of a state dict, in the
                     model that FILE, a run file or a recipe, describes
  --help             this page

  tern eval demo --data photos --json
  tern eval imagenet-resnet50 --init resnet50.pth --data /data/imagenet

DIR, PATH and WEIGHTS may be in a bucket: s3://bucket/name, gs://bucket/name or
az://account/container/name. Images are seen as in the run's own evaluations.
Ctrl-C leaves nothing behind.
)";

}  // namespace

Result<int> eval_command(const Surroundings& surroundings, const Arguments& arguments) {
  EvalRequest request;
  return weights_command(
      {"tern eval", kHelp, kEvalMode}, surroundings, arguments, request.weights,
      [&request](CLI::App& app) { add_eval_flags(app, request); },
      [&request] { return check_request(request); });
}

}  // namespace tern
