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
}

struct ScheduleOptions {
  std::string shape = "cosine";
  double warmup_epochs = 0.0;
  std::vector<int64_t> drop_epochs;
  double drop_factor = 0.1;
  double final_factor = 0.0;
};

inline void describe(OptionSet& set, ScheduleOptions& options) {
  set.add(
      "shape", &options.shape,
      {.help = "How the learning rate goes over the run: constant, step (drops at given epochs) "
               "or cosine (down to final_factor at the last epoch).",
       .choices = {"constant", "step", "cosine"}});
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
}

struct TrainOptions {
  int64_t seed = 1;
  int64_t batch = 128;
  int64_t epochs = 1;
  int64_t steps = 0;
  Milliseconds time_limit{0};
  double label_smoothing = 0.0;
  int64_t evaluate_every = 1;
  int64_t evaluate_batch = 500;
  int64_t threads = 0;
  std::string device = "auto";
  bool deterministic = true;
  bool portable = false;
  std::string on_other_bits = "go_on";
  double price = 0.0;
};

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

}  // namespace tern
