#include "train/plan_mode.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>

#include "core/stdio.h"
#include "cuda/gpu.h"
#include "preempt/signal_watcher.h"
#include "report/price.h"
#include "train/device.h"
#include "train/exit_codes.h"
#include "train/plan_facts.h"
#include "train/plan_flags.h"
#include "train/probe.h"

namespace tern {
namespace {

Result<RunConfig> read_config(const PlanMode& mode, const PlanRequest& request) {
  std::vector<Problem> problems;
  Result<RunConfig> config = load_run_config(request.run, mode.recipes, problems);
  for (const Problem& problem : problems) write_stderr(problem.to_string() + "\n");
  if (config.has_value()) config->data.open_store = mode.open_store;
  return config;
}

// Without a probe CUDA is not loaded: the driver's word is enough to know what `auto` would take.
bool would_take_gpu(const PlanMode& mode, const RunConfig& config) {
  if (config.train.device != "auto") return config.train.device == "cuda";
  if (mode.gpus_are_hidden) return false;
  const auto driver = GpuDriver::open();
  if (!driver.has_value()) return false;
  const auto gpus = (*driver)->gpus();
  return gpus.has_value() && !gpus->empty();
}

// "en_US.UTF-8", "C.utf8"
bool is_utf8(std::string locale) {
  std::ranges::transform(locale, locale.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

Result<int64_t> price_of(const PlanRequest& request, const RunConfig& config) {
  if (!request.price.empty()) return parse_price(request.price);
  return config.train.price > 0 ? std::llround(config.train.price * 1e6) : int64_t{-1};
}

Status measure(const PlanMode& mode, const RunConfig& config, const std::string& device,
               PlanFacts& facts) {
  return probe_plan({.config = config_here(config, mode.cores),
                     .device = device,
                     .kernels = mode.kernels,
                     .memory_available_bytes = available_memory_bytes(),
                     .clock = mode.clock,
                     .log = mode.log},
                    facts);
}

void say(const RunPlan& plan, const PlanRequest& request, const PlanMode& mode) try {
  if (request.json) {
    fmt::print("{}\n", run_plan_json(plan).dump(2));
    return;
  }
  const bool can_draw = isatty(STDOUT_FILENO) != 0 && is_utf8(mode.locale);
  fmt::print("{}", format_run_plan(plan, can_draw ? Glyphs::utf8 : Glyphs::ascii));
} catch (const std::system_error&) {
  // Nobody reads any more (`| head`).
}

}  // namespace

Result<int> plan_mode(const PlanMode& mode, const std::vector<std::string>& arguments) {
  ASSIGN_OR_RETURN(const PlanRequest request, parse_plan_flags(arguments));
  NoticeBoard board;
  const std::stop_callback leave(board.stop_token(), [&board] {
    const bool is_preempt = board.notice()->kind == NoticeKind::preempt;
    write_stderr("\ntern: stopped; a plan leaves nothing behind\n");
    _exit(is_preempt ? kExitPreempted : kExitStopped);
  });
  ASSIGN_OR_RETURN(const std::unique_ptr<SignalWatcher> signals,
                   SignalWatcher::start(board, *mode.clock, [] { _exit(kExitInterruptedTwice); }));
  ASSIGN_OR_RETURN(const RunConfig config, read_config(mode, request));
  PlanPlace place{.cores = mode.cores, .kernels = mode.kernels};
  std::string device;
  if (request.probe) {
    ASSIGN_OR_RETURN(device, choose_device({.wanted = config.train.device,
                                            .kernels = mode.kernels,
                                            .gpus_are_hidden = mode.gpus_are_hidden},
                                           *mode.log));
    place.has_gpu = device != kCpu;
  } else {
    place.has_gpu = would_take_gpu(mode, config);
  }
  ASSIGN_OR_RETURN(PlanFacts facts, find_plan_facts(config, place));
  ASSIGN_OR_RETURN(facts.plan.price_microusd_per_hour, price_of(request, config));
  if (request.probe) RETURN_IF_ERROR(measure(mode, config, device, facts));
  say(facts.plan, request, mode);
  return kExitDone;
}

}  // namespace tern
