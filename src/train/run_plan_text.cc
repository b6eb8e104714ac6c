// A plan for people.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "core/progress.h"
#include "report/screen.h"
#include "report/time_text.h"
#include "train/run_plan.h"

namespace tern {
namespace {

using Row = std::vector<std::string>;

constexpr size_t kGap = 2;
// More borders are in --json.
constexpr size_t kBordersShown = 16;

std::string rate_text(double rate) { return fmt::format("{:.4g}", rate); }

std::string count_or_unknown(int64_t count) { return count > 0 ? format_count(count) : "?"; }

std::string plural(int64_t count, std::string_view word) {
  return fmt::format("{} {}{}", format_count(count), word, count == 1 ? "" : "s");
}

// Columns as wide as their widest cell; the first row is the heading. The first line carries the
// label.
void add_table(Screen& screen, std::string_view label, const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const Row& row : rows) {
    std::string line = fmt::format("{:<{}}", label, kLabelColumns);
    for (size_t i = 0; i < row.size(); ++i) {
      // The last column, a path or a note, is not padded.
      line += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}", row[i], widths[i] + kGap);
    }
    screen.line(line);
    label = "";
  }
}

std::string image_text(const PlanPhase& phase) {
  if (phase.image_height == 0) return "?";
  if (phase.image_height == phase.image_width) return fmt::format("{}", phase.image_height);
  return fmt::format("{}x{}", phase.image_width, phase.image_height);
}

std::string epochs_text(const PlanPhase& phase) {
  return fmt::format("{} to {}", phase.first_epoch, phase.end_epoch);
}

void add_phases(Screen& screen, const RunPlan& plan) {
  std::vector<Row> rows = {
      {"epochs", "pixels", "batch", "per epoch", "steps", "learning rate", "data"}};
  for (const PlanPhase& phase : plan.phases) {
    const bool is_known = phase.steps_per_epoch > 0;
    rows.push_back(
        {epochs_text(phase), image_text(phase), format_count(phase.batch),
         count_or_unknown(phase.steps_per_epoch), is_known ? format_count(phase.steps) : "?",
         is_known ? fmt::format("{} to {}", rate_text(phase.rate_begin), rate_text(phase.rate_end))
                  : "?",
         phase.data_is_here ? phase.path : "no " + phase.path});
  }
  add_table(screen, plan.phases.size() == 1 ? "phase" : "phases", rows);
}

void add_rates(Screen& screen, const RunPlan& plan, Glyphs glyphs) {
  if (plan.curve.empty()) return;
  const auto [low, high] =
      std::minmax_element(plan.curve.begin(), plan.curve.end(),
                          [](const RatePoint& a, const RatePoint& b) { return a.rate < b.rate; });
  screen.line(fmt::format("{:<{}}{}  {} to {}", "learning rate", kLabelColumns,
                          sparkline(plan.curve, glyphs), rate_text(low->rate),
                          rate_text(high->rate)));
  const std::string last = format_count(plan.epochs);
  const size_t columns = plan.curve.size();
  const std::string middle = columns >= 20 + last.size() ? "epoch" : "";
  screen.line(fmt::format("{:<{}}0{:^{}}{}", "", kLabelColumns, middle,
                          columns > 1 + last.size() ? columns - 1 - last.size() : 1, last));
  std::vector<Row> rows = {{"at epoch", "step", "rate"}};
  for (const RatePoint& point : plan.borders) {
    if (rows.size() > kBordersShown) break;
    rows.push_back(
        {fmt::format("{:.4g}", point.epoch), format_count(point.step), rate_text(point.rate)});
  }
  add_table(screen, "", rows);
}

void add_sizes(Screen& screen, const RunPlan& plan) {
  if (plan.parameters == 0) {
    screen.row("parameters", "not known: the network's input is, once the data is here");
    return;
  }
  screen.row("parameters", format_count(plan.parameters));
  screen.row("checkpoint",
             fmt::format("{} each; model.safetensors {}", format_bytes(plan.checkpoint_bytes),
                         format_bytes(plan.weights_bytes)));
  if (plan.device_memory_bytes == 0) return;
  const std::string held = format_bytes(plan.device_memory_bytes);
  const std::string host = format_bytes(plan.host_memory_bytes);
  const std::string how =
      "an estimate, from what 2 and 4 samples took on the CPU, drawn out to the batch";
  if (plan.is_on_gpu) {
    screen.row("memory",
               fmt::format("about {} on the GPU for weights, gradients, optimizer and activations "
                           "({}; a GPU's own work space comes on top, --probe measures it), and {} "
                           "of the host's",
                           held, how, host),
               3);
    return;
  }
  screen.row("memory",
             fmt::format("about {}: {} for weights, gradients, optimizer and activations ({}), {} "
                         "for data, LibTorch and one checkpoint being written",
                         format_bytes(plan.memory_bytes()), held, how, host),
             3);
}

std::string per_second(const PlanPhase& phase, const std::optional<double>& step_s) {
  if (!step_s) return "no data here";
  const double rate = static_cast<double>(phase.batch) / *step_s;
  return fmt::format("{} samples/s ({:.3g} ms a step)", format_count(std::llround(rate)),
                     *step_s * 1e3);
}

void add_speed(Screen& screen, const RunPlan& plan) {
  std::vector<Row> rows = {{"epochs", "compute alone", "with data", "training"}};
  for (const PlanPhase& phase : plan.phases) {
    if (!phase.speed) continue;
    const PhaseSpeed& speed = *phase.speed;
    if (!speed.fits) {
      rows.push_back({epochs_text(phase), "does not fit", "", "see below"});
      continue;
    }
    rows.push_back({epochs_text(phase), per_second(phase, speed.compute_step_s),
                    per_second(phase, speed.data_step_s),
                    format_seconds(static_cast<double>(phase.steps) * speed.step_s())});
  }
  if (rows.size() == 1) return;
  add_table(screen, "speed", rows);
  screen.row("measured on", plan.probed_on);
  if (plan.gpu_peak_bytes > 0) {
    screen.row("GPU memory", format_bytes(plan.gpu_peak_bytes) + " at the most, measured");
  }
}

void add_time(Screen& screen, const RunPlan& plan) {
  if (!plan.time) return;
  const PlanTime& time = *plan.time;
  screen.row("time",
             fmt::format("{}: training {}, {} {}, {} {} (the disk not counted){}",
                         format_seconds(time.total_s), format_seconds(time.train_s),
                         plural(time.evaluations, "evaluation"), format_seconds(time.evaluate_s),
                         plural(time.checkpoints, "checkpoint"), format_seconds(time.checkpoint_s),
                         time.is_cut ? "; train.time_limit ends it then" : ""),
             2);
  if (!time.cost_microusd) {
    screen.row("cost", "not known; --price 0.5/h says what an hour of this machine costs");
    return;
  }
  screen.row("cost", fmt::format("${:.2f} at ${:.3f} an hour",
                                 static_cast<double>(*time.cost_microusd) / 1e6,
                                 static_cast<double>(plan.price_microusd_per_hour) / 1e6));
}

}  // namespace

std::string sparkline(const std::vector<RatePoint>& curve, Glyphs glyphs) {
  static constexpr std::array<std::string_view, 8> kBlocks = {"▁", "▂", "▃", "▄",
                                                              "▅", "▆", "▇", "█"};
  static constexpr std::array<std::string_view, 8> kPlain = {"_", ".", ":", "-",
                                                             "=", "+", "*", "#"};
  double high = 0;
  for (const RatePoint& point : curve) high = std::max(high, point.rate);
  std::string line;
  for (const RatePoint& point : curve) {
    const double height = high > 0 ? point.rate / high : 0;
    const auto level = static_cast<size_t>(std::clamp(height * 8, 0.0, 7.0));
    line += glyphs == Glyphs::utf8 ? kBlocks[level] : kPlain[level];
  }
  return line;
}

std::string format_run_plan(const RunPlan& plan, Glyphs glyphs) {
  Screen screen;
  screen.line(fmt::format("{}: {} in {}, {}", plan.recipe, plan.model, plan.precision,
                          plural(plan.epochs, "epoch")));
  screen.blank();
  if (plan.data_name.empty()) {
    screen.row("data", "not here");
  } else {
    screen.row("data",
               fmt::format("{}: {} training and {} test samples, {} classes, {}", plan.data_name,
                           format_count(plan.train_samples), format_count(plan.test_samples),
                           format_count(plan.classes), format_bytes(plan.data_bytes)),
               2);
  }
  add_phases(screen, plan);
  if (plan.steps > 0) {
    screen.row("in all",
               fmt::format("{}, {}", plural(plan.steps, "step"), plural(plan.samples, "sample")));
  }
  add_rates(screen, plan, glyphs);
  add_sizes(screen, plan);
  add_speed(screen, plan);
  add_time(screen, plan);
  for (const std::string& warning : plan.warnings) screen.row("warning", warning, 8);
  return screen.take();
}

}  // namespace tern
