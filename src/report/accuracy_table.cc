#include "report/accuracy_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/record_fields.h"

namespace tern {
namespace {

using nlohmann::json;

constexpr double kHourSeconds = 3600;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

bool reaches(const AccuracyTarget& target, const AccuracyRow& row) {
  if (target.top1 <= 0 && target.top5 <= 0) return false;
  // Written so that an accuracy that is not told reaches nothing.
  const bool top1 = target.top1 <= 0 || row.top1 >= target.top1;
  const bool top5 = target.top5 <= 0 || row.top5 >= target.top5;
  return top1 && top5;
}

double AccuracyHistory::Lived::seconds_by_calendar() const {
  return static_cast<double>(std::max<int64_t>(0, last_ms - start_ms)) / 1e3;
}

double AccuracyHistory::Lived::usd_after(double seconds) const {
  if (usd_before < 0 || usd_per_hour < 0) return kUnknown;
  return usd_before + seconds / kHourSeconds * usd_per_hour;
}

void AccuracyHistory::Lived::begin_process(int64_t ms) {
  const double seconds = end_seconds < 0 ? seconds_by_calendar() : end_seconds;
  if (seconds > 0) usd_before = usd_after(seconds);
  seconds_before += seconds;
  start_ms = last_ms = ms;
  end_seconds = usd_per_hour = kUnknown;
}

void AccuracyHistory::add(const json& record) {
  const std::string kind = text_or(record, "kind", "");
  const int64_t ms = count_or(record, "ms", lived_.last_ms);
  if (kind == "start" || kind == "resume") lived_.begin_process(ms);
  lived_.last_ms = std::max(lived_.last_ms, ms);
  if (const auto price = find_count(record, "price_microusd_per_hour")) {
    lived_.usd_per_hour = static_cast<double>(*price) / 1e6;
  }
  if (kind == "end") lived_.end_seconds = find_amount(record, "wall_seconds").value_or(kUnknown);
  if (kind == "diverged" && text_or(record, "done", "") == "rolled_back") {
    rows_.erase(rows_.upper_bound(count_or(record, "to_step", 0)), rows_.end());
  }
  const std::optional<double> top1 = find_amount(record, "top1");
  if (kind != "evaluation" || !top1) return;
  const double seconds = lived_.seconds_by_calendar();
  const double usd = lived_.usd_after(seconds);
  const double hours = (lived_.seconds_before + seconds) / kHourSeconds;
  rows_.try_emplace(count_or(record, "step", 0),
                    AccuracyRow{.epoch = count_or(record, "epoch", 0),
                                .hours = find_amount(record, "hours").value_or(hours),
                                .top1 = *top1,
                                .top5 = find_amount(record, "top5").value_or(kNone),
                                .cost_usd = usd < 0 ? std::nullopt : std::optional(usd)});
}

std::vector<AccuracyRow> AccuracyHistory::rows() const {
  std::vector<AccuracyRow> in_order;
  in_order.reserve(rows_.size());
  for (const auto& [step, row] : rows_) in_order.push_back(row);
  return in_order;
}

std::string accuracy_table(const std::vector<AccuracyRow>& rows, const AccuracyTarget& target) {
  std::string text = "epoch\thours\ttop1\ttop5\tcost_usd\n";
  for (const AccuracyRow& row : rows) {
    const auto percent = [](double share) {
      return std::isfinite(share) ? fmt::format("{:.3f}", share * 100.0) : std::string();
    };
    text +=
        fmt::format("{}\t{:.6f}\t{}\t{}\t{}\n", row.epoch, row.hours, percent(row.top1),
                    percent(row.top5), row.cost_usd ? fmt::format("{:.4f}", *row.cost_usd) : "");
    if (reaches(target, row)) break;
  }
  return text;
}

}  // namespace tern
