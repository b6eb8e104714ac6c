#include "train/run_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace tern {
namespace {

// TensorBoard shows about a thousand points of a curve. Ten a second are enough to watch, and the
// time between two doubles after each 10,000: 30 MB after a week. By the clock, since it is only
// for the screen.
constexpr Milliseconds kShortestBetweenPoints{100};
constexpr int64_t kPointsPerPeriod = 10'000;
constexpr int64_t kDoublingsMax = 10;
// In a bucket every write of the curves is a request that is paid for.
constexpr Milliseconds kBucketFlushEvery{30'000};
// A leader's lines may be lost with it for as long as a bucket's file has not been written.
constexpr size_t kRememberedMax = 4096;

Milliseconds between_points(int64_t points) {
  return kShortestBetweenPoints *
         (int64_t{1} << std::min(points / kPointsPerPeriod, kDoublingsMax));
}

// Of a ledger record that we made ourselves.
std::vector<Scalar> evaluation_scalars(const nlohmann::json& fields) {
  std::vector<Scalar> scalars;
  for (const char* name : {"loss", "top1", "top5"}) {
    const auto field = fields.find(name);
    if (field == fields.end() || !field->is_number()) continue;
    scalars.push_back({std::string("validation/") + name, field->get<double>()});
  }
  return scalars;
}

}  // namespace

std::string spans_json(const SpanTimes& spans) {
  std::string text = "{";
  for (const Span span : kAllSpans) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(spans[span]).count();
    if (us == 0) continue;
    if (text.size() > 1) text += ',';
    fmt::format_to(std::back_inserter(text), R"("{}":{})", span_name(span), us);
  }
  return text + "}";
}

nlohmann::json step_lines_json(const std::deque<StepLine>& lines, size_t count) {
  nlohmann::json array = nlohmann::json::array();
  for (size_t i = lines.size() - std::min(count, lines.size()); i < lines.size(); ++i) {
    const StepLine& line = lines[i];
    array.push_back(
        {line.step, line.epoch, line.learning_rate, line.loss, line.top1, line.samples});
  }
  return array;
}

std::vector<StepLine> parse_step_lines(const nlohmann::json& lines) {
  constexpr size_t kFields = 6;
  std::vector<StepLine> parsed;
  for (const nlohmann::json& line : lines) {
    const bool is_line =
        line.is_array() && line.size() == kFields &&
        std::ranges::all_of(line, [](const auto& each) { return each.is_number(); });
    if (!is_line) continue;
    parsed.push_back({.step = line[0],
                      .epoch = line[1],
                      .learning_rate = line[2],
                      .loss = line[3],
                      .top1 = line[4],
                      .samples = line[5]});
  }
  return parsed;
}

Result<std::unique_ptr<RunRecords>> RunRecords::open(ObjectStore& run, Clock& clock, Log& log,
                                                     Process process) {
  const int64_t price = process.price_microusd_per_hour;
  std::unique_ptr<RunRecords> records(new RunRecords(run, clock, log, std::move(process)));
  ASSIGN_OR_RETURN(records->ledger_, Ledger::open(run, clock, price));
  ASSIGN_OR_RETURN(records->metrics_, open_record_log(run, kMetricsObject, {.clock = &clock}));
  return records;
}

std::unique_ptr<RunRecords> RunRecords::silent(ObjectStore& run, Clock& clock, Log& log) {
  return std::unique_ptr<RunRecords>(new RunRecords(run, clock, log, Process{}));
}

void RunRecords::ledger(std::string_view kind, const nlohmann::json& fields) {
  if (is_silent()) return;
  warn_once(ledger_->record(kind, fields));
  accuracy_.add(ledger_->newest());
  if (kind != "evaluation" || events_ == nullptr) return;
  events_->add(fields.value("step", int64_t{0}), evaluation_scalars(fields));
}

void RunRecords::warning(const std::string& what, int64_t step) {
  log_.warn("train", what, {{"step", std::to_string(step)}});
  ledger("warning", {{"what", what}, {"step", step}});
}

void RunRecords::process_begins(int64_t step) {
  const nlohmann::json mark = {
      {"process_begins", step}, {"lease", lease_}, {"ms", clock_.unix_ms()}};
  warn_once(metrics_->append(mark.dump()));
  sync();  // in a bucket too whoever comes next knows that we were here
  EventFile::Setup setup{.lease = lease_, .first_step = step};
  if (!run_.local_path(kMetricsObject)) setup.flush_every = kBucketFlushEvery;
  events_ = std::make_unique<EventFile>(run_, clock_, log_, setup);
  last_step_ = step;
  unshown_ = {.since = clock_.now()};
}

void RunRecords::rolled_back(int64_t step) {
  last_step_ = step;
  if (events_ != nullptr) events_->restart_after(step);
}

void RunRecords::step(const StepLine& line) {
  if (is_silent()) {
    remembered_.push_back(line);
    if (remembered_.size() > kRememberedMax) remembered_.pop_front();
    return;
  }
  // Nine digits bring a float back to its bits, so two runs can be compared by their metrics. Plain
  // formatting, because this is on the step's path.
  warn_once(metrics_->append(fmt::format(
      R"({{"step":{},"epoch":{},"lr":{:.17g},"loss":{:.9g},"top1":{:.6g},)"
      R"("samples":{},"us":{},{}{}{}"lease":{},"ms":{}}})",
      line.step, line.epoch, line.learning_rate, line.loss, line.top1, line.samples,
      spans_json(line.spans), line.communication.empty() ? "" : R"("communication":)",
      line.communication, line.communication.empty() ? "" : ",", lease_, clock_.unix_ms())));
  last_step_ = line.step;
  if (events_ != nullptr) show_step(line);
}

// Loss, accuracy and rate are those of the step that is shown; speed and spans are means over the
// steps since the one before.
void RunRecords::show_step(const StepLine& line) {
  ++unshown_.steps;
  unshown_.samples += line.samples;
  unshown_.spans += line.spans;
  const Nanoseconds now = clock_.now();
  const Nanoseconds passed = now - unshown_.since;
  if (points_ > 0 && passed < between_points(points_)) return;
  std::vector<Scalar> scalars = {
      {"train/loss", line.loss}, {"train/top1", line.top1}, {"lr", line.learning_rate}};
  if (passed > Nanoseconds(0)) {
    scalars.push_back({"throughput", static_cast<double>(unshown_.samples) / to_seconds(passed)});
  }
  for (const Span span : kAllSpans) {
    if (unshown_.spans[span] == Nanoseconds(0)) continue;
    scalars.push_back({"spans/" + std::string(span_name(span)),
                       to_seconds(unshown_.spans[span]) / static_cast<double>(unshown_.steps)});
  }
  events_->add(line.step, scalars);
  ++points_;
  unshown_ = {.since = now};
}

void RunRecords::epoch(int64_t epoch, int64_t step, double train_loss, double train_top1,
                       const Evaluation* test) {
  if (is_silent()) return;
  nlohmann::json record = {{"epoch_done", epoch},
                           {"step", step},
                           {"train_loss", train_loss},
                           {"train_top1", train_top1},
                           {"ms", clock_.unix_ms()}};
  if (test != nullptr) {
    record["test_loss"] = test->loss;
    record["test_top1"] = test->top1;
    record["test_top5"] = test->top5;
  }
  warn_once(metrics_->append(record.dump()));
}

void RunRecords::watch_system(Sampler::Setup setup) {
  Result<std::unique_ptr<RecordLog>> log =
      open_record_log(run_, kSamplesObject, {.clock = &clock_});
  const auto before = read_records(run_, kSamplesObject);
  if (!log.has_value()) {
    warn_once(log.error());
    return;
  }
  samples_ = std::move(*log);
  if (before.has_value()) setup.samples_before = static_cast<int64_t>(before->size());
  sampler_ = std::make_unique<Sampler>(std::move(setup), clock_,
                                       [this](const SystemSample& sample) { keep_sample(sample); });
  sampler_->start();
}

void RunRecords::finish_watching() {
  if (sampler_ != nullptr) {
    sampler_->stop();
    warn_once(samples_->sync());
  }
  if (events_ != nullptr) events_->flush();
  sync();
}

// The samples are the sampler's thread's, and not worth a lock: some seconds of them may be lost.
void RunRecords::sync() {
  if (!is_silent()) warn_once(metrics_->sync());
}

// Called by the sampler's thread, and after its end by finish_watching().
void RunRecords::keep_sample(const SystemSample& sample) {
  const int64_t step = last_step_;
  warn_once(samples_->append(sample_line(sample, step, lease_)));
  if (events_ == nullptr) return;
  std::vector<Scalar> scalars;
  for (const Scalar& value : sample.values) {
    scalars.push_back({"system/" + value.tag, value.value});
  }
  events_->add(step, scalars);
}

void RunRecords::warn_once(const Status& status) {
  if (status.has_value() || warned_.exchange(true)) return;
  log_.warn("train", "cannot write the run's records; training goes on without them",
            {{"cause", status.error().to_string()}});
}

Result<int64_t> last_recorded_step(ObjectStore& run) {
  ASSIGN_OR_RETURN(const auto lines, read_records(run, kMetricsObject));
  // By order in the file, not by clock or maximum: the last process may have come less far than an
  // earlier one whose lost steps are already counted. Lines of another lease behind its beginning
  // are those of a process that had not yet noticed that it was replaced.
  int64_t last = 0;
  int64_t lease = 0;
  const auto number = [](const nlohmann::json& line, const char* name) {
    const auto found = line.find(name);
    return found != line.end() && found->is_number_integer() ? found->get<int64_t>() : -1;
  };
  for (const std::string& text : lines) {
    const std::optional<nlohmann::json> line = parse_json_record(text);
    if (!line) continue;
    if (line->contains("process_begins")) {
      last = std::max<int64_t>(0, number(*line, "process_begins"));
      lease = number(*line, "lease");
    } else if (number(*line, "lease") == lease) {
      last = std::max<int64_t>(0, number(*line, "step"));
    }
  }
  return last;
}

Status log_to_run_folder(ObjectStore& run, Log& log) {
  if (!run.local_path(kLogObject)) return {};
  ASSIGN_OR_RETURN(std::shared_ptr<RecordLog> file, open_record_log(run, kLogObject));
  log.add_sink([file](std::string_view line) {
    // Nothing can be said about a log that cannot be written: the line is on stderr.
    if (line.ends_with('\n')) line.remove_suffix(1);
    file->append(line).permit_unchecked_error();
  });
  return {};
}

}  // namespace tern
