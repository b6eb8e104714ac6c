// What do the spans cost? Each step of a run looks at the clock a few times and writes where its
// time went. This compares the cost of exactly that with the time of a step, for the recipe with
// the shortest step we ship (the worst case) and for the one that people begin with.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "core/clock.h"
#include "core/random.h"
#include "core/stdio.h"
#include "report/spans.h"
#include "train/learner.h"
#include "train/run_config.h"
#include "train/run_records.h"

namespace tern {
namespace {

constexpr char kHelp[] =
    R"(spans_overhead: what the spans of a run cost, as a part of a step's time.

  spans_overhead [--help]

  step    median time of a step by the trainer's own learner, on synthetic batches
  spans   what the spans of one step cost, by repeating only that 100,000 times
  ratio   spans / step: this decides
  A/B     steps with and without it in alternating blocks: median of the
          differences, and in brackets the middle half of them

Takes about half a minute. Exits with 1 if a ratio is above 1 %, else 0; with 2
if it cannot run.
)";

constexpr double kRatioMax = 0.01;
constexpr int kRepeats = 100'000;
constexpr int kWarmUpSteps = 20;
// Long enough for the clock, short enough that both blocks of a pair see the same machine.
constexpr double kBlockSeconds = 0.05;
constexpr int kPairs = 100;

// What trainer.cc does for the spans of one step, and two switches more: a save has them.
SpanTimes meter_one_step(SpanMeter& meter) {
  meter.enter(Span::queue);
  meter.enter(Span::copy);
  for (const Span stage : {Span::fetch, Span::decode, Span::augment}) {
    meter.reassign(Span::queue, stage, Nanoseconds(10));
  }
  meter.enter(Span::compute);
  meter.enter(Span::checkpoint);
  meter.enter(Span::compute);
  meter.enter(Span::other);
  return meter.take();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

double seconds_of_spans(Clock& clock) {
  SpanMeter meter(clock, Nanoseconds(0));
  // Without a step between the switches every span would round to 0 and be left out of the text; in
  // a run up to seven are not.
  SpanTimes real;
  for (const Span span : {Span::fetch, Span::decode, Span::augment, Span::queue, Span::copy,
                          Span::compute, Span::other}) {
    real[span] = std::chrono::microseconds(1234);
  }
  size_t written = 0;  // looked at below, so that no compiler can leave the work out
  std::vector<double> rounds;
  // In rounds, of which the median counts: an interruption of this process is no cost of spans.
  for (int round = 0; round < 10; ++round) {
    const Nanoseconds began = clock.now();
    for (int i = 0; i < kRepeats / 10; ++i) {
      SpanTimes told = meter_one_step(meter);
      written += spans_json(told += real).size();
    }
    rounds.push_back(to_seconds(clock.now() - began) / (kRepeats / 10));
  }
  TERN_CHECK(written > 0);
  return median(rounds);
}

// A recipe's learner and a batch of noise for it.
class Bench {
 public:
  static Result<std::unique_ptr<Bench>> create(const std::string& recipe, int64_t threads,
                                               Clock& clock) {
    std::vector<Problem> problems;
    const std::string file = fmt::format("{}/recipes/{}.toml", TERN_SOURCE_DIR, recipe);
    ASSIGN_OR_RETURN(const RunConfig config, load_run_config({.file = file}, {}, problems));
    const bool is_idx = config.data.format == "idx";
    std::unique_ptr<Bench> bench(new Bench(clock, config));
    Batch& batch = bench->batch_;
    batch.shape = is_idx ? ImageShape{1, 28, 28} : ImageShape{3, 32, 32};
    batch.positions = {0, config.train.batch};
    Random random(1, Stream::augment, 0);
    for (int64_t i = 0; i < config.train.batch; ++i) batch.labels.push_back(i % 10);
    batch.images.resize(static_cast<size_t>(config.train.batch * batch.shape.bytes()));
    for (uint8_t& pixel : batch.images) pixel = static_cast<uint8_t>(random.below(256));
    ASSIGN_OR_RETURN(bench->learner_, Learner::create({.model = config.model,
                                                       .optimizer = config.optimizer,
                                                       .seed = 1,
                                                       .shape = batch.shape,
                                                       .classes = config.data.classes,
                                                       .threads = threads}));
    return bench;
  }

  int64_t batch() const { return config_.train.batch; }

  enum class Spans { with, without };

  // Mean time of a step over a block of them.
  Result<double> seconds_of_block(int64_t steps, Spans spans) {
    const Nanoseconds began = clock_.now();
    for (int64_t i = 0; i < steps; ++i) {
      RETURN_IF_ERROR(learner_->put(batch_));
      RETURN_IF_ERROR(learner_->step(step_++, kRate));
      if (spans == Spans::with) written_ += spans_json(meter_one_step(meter_)).size();
    }
    return to_seconds(clock_.now() - began) / static_cast<double>(steps);
  }

 private:
  // So small that noise is never learned to the last digit, nor diverges.
  static constexpr double kRate = 1e-4;

  Bench(Clock& clock, RunConfig config)
      : clock_(clock), config_(std::move(config)), meter_(clock, Nanoseconds(0)) {}

  Clock& clock_;
  const RunConfig config_;
  SpanMeter meter_;
  Batch batch_;
  std::unique_ptr<Learner> learner_;
  int64_t step_ = 0;
  size_t written_ = 0;
};

struct Measured {
  double step_seconds = 0;
  std::vector<double> differences;  // of pairs of blocks: with minus without
};

Result<Measured> measure(Bench& bench) {
  RETURN_IF_ERROR(bench.seconds_of_block(kWarmUpSteps, Bench::Spans::without));
  ASSIGN_OR_RETURN(const double rough, bench.seconds_of_block(10, Bench::Spans::without));
  const auto steps = std::max<int64_t>(1, static_cast<int64_t>(kBlockSeconds / rough));
  Measured measured;
  std::vector<double> plain;
  for (int pair = 0; pair < kPairs; ++pair) {
    // Each is first as often as the other, so that a machine that slows down favours neither.
    const bool with_first = pair % 2 == 0;
    ASSIGN_OR_RETURN(
        const double first,
        bench.seconds_of_block(steps, with_first ? Bench::Spans::with : Bench::Spans::without));
    ASSIGN_OR_RETURN(
        const double second,
        bench.seconds_of_block(steps, with_first ? Bench::Spans::without : Bench::Spans::with));
    plain.push_back(with_first ? second : first);
    measured.differences.push_back(with_first ? first - second : second - first);
  }
  measured.step_seconds = median(plain);
  return measured;
}

Result<int> run() {
  SystemClock clock;
  const int64_t threads = std::max(1u, std::thread::hardware_concurrency());
  const double spans = seconds_of_spans(clock);
  fmt::print("threads: {}, instruction set: {}\n\n", threads, instruction_set());
  fmt::print("{:<18}{:>6}{:>12}{:>12}{:>9}   {}\n", "recipe", "batch", "step", "spans", "ratio",
             "A/B (middle half)");
  bool is_cheap = true;
  for (const char* recipe : {"cifar10-tutorial", "fashion-mnist"}) {
    ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench, Bench::create(recipe, threads, clock));
    ASSIGN_OR_RETURN(const Measured measured, measure(*bench));
    const double step = measured.step_seconds;
    const double ratio = spans / step;
    is_cheap = is_cheap && ratio <= kRatioMax;
    fmt::print("{:<18}{:>6}{:>9.1f} us{:>9.2f} us{:>7.3f} %   {:+.2f} % ({:+.2f} to {:+.2f})\n",
               recipe, bench->batch(), 1e6 * step, 1e6 * spans, 100 * ratio,
               100 * median(measured.differences) / step,
               100 * quantile(measured.differences, 0.25) / step,
               100 * quantile(measured.differences, 0.75) / step);
  }
  fmt::print("\nat most {:g} % is allowed: {}\n", 100 * kRatioMax, is_cheap ? "kept" : "exceeded");
  return is_cheap ? 0 : 1;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  constexpr int kCannotRun = 2;
  if (argc > 1) {
    const bool is_help = argc == 2 && std::string_view(argv[1]) == "--help";
    std::fputs(tern::kHelp, is_help ? stdout : stderr);
    return is_help ? 0 : kCannotRun;
  }
  try {
    const tern::Result<int> code = tern::run();
    if (code.has_value()) return *code;
    tern::write_stderr(fmt::format("spans_overhead: {}\n", code.error().message));
  } catch (const std::exception& error) {
    tern::write_stderr(fmt::format("spans_overhead: {}\n", error.what()));
  }
  return kCannotRun;
}
