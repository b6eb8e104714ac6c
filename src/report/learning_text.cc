#include "report/learning_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/progress.h"

namespace tern {
namespace {

constexpr size_t kWorstClasses = 5;

std::string weights_text(const RunReport& report) {
  if (!report.init) return "";
  const InitLine& init = *report.init;
  std::string text = "given; ";
  text += init.top1 ? "top-1 " + percent(*init.top1) : std::string("not evaluated");
  if (init.top5) text += ", top-5 " + percent(*init.top5);
  text += " before training";
  text += fmt::format("; {} tensors", format_count(init.tensors));
  if (init.head_replaced) text += ", new last layer";
  return text + ": " + init.file;  // last, because what is too long is cut
}

std::string diverged_text(const RunReport& report) {
  if (report.diverged.empty()) return "";
  const DivergedLine& last = report.diverged.back();
  const bool is_stopped = last.done != "rolled_back";
  std::string text;
  if (report.diverged.size() > 1) text = fmt::format("{} times; last ", report.diverged.size());
  text += fmt::format("at step {}, ", format_count(last.step));
  text += is_stopped ? "where the run was stopped"
                     : fmt::format("back to step {}, rate x {:.4g}", format_count(last.to_step),
                                   last.rate_factor);
  return text + ": " + last.cause;
}

std::string target_text(const RunReport& report) {
  if (!report.target) return "";
  const TargetLine& target = *report.target;
  std::string text = fmt::format("reached after epoch {}, in {}", format_count(target.epoch),
                                 format_seconds(target.hours * 3600.0));
  if (target.cost_usd) text += fmt::format(" and for ${:.4f}", *target.cost_usd);
  if (target.top1) text += ": top-1 " + percent(*target.top1);
  if (target.top5) text += ", top-5 " + percent(*target.top5);
  return text;
}

std::string worst_classes_text(const RunReport& report) {
  std::vector<std::string> parts;
  for (const ClassLine& line : worst_classes(report, kWorstClasses)) {
    const std::string name = line.name.empty() ? fmt::format("{}", line.index) : line.name;
    parts.push_back(fmt::format("{}: {:.1f} %", name, line.top1 * 100.0));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// Useful work: memory that is taken says nothing, and a GPU that is "active" may do little.
std::string use_text(const RunReport& report) {
  if (!report.use) return "";
  const auto& values = report.use->values;
  std::vector<std::string> parts;
  if (const auto share = useful_share(report)) {
    parts.push_back(fmt::format("{:.0f} % of what compute alone would do", *share * 100.0));
  }
  const auto mean_of = [&](const char* name) -> std::optional<double> {
    const auto found = values.find(name);
    if (found == values.end()) return std::nullopt;
    return found->second.mean;
  };
  const auto power = mean_of("gpu/power_watts");
  const auto limit = mean_of("gpu/power_limit_watts");
  if (power && limit) parts.push_back(fmt::format("GPU power {:.0f} of {:.0f} W", *power, *limit));
  if (const auto clock = mean_of("gpu/sm_clock_mhz")) {
    parts.push_back(fmt::format("at {:.0f} MHz", *clock));
  }
  if (const auto cores = mean_of("cpu_process_cores")) {
    std::string text = fmt::format("{:.1f} cores", *cores);
    if (const auto machine = mean_of("cpu_machine_share")) {
      text += fmt::format(" (machine {:.0f} % busy)", *machine * 100.0);
    }
    parts.push_back(std::move(text));
  }
  if (const auto read = mean_of("disk_read_bytes_per_second"); read && *read >= 1e6) {
    parts.push_back(fmt::format("disk {}/s", format_bytes(std::llround(*read))));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

// "3, 1 lost, at most 0.09 s without a step, each sends 1.2 MB a step (measured 1.2 MB)"
std::string ranks_text(const RunReport& report) {
  if (!report.ranks) return "";
  const RanksLine& ranks = *report.ranks;
  std::string text = format_count(ranks.world);
  if (ranks.lost > 0) {
    text += fmt::format(", {} lost, at most {:.2f} s without a step", format_count(ranks.lost),
                        ranks.longest_gap_s);
  }
  if (ranks.bytes_per_step) {
    text += fmt::format(", each sends {} a step", format_bytes(*ranks.bytes_per_step));
    if (ranks.sent_per_step) {
      text += fmt::format(" (measured {})", format_bytes(*ranks.sent_per_step));
    }
  }
  return text;
}

// "78.1 % of the fastest rank without waits; communication 12.0 %, straggling 7.3 %, ..."
std::string scaling_text(const RunReport& report) {
  if (!report.ranks || !report.ranks->scaling) return "";
  const Scaling& scaling = *report.ranks->scaling;
  const auto share = [](double part) { return fmt::format("{:.1f} %", 100.0 * part); };
  return fmt::format("{} of {}; communication {}, straggling {}, data {}, rest {}",
                     share(scaling.efficiency),
                     scaling.is_against_alone ? "one rank alone" : "the fastest rank without waits",
                     share(scaling.communication), share(scaling.straggling), share(scaling.data),
                     share(scaling.rest));
}

}  // namespace

std::string percent(double share) { return fmt::format("{:.2f} %", share * 100.0); }

size_t LearningRows::count() const {
  const std::string* rows[] = {&weights, &diverged, &target, &worst_classes,
                               &use,     &ranks,    &scaling};
  return static_cast<size_t>(
      std::ranges::count_if(rows, [](const std::string* row) { return !row->empty(); }));
}

LearningRows learning_rows(const RunReport& report) {
  return {.weights = weights_text(report),
          .diverged = diverged_text(report),
          .target = target_text(report),
          .worst_classes = worst_classes_text(report),
          .use = use_text(report),
          .ranks = ranks_text(report),
          .scaling = scaling_text(report)};
}

}  // namespace tern
