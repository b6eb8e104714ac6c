// Options for tests of OptionSet. Their own names keep them apart from the real structs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/options.h"

namespace tern {

struct TestWarmupOptions {
  int64_t steps = 100;
};
inline void describe(OptionSet& set, TestWarmupOptions& options) {
  set.add("steps", &options.steps, {.help = "Steps of warm-up.", .min = 0});
}

struct TestOptimizerOptions {
  std::string kind = "sgd";
  double learning_rate = 0.1;
  double momentum = 0.9;
  bool nesterov = false;
  std::vector<double> factors = {0.1, 1.0};
  std::vector<int64_t> milestones;
  TestWarmupOptions warmup;
};
inline void describe(OptionSet& set, TestOptimizerOptions& options) {
  set.add("kind", &options.kind, {.help = "Which one.", .choices = {"sgd", "adamw", "a|b"}});
  set.add("learning_rate", &options.learning_rate,
          {.help = "Step size.", .min = 0, .max = 10, .above_min = true});
  set.section("warmup", "How it begins.", options.warmup);
  set.add("momentum", &options.momentum, {.help = "Of SGD."});
  set.add("nesterov", &options.nesterov, {.help = "Look ahead."});
  set.add("factors", &options.factors, {.help = "One a milestone.", .min = 0});
  set.add("milestones", &options.milestones, {.help = "Epochs at which it drops.", .min = 1});
}

struct TestLoaderOptions {
  int64_t threads = 2;
  std::string path = "data";
  Milliseconds patience{30'000};
};
inline void describe(OptionSet& set, TestLoaderOptions& options) {
  set.add("threads", &options.threads,
          {.help = "Threads that read; 0 does it inside the step loop and costs the most time of "
                   "all, because nothing overlaps with the arithmetic of the step.",
           .min = 0,
           .max = 256,
           .on_resume = OnResume::may_change,
           .across_ranks = AcrossRanks::may_differ});
  set.add("path", &options.path, {.help = "Where a|b is."});
  set.add("patience", &options.patience,
          {.help = "Wait this long.", .min = 1, .max = 3600, .on_resume = OnResume::may_change});
}

// The structs and the set over them: every type of option, two sections and one inside another.
struct TestOptions {
  TestOptimizerOptions optimizer;
  TestLoaderOptions loader;
  int64_t seed = 1;
  OptionSet set;

  TestOptions() {
    set.add("seed", &seed, {.help = "Of everything random."});
    set.section("optimizer", "How weights move.", optimizer);
    set.section("loader", "How batches are made.", loader);
  }
  TestOptions(const TestOptions&) = delete;
  TestOptions& operator=(const TestOptions&) = delete;

  std::vector<std::string> load(std::string_view text) {
    std::vector<std::string> lines;
    for (const Problem& problem : set.load_toml(text, "run.toml")) {
      lines.push_back(problem.to_string());
    }
    return lines;
  }
  // The message about one --set, or "" if it was taken.
  std::string assign(std::string_view assignment) {
    const std::optional<Problem> problem = set.set(assignment);
    return problem ? problem->to_string() : "";
  }
};

}  // namespace tern
