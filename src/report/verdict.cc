#include "report/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace tern {

namespace {

// Below two seconds a run is mostly the loading of libraries.
constexpr double kLeastSeconds = 2.0;
// What the spans must tell of the wall time before anything is said about all of it.
constexpr double kLeastTold = 0.5;
// A loss of a fifth bounds the run: without it the run would be 1.25 times as fast. While the step
// waits for data that long, the loader is what sets the pace, even if compute takes longer.
constexpr double kBounds = 0.20;
// Smaller ones are not worth a word.
constexpr double kWorthAWord = 0.05;
constexpr double kMostlyCompute = 0.50;
// A GPU that has run out of work before half of its steps waits for its host, whatever its own
// events say: they count the gaps between launches as compute.
constexpr double kMostlyDry = 0.50;

// Time that is not arithmetic on the training data.
enum class Loss {
  data,
  copy,
  communication,
  straggling,
  regroup,
  checkpoint,
  evaluation,
  start,
  other
};

struct LossShare {
  Loss loss = Loss::other;
  double share = 0;  // of the wall time
};

std::string_view loss_name(Loss loss) {
  switch (loss) {
    case Loss::data: return "the wait for data";
    case Loss::copy: return "copying batches";
    case Loss::communication: return "the exchange of gradients";
    case Loss::straggling: return "the wait for the slowest rank";
    case Loss::regroup: return "forming groups anew";
    case Loss::checkpoint: return "saving checkpoints";
    case Loss::evaluation: return "evaluation";
    case Loss::start: return "starting";
    case Loss::other: return "everything else";
  }
  return "unknown";
}

std::string percent(double share) {
  const double value = share * 100.0;
  return value < 9.95 ? fmt::format("{:.1f} %", value) : fmt::format("{:.0f} %", value);
}

// "1.25 times as fast": by how much the run gains if `share` of its time goes.
std::string gain(double share) {
  const double left = 1.0 - share;
  if (left < 0.01) return "more than 100 times as fast";
  const double factor = 1.0 / left;
  const int decimals = factor < 1.995 ? 2 : (factor < 9.95 ? 1 : 0);
  return fmt::format("{:.{}f} times as fast", factor, decimals);
}

// A leader's records of its own alone cannot tell a slow network from a slow rank: then a rank that
// is far behind the others explains what they waited.
RankWaits waits_of(const TimeUse& use, double wall) {
  if (use.waits) return *use.waits;
  const double waited = use.seconds[Span::communication];
  const double straggling = use.slowest_rank.empty() ? 0 : use.slowest_seconds;
  if (straggling < kBounds * wall) return {.network_seconds = waited};
  return {.network_seconds = std::max(0.0, waited - straggling), .straggling_seconds = straggling};
}

LossShare largest_loss(const TimeUse& use, double wall) {
  const SpanSeconds& seconds = use.seconds;
  const RankWaits waits = waits_of(use, wall);
  const std::array<LossShare, 9> losses = {
      LossShare{Loss::data, seconds.data_wait() / wall},
      LossShare{Loss::copy, seconds[Span::copy] / wall},
      LossShare{Loss::communication, waits.network_seconds / wall},
      LossShare{Loss::straggling, waits.straggling_seconds / wall},
      LossShare{Loss::regroup, waits.regroup_seconds / wall},
      LossShare{Loss::checkpoint, seconds[Span::checkpoint] / wall},
      LossShare{Loss::evaluation, seconds[Span::evaluation] / wall},
      LossShare{Loss::start, seconds[Span::start] / wall},
      LossShare{Loss::other, seconds[Span::other] / wall}};
  return *std::max_element(losses.begin(), losses.end(),
                           [](const auto& a, const auto& b) { return a.share < b.share; });
}

std::string loader_advice(const TimeUse& use, Span stage) {
  if (stage == Span::fetch) {
    const std::string threads = use.loader_threads < 0
                                    ? "more loader.threads"
                                    : fmt::format("loader.threads above {}", use.loader_threads);
    return fmt::format("try {}, or data on a faster disk (from a bucket: data.stage)", threads);
  }
  if (use.loader_threads < 0) return "try more loader.threads";
  // Fetching is waiting, so more threads than cores help there; the other stages compute.
  if (use.cores > 0 && use.loader_threads >= use.cores) {
    return fmt::format("loader.threads ({}) has every core already: try a machine with more",
                       use.loader_threads);
  }
  return fmt::format("try loader.threads above {}", use.loader_threads);
}

std::string data_bound(const TimeUse& use, double share) {
  constexpr std::array<Span, 4> kStages = {Span::fetch, Span::decode, Span::augment, Span::queue};
  const Span stage = *std::max_element(kStages.begin(), kStages.end(), [&](Span a, Span b) {
    return use.seconds[a] < use.seconds[b];
  });
  std::string_view doing = "for a batch that no loader thread had come to";
  if (stage == Span::fetch) doing = "while it was fetched";
  if (stage == Span::decode) doing = "while it was decoded";
  if (stage == Span::augment) doing = "while it was augmented";
  return fmt::format(
      "data-bound: {} of the time the step waited for data, mostly {}; without the wait the run "
      "would be {}; {}",
      percent(share), doing, gain(share), loader_advice(use, stage));
}

std::string start_bound(const TimeUse& use, double share) {
  if (use.processes > 1) {
    return fmt::format(
        "start-bound: {} of the time went to {} processes before their first steps; without that "
        "the run would be {}; machines that last longer would help",
        percent(share), use.processes, gain(share));
  }
  return fmt::format(
      "start-bound: {} of the time went before the first step; without that the run would be {}, "
      "and a longer run hides it",
      percent(share), gain(share));
}

std::string other_bound(const TimeUse& use, double share) {
  if (use.is_on_gpu) {
    return fmt::format(
        "launch-bound: {} of the time the GPU waited for the host, which cannot launch work fast "
        "enough; without the wait the run would be {}; try a larger train.batch",
        percent(share), gain(share));
  }
  return fmt::format(
      "held up: {} of the time went to records, the lease and the rest; without that the run would "
      "be {}; try a faster disk or bucket for the run",
      percent(share), gain(share));
}

// A rank that is always last costs all of them its lead, whether it is seen as their wait for it or
// as its own work.
std::string straggler_bound(const TimeUse& use, double share, double wall) {
  const bool is_one = !use.slowest_rank.empty() && 2 * use.slowest_seconds >= share * wall;
  if (!is_one) {
    return fmt::format(
        "straggler-bound: {} of the time ranks waited for the one that came last, each time "
        "another; without that the run would be {}; look at what else runs on their machines",
        percent(share), gain(share));
  }
  return fmt::format(
      "straggler-bound: {} takes {:.1f} times as long for a step as the others, which wait for it "
      "{} of the time; without that the run would be {}; look at what else runs there, or leave it "
      "out",
      use.slowest_rank, use.slowest_ratio, percent(share), gain(share));
}

std::string bound_by(const TimeUse& use, const LossShare& loss, double wall) {
  const double share = loss.share;
  switch (loss.loss) {
    case Loss::data: return data_bound(use, share);
    case Loss::start: return start_bound(use, share);
    case Loss::straggling: return straggler_bound(use, share, wall);
    case Loss::regroup:
      return fmt::format(
          "regroup-bound: {} of the time there was no group, because ranks were lost or came; "
          "without that the run would be {}; machines that last longer would help",
          percent(share), gain(share));
    case Loss::other: return other_bound(use, share);
    case Loss::copy:
      return fmt::format(
          "copy-bound: {} of the time batches were copied to where they are computed on; without "
          "that the run would be {}",
          percent(share), gain(share));
    case Loss::communication:
      return fmt::format(
          "network-bound: {} of the time gradients were waited for; without that the run would be "
          "{}; try a larger train.batch, fewer ranks, or a faster network between them",
          percent(share), gain(share));
    case Loss::checkpoint:
      return fmt::format(
          "checkpoint-bound: {} of the time went to saving; without it the run would be {}; try a "
          "longer checkpoint.every, or a faster disk or bucket for the run",
          percent(share), gain(share));
    case Loss::evaluation:
      return fmt::format(
          "evaluation-bound: {} of the time went to accuracy on the test data; without it the run "
          "would be {}; try a larger train.evaluate_every",
          percent(share), gain(share));
  }
  return "";
}

std::string next_largest(const LossShare& loss) {
  return fmt::format("{} took {}: without that the run would be {}", loss_name(loss.loss),
                     percent(loss.share), gain(loss.share));
}

}  // namespace

std::string verdict(const TimeUse& use) {
  const double told = use.seconds.total();
  const double wall = std::max(use.wall_seconds, told);
  if (use.steps <= 0) return "too little to tell: no step was done";
  if (told <= 0) return "too little to tell: the records do not say where the time went";
  if (told < kLeastTold * wall) {
    return fmt::format("too little to tell: the records say where {} of the time went",
                       percent(told / wall));
  }
  if (wall < kLeastSeconds) {
    return fmt::format("too little to tell: the run took {:.1f} s; try one of a minute", wall);
  }
  const LossShare loss = largest_loss(use, wall);
  if (loss.share >= kBounds) return bound_by(use, loss, wall);

  const double waited = use.seconds.data_wait() / wall;
  // A host that waits for data lets the GPU run dry as well: then that is what is told.
  if (use.is_on_gpu && use.dry_share >= kMostlyDry && waited < kWorthAWord) {
    std::string text = fmt::format(
        "launch-bound: before {} of its steps the GPU had nothing left to do, since the host "
        "cannot "
        "launch work as fast as that is done; try a larger train.batch or network",
        percent(use.dry_share));
    if (loss.share >= kWorthAWord) text += "; " + next_largest(loss);
    return text;
  }
  const double compute = use.seconds[Span::compute] / wall;
  if (compute < kMostlyCompute) {
    return fmt::format("bound by nothing alone: {} of the time is arithmetic; {}", percent(compute),
                       next_largest(loss));
  }
  std::string text = fmt::format("compute-bound: {} of the time is arithmetic", percent(compute));
  if (waited < kWorthAWord) {
    text += fmt::format("; the data was ready in time (wait {})", percent(waited));
  }
  if (loss.share >= kWorthAWord) text += "; " + next_largest(loss);
  return text;
}

}  // namespace tern
