#include <nlohmann/json.hpp>

#include "report/run_report.h"

namespace tern {

namespace {

using nlohmann::json;

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
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
                 {"command", report.command},
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
                 {"warnings", report.warnings},
                 {"processes", json::array()}};
  add_evaluation(object, report.last_evaluation);
  const auto& best = report.best_evaluation;
  object["best_top1"] = best ? json(best->top1) : json(nullptr);
  object["best_epoch"] = best ? json(best->epoch) : json(nullptr);
  for (const ProcessLine& process : report.processes) {
    object["processes"].push_back(process_json(process));
  }
  // The caller's folder name may be no UTF-8, and dump() throws on that; NaN has no JSON. Once
  // through text with both replaced, and nothing downstream has to know.
  return json::parse(object.dump(-1, ' ', /*ensure_ascii=*/false, json::error_handler_t::replace),
                     /*callback=*/nullptr, /*allow_exceptions=*/false);
}

}  // namespace tern
