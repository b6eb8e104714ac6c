// What is trained and how, as plain structs. No LibTorch here: `tern` reads run files without it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/options.h"

namespace tern {

struct OptimizerOptions {
  double learning_rate = 0.05;
  double momentum = 0.9;
  bool nesterov = false;
  double weight_decay = 0.0;
  std::string weight_decay_on = "all";
  double clip_norm = 0.0;
};

inline void describe(OptionSet& set, OptimizerOptions& options) {
  set.add("learning_rate", &options.learning_rate,
          {.help = "Size of a step at the schedule's full height.",
           .min = 0,
           .max = 1000,
           .above_min = true});
  set.add("momentum", &options.momentum,
          {.help = "How much of the previous direction is kept; 0 is plain SGD.",
           .min = 0,
           .max = 0.9999});
  set.add("nesterov", &options.nesterov,
          {.help = "Look ahead along the momentum before stepping."});
  set.add("weight_decay", &options.weight_decay,
          {.help = "Pull of every weight towards zero.", .min = 0, .max = 1});
  set.add("weight_decay_on", &options.weight_decay_on,
          {.help = "What is pulled: all parameters, or weights alone, which leaves out biases and "
                   "what batch norm learns.",
           .choices = {"all", "weights"}});
  set.add("clip_norm", &options.clip_norm,
          {.help = "Shrink the gradient of a step to this length (over all parameters together) "
                   "where it is longer; 0 leaves it as it is.",
           .min = 0,
           .max = 1e9});
}

struct ScheduleOptions {
  std::string shape = "cosine";
  double warmup_epochs = 0.0;
  std::vector<int64_t> drop_epochs;
  double drop_factor = 0.1;
  double final_factor = 0.0;
  int64_t reference_batch = 0;
};

inline void describe(OptionSet& set, ScheduleOptions& options) {
  set.add(
      "shape", &options.shape,
      {.help = "How the learning rate goes over the run: constant, step (drops at given epochs), "
               "cosine (down to final_factor at the last epoch), inverse-sqrt (as one by the root "
               "of the steps, full at the end of the warm-up) or pieces (what [[lr_phase]] says).",
       .choices = {"constant", "step", "cosine", "inverse-sqrt", "pieces"}});
  set.add("warmup_epochs", &options.warmup_epochs,
          {.help = "Epochs, or parts of one, over which the rate first rises linearly from near 0.",
           .min = 0,
           .max = 10'000});
  set.add(
      "drop_epochs", &options.drop_epochs,
      {.help = "step: epochs at whose beginning the rate is multiplied by drop_factor.", .min = 0});
  set.add("drop_factor", &options.drop_factor,
          {.help = "step: what the rate is multiplied by at each drop.", .min = 0, .max = 1});
  set.add("final_factor", &options.final_factor,
          {.help = "cosine: the rate at the end, as a part of learning_rate.", .min = 0, .max = 1});
  set.add("reference_batch", &options.reference_batch,
          {.help = "The batch that learning_rate is meant for: with another one the rate is scaled "
                   "in proportion, phase by phase; 0 does not scale it.",
           .min = 0,
           .max = 1'048'576});
}

// A stretch of epochs with its own data: image size, batch, folder. What is left out is as the
// rest of the run file says. Stretches follow each other without a gap, from epoch 0 to the end.
struct DataPhaseOptions {
  std::vector<int64_t> epochs;
  int64_t image_size = 0;
  int64_t batch = 0;
  std::string path;
  double min_scale = 0.0;
  std::string rectangular;
};

inline void describe(OptionSet& set, DataPhaseOptions& options) {
  set.add("epochs", &options.epochs,
          {.help = "The first epoch of the phase, and the first after it: [0, 14].", .min = 0});
  set.add("image_size", &options.image_size,
          {.help = "Side of the images, in pixels; 0 is image.size.", .min = 0, .max = 4096});
  set.add("batch", &options.batch,
          {.help = "Samples per step, over all ranks together; 0 is train.batch.",
           .min = 0,
           .max = 1'048'576});
  set.add("path", &options.path,
          {.help = "The data set's folder, for example one of smaller copies that `tern data "
                   "import --pack short:160:q90` made; empty is data.path.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("min_scale", &options.min_scale,
          {.help = "The smallest random crop, as a share of the image's area; 0 is "
                   "image.min_scale.",
           .min = 0,
           .max = 1});
  set.add("rectangular", &options.rectangular,
          {.help = "Evaluate at each image's own aspect ratio: yes or no; empty is "
                   "image.rectangular.",
           .choices = {"", "yes", "no"}});
}

// A stretch of the learning rate, with schedule.shape = "pieces".
struct LrPhaseOptions {
  std::vector<double> epochs;
  std::vector<double> rate;
  std::string by = "step";
};

inline void describe(OptionSet& set, LrPhaseOptions& options) {
  set.add("epochs", &options.epochs,
          {.help = "Where the piece begins and ends, in epochs: [0, 5]. Parts of one are allowed.",
           .min = 0});
  set.add("rate", &options.rate,
          {.help = "The rate as a multiple of optimizer.learning_rate: one value, or where a "
                   "straight line begins and ends: [1.0, 2.0].",
           .min = 0,
           .max = 1e6});
  set.add("by", &options.by,
          {.help = "When the rate moves along the line: at every step, or once an epoch.",
           .choices = {"step", "epoch"}});
}

struct TrainOptions {
  int64_t seed = 1;
  int64_t batch = 128;
  int64_t epochs = 1;
  int64_t steps = 0;
  Milliseconds time_limit{0};
  double label_smoothing = 0.0;
  std::string precision = "fp32";
  int64_t accumulate = 1;
  double ema = 0.0;
  int64_t epoch_steps = 0;
  int64_t early_stop = 0;
  double target_top1 = 0.0;
  double target_top5 = 0.0;
  bool stop_at_target = false;
  std::string on_divergence = "stop";
  double explosion = 0.0;
  int64_t evaluate_every = 1;
  int64_t evaluate_batch = 500;
  int64_t threads = 0;
  std::string device = "auto";
  bool deterministic = true;
  bool portable = false;
  std::string on_other_bits = "go_on";
  double price = 0.0;
};

// How a step is computed.
inline void describe_arithmetic(OptionSet& set, TrainOptions& options) {
  set.add("precision", &options.precision,
          {.help = "What is computed in: fp32; bf16 or fp16 (mixed: weights, batch norm and loss "
                   "stay fp32); mixed (bf16, or fp16 on a GPU that has no bf16); fp64 (to compare "
                   "with).",
           .choices = {"fp32", "mixed", "bf16", "fp16", "fp64"}});
  set.add("accumulate", &options.accumulate,
          {.help = "Compute a batch in this many pieces, one after the other: less memory, the "
                   "same step but for batch norm, which sees a piece at a time.",
           .min = 1,
           .max = 65'536});
  set.add("ema", &options.ema,
          {.help = "Keep a moving average of the weights, this much of the old at every step, and "
                   "evaluate and export that; 0 keeps none.",
           .min = 0,
           .max = 0.999999});
}

// When the run, or an epoch of it, ends, and what a bad end does.
inline void describe_ends(OptionSet& set, TrainOptions& options) {
  set.add("epoch_steps", &options.epoch_steps,
          {.help = "End every epoch after this many steps, for trying something out; 0 takes all "
                   "samples.",
           .min = 0});
  set.add("early_stop", &options.early_stop,
          {.help = "End the run after this many epochs in a row whose evaluation was no better "
                   "than the best; 0 never does.",
           .min = 0,
           .on_resume = OnResume::may_change});
  set.add("target_top1", &options.target_top1,
          {.help = "Accuracy from 0 to 1 whose time and cost are recorded when it is reached; 0 is "
                   "none.",
           .min = 0,
           .max = 1,
           .on_resume = OnResume::may_change});
  set.add("target_top5", &options.target_top5,
          {.help = "Likewise for the share of samples whose class is among the first five.",
           .min = 0,
           .max = 1,
           .on_resume = OnResume::may_change});
  set.add("stop_at_target", &options.stop_at_target,
          {.help = "End the run when the targets are reached.", .on_resume = OnResume::may_change});
  set.add("on_divergence", &options.on_divergence,
          {.help = "When the loss is no number any more, or explodes: stop, or roll_back to the "
                   "last checkpoint and go on with half the learning rate, at most three times.",
           .choices = {"stop", "roll_back"},
           .on_resume = OnResume::may_change});
  set.add("explosion", &options.explosion,
          {.help = "A loss this many times its own recent mean counts as divergence; 0 looks only "
                   "for NaN and infinity.",
           .min = 0,
           .max = 1e9,
           .on_resume = OnResume::may_change});
}

inline void describe(OptionSet& set, TrainOptions& options) {
  set.add(
      "seed", &options.seed,
      {.help = "Everything random follows from it: first weights, order, augmentation, dropout.",
       .min = 0});
  set.add("batch", &options.batch,
          {.help = "Samples per step, over all ranks together.", .min = 1, .max = 1'048'576});
  set.add("epochs", &options.epochs,
          {.help = "Times each sample is seen. The schedule's length follows it.",
           .min = 1,
           .max = 1'000'000,
           .on_resume = OnResume::may_change});
  set.add("steps", &options.steps,
          {.help = "Stop after this many steps instead, and change nothing else; 0 is no limit. "
                   "--steps N is short for it.",
           .min = 0,
           .on_resume = OnResume::may_change});
  set.add("time_limit", &options.time_limit,
          {.help = "Stop, with a checkpoint, after this much training time over all processes of "
                   "the run; 0 is no limit.",
           .min = 0,
           .on_resume = OnResume::may_change});
  set.add("label_smoothing", &options.label_smoothing,
          {.help = "Share of the target spread over all classes.", .min = 0, .max = 0.9});
  describe_arithmetic(set, options);
  describe_ends(set, options);
  set.add("evaluate_every", &options.evaluate_every,
          {.help = "Epochs between evaluations on the test data; the last epoch always has one. 0 "
                   "turns all of them off.",
           .min = 0,
           .on_resume = OnResume::may_change});
  set.add("evaluate_batch", &options.evaluate_batch,
          {.help = "Samples per batch of an evaluation.",
           .min = 1,
           .max = 1'048'576,
           .on_resume = OnResume::may_change});
  set.add("threads", &options.threads,
          {.help = "CPU threads that compute; 0 takes one per core. Part of the arithmetic: it is "
                   "fixed when the run begins, and a resume keeps it whatever the machine has.",
           .min = 0,
           .max = 1024});
  set.add("device", &options.device,
          {.help = "What computes: auto takes the NVIDIA GPU where there is one, else the CPU. A "
                   "run may go on elsewhere; then its bits differ from an uninterrupted one's.",
           .choices = {"auto", "cpu", "cuda"},
           .on_resume = OnResume::may_change});
  set.add("deterministic", &options.deterministic,
          {.help = "On a GPU: only kernels that give the same bits every time, so that a resume "
                   "is exact; false allows faster ones. A CPU is always exact.",
           .on_resume = OnResume::may_change});
  set.add(
      "portable", &options.portable,
      {.help = "On a CPU: compute with AVX2 alone, whatever more this CPU has, so that the "
               "same run gives the same bits on other CPUs too. Slower where there is AVX-512."});
  set.add("on_other_bits", &options.on_other_bits,
          {.help = "When a run goes on on a machine whose arithmetic gives other bits (another "
                   "instruction set, a GPU instead of a CPU): go_on, with a warning, or stop.",
           .choices = {"go_on", "stop"},
           .on_resume = OnResume::may_change});
  set.add("price", &options.price,
          {.help = "Price of this machine in dollars per hour, for the record; 0 if not known.",
           .min = 0,
           .max = 100'000,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
}

// What `tern launch` does on a machine before the run begins there.
struct LaunchOptions {
  std::vector<std::string> setup;
  std::vector<std::string> slurm;
};

inline void describe(OptionSet& set, LaunchOptions& options) {
  set.add("setup", &options.setup,
          {.help = "Commands that `tern launch` runs on each machine before the run begins there, "
                   "each by `sh -c` in the home folder, in order: to install what the run needs, "
                   "or to mount a file system. They run once on a machine, and again when one of "
                   "them is changed or has failed.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("slurm", &options.slurm,
          {.help = "Options of sbatch for `tern launch --on slurm`, each one word, as "
                   "--partition=gpu, --gres=gpu:1, --time=4:00:00.",
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
}

}  // namespace tern
