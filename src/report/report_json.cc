#include <nlohmann/json.hpp>

#include "report/machine_json.h"
#include "report/run_report.h"

namespace tern {

namespace {

using nlohmann::json;

constexpr size_t kWorstClasses = 5;

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json text_or_null(const std::string& text) { return text.empty() ? json(nullptr) : json(text); }

json seconds_json(const SpanSeconds& seconds) {
  json object = json::object();
  for (const Span span : kAllSpans) {
    // Only ranks wait for each other.
    if (span == Span::communication && seconds[span] == 0) continue;
    object[std::string(span_name(span))] = seconds[span];
  }
  return object;
}

json gpu_json(const GpuLine& gpu) {
  return {{"name", gpu.name},
          {"driver", gpu.driver},
          {"cuda", gpu.cuda},
          {"capability", gpu.capability},
          {"memory_bytes", gpu.memory_bytes},
          {"compute_seconds", or_null(gpu.compute_seconds)},
          {"activity", or_null(gpu.activity)},
          {"steps", or_null(gpu.steps)},
          {"dry_steps", or_null(gpu.dry_steps)},
          {"energy_joules", or_null(gpu.energy_joules)},
          {"mean_power_watts", or_null(gpu.mean_power_watts)},
          {"peak_memory_bytes", or_null(gpu.peak_memory_bytes)}};
}

json use_json(const RunReport& report) {
  if (!report.use) return nullptr;
  json values = json::object();
  for (const auto& [name, value] : report.use->values) {
    values[name] = {{"mean", value.mean}, {"max", value.max}};
  }
  return {{"samples", report.use->samples},
          {"useful_share", or_null(useful_share(report))},
          {"power_share", or_null(report.use->power_share)},
          {"values", values}};
}

json scaling_json(const Scaling& scaling) {
  return {{"efficiency", scaling.efficiency},
          {"communication", scaling.communication},
          {"straggling", scaling.straggling},
          {"data", scaling.data},
          {"rest", scaling.rest},
          {"against", scaling.is_against_alone ? "one rank alone" : "the fastest rank"}};
}

json members_json(const std::vector<RankLoad>& members) {
  json list = json::array();
  for (const RankLoad& load : members) {
    const bool is_measured = load.measured_steps > 0;
    list.push_back({{"name", load.name},
                    {"steps", load.steps},
                    {"busy_seconds", load.busy_seconds},
                    {"wait_seconds", load.wait_seconds},
                    {"data_seconds", load.data_seconds},
                    {"predicted_bytes", load.predicted_bytes},
                    {"sent_bytes", is_measured ? json(load.sent_bytes) : json(nullptr)},
                    {"received_bytes", is_measured ? json(load.received_bytes) : json(nullptr)}});
  }
  return list;
}

json ranks_json(const RanksLine& ranks) {
  return {{"world", ranks.world},
          {"generations", ranks.generations},
          {"lost", ranks.lost},
          {"longest_gap_seconds", ranks.longest_gap_s},
          {"bytes_per_step", or_null(ranks.bytes_per_step)},
          {"sent_per_step", or_null(ranks.sent_per_step)},
          {"received_per_step", or_null(ranks.received_per_step)},
          {"communication_seconds", ranks.group.communication_seconds},
          {"slowest", text_or_null(ranks.slowest)},
          {"slowest_seconds", ranks.slowest_seconds},
          {"slowest_ratio", ranks.slowest_ratio},
          {"scaling", ranks.scaling ? scaling_json(*ranks.scaling) : json(nullptr)},
          {"members", members_json(ranks.members)}};
}

// Where the time went, what was used, on what.
void add_resources(json& object, const RunReport& report) {
  object["seconds"] = seconds_json(report.seconds);
  object["verdict"] = report.verdict;
  object["compute_samples_per_second"] = or_null(report.compute_samples_per_second);
  object["cpu_user_seconds"] = or_null(report.cpu_user_seconds);
  object["cpu_system_seconds"] = or_null(report.cpu_system_seconds);
  object["peak_memory_bytes"] = or_null(report.peak_memory_bytes);
  object["gpu"] = report.gpu ? gpu_json(*report.gpu) : json(nullptr);
  object["use"] = use_json(report);
  if (report.ranks) object["ranks"] = ranks_json(*report.ranks);
  object["machine"] = report.machine ? machine_json(*report.machine) : json(nullptr);
  object["device"] = text_or_null(report.device);
  object["libtorch"] = text_or_null(report.libtorch);
  object["fingerprint"] = text_or_null(report.fingerprint);
}

// What happened to the learning: the weights it began with, where it diverged, when it was good
// enough, and for which classes it is worst.
void add_learning(json& object, const RunReport& report) {
  object["init"] = nullptr;
  if (const auto& init = report.init) {
    object["init"] = {{"file", init->file},          {"sha256", init->sha256},
                      {"loaded", init->tensors},     {"head_replaced", init->head_replaced},
                      {"top1", or_null(init->top1)}, {"top5", or_null(init->top5)}};
  }
  object["diverged"] = json::array();
  for (const DivergedLine& line : report.diverged) {
    object["diverged"].push_back({{"step", line.step},
                                  {"loss", or_null(line.loss)},
                                  {"cause", line.cause},
                                  {"done", line.done},
                                  {"to_step", line.to_step},
                                  {"rate_factor", line.rate_factor}});
  }
  object["target"] = nullptr;
  if (const auto& target = report.target) {
    object["target"] = {{"epoch", target->epoch},        {"step", target->step},
                        {"hours", target->hours},        {"cost_usd", or_null(target->cost_usd)},
                        {"top1", or_null(target->top1)}, {"top5", or_null(target->top5)}};
  }
  object["class_top1"] = report.class_top1.empty() ? json(nullptr) : json(report.class_top1);
  object["worst_classes"] = json::array();
  for (const ClassLine& line : worst_classes(report, kWorstClasses)) {
    json worst = {{"class", line.index}, {"top1", line.top1}};
    if (!line.name.empty()) worst["name"] = line.name;
    object["worst_classes"].push_back(std::move(worst));
  }
}

json process_json(const ProcessLine& process) {
  return {{"host", process.host},
          {"pid", process.pid},
          {"first_step", process.first_step},
          {"last_step", process.last_step},
          {"steps_lost", process.steps_lost},
          {"wall_seconds", process.wall_seconds},
          {"ended", process.ended}};
}

// Adds `loss`, `top1`, ... of an evaluation under the given names, null if there was none.
void add_evaluation(json& object, const std::optional<EvaluationLine>& evaluation) {
  const bool is_there = evaluation.has_value();
  object["loss"] = is_there ? json(evaluation->loss) : json(nullptr);
  object["top1"] = is_there ? json(evaluation->top1) : json(nullptr);
  object["top5"] = is_there ? json(evaluation->top5) : json(nullptr);
  object["evaluated_step"] = is_there ? json(evaluation->step) : json(nullptr);
}

}  // namespace

json report_json(const RunReport& report) {
  json object = {{"run", report.run},
                 {"status", status_name(report.status)},
                 {"reason", report.reason},
                 {"next_step", report.next_step},
                 {"recipe", report.recipe},
                 {"program", report.is_program},
                 {"command", report.command},
                 {"branched_from", text_or_null(report.branched_from)},
                 {"step", report.step},
                 {"total_steps", report.total_steps},
                 {"epochs_done", report.epochs_done},
                 {"epochs", report.epochs},
                 {"train_loss", or_null(report.train_loss)},
                 {"steps_lost", report.steps_lost},
                 {"interruptions", report.interruptions},
                 {"wall_seconds", report.wall_seconds},
                 {"samples", report.samples},
                 {"samples_per_second", report.samples_per_second},
                 {"cost_microusd", or_null(report.cost_microusd)},
                 {"checkpoints", report.checkpoints},
                 {"checkpoint_bytes", report.checkpoint_bytes},
                 {"bad_samples", json::array()},
                 {"shuffle", text_or_null(report.shuffle)},
                 {"shuffle_quality", or_null(report.shuffle_quality)},
                 {"warnings", report.warnings},
                 {"processes", json::array()}};
  add_resources(object, report);
  add_learning(object, report);
  add_evaluation(object, report.last_evaluation);
  const auto& best = report.best_evaluation;
  object["best_top1"] = best ? json(best->top1) : json(nullptr);
  object["best_epoch"] = best ? json(best->epoch) : json(nullptr);
  for (const BadSampleLine& bad : report.bad_samples) {
    object["bad_samples"].push_back(
        {{"sample", bad.sample}, {"cause", bad.cause}, {"done", bad.done}});
  }
  for (const ProcessLine& process : report.processes) {
    object["processes"].push_back(process_json(process));
  }
  // The caller's folder name may be no UTF-8, and dump() throws on that; NaN has no JSON. Once
  // through text with both replaced, and nothing downstream has to know.
  return json::parse(object.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace),
                     /*callback=*/nullptr, /*allow_exceptions=*/false);
}

}  // namespace tern
