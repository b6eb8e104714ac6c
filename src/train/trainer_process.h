// One process's part of a run, told in three files: trainer_begin.cc (take the run, restore it),
// trainer.cc (the loop) and trainer_end.cc (leave, finish, close). Not for others: trainer.h is.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "cuda/gpu.h"
#include "loader/loader.h"
#include "report/accuracy_table.h"
#include "report/spans.h"
#include "storage/prefix_store.h"
#include "train/learner.h"
#include "train/rank_book.h"
#include "train/resume.h"
#include "train/run_records.h"
#include "train/stall_watch.h"
#include "train/train_state.h"
#include "train/trainer.h"
#include "train/warm_up.h"

namespace tern {

// How a process that was told to leave ends.
Outcome outcome_of(const Notice& notice);

// Charges what happens in its scope to one span.
class SpanScope {
 public:
  SpanScope(SpanMeter& meter, Span span) : meter_(meter), before_(meter.running()) {
    meter.enter(span);
  }
  ~SpanScope() { meter_.enter(before_); }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  SpanMeter& meter_;
  const Span before_;
};

// Owned by train(); one thread.
class Trainer {
 public:
  Trainer(const TrainerSetup& setup, RunConfig config, RunData data)
      : setup_(setup),
        config_(std::move(config)),
        data_(std::move(data)),
        timeline_(data_.timeline()),
        checkpoints_(*setup.run, kCheckpointPrefix),
        spans_(*setup.clock, setup.age),
        leads_(setup.ranks == nullptr) {
    if (setup.ranks == nullptr) return;
    watch_ = std::make_unique<StallWatch>(
        StallWatch::Setup{.clock = setup.clock, .log = setup.log, .door = setup.ranks});
  }

  Status take_the_run(std::stop_token stop);
  Status restore_or_start();
  // With ranks, instead of these two.
  Status begin_together();
  bool leads() const { return leads_; }
  Outcome train_and_close();
  // For a run that was taken but could not begin.
  void give_back() {
    if (sequence_ != nullptr) sequence_->release().permit_unchecked_error();
  }

 private:
  const PhaseData& phase_at(int64_t step) const {
    return data_.phases[static_cast<size_t>(timeline_.at(step).phase)];
  }
  int64_t last_step() const;
  int64_t samples_until(int64_t step) const;
  StepEvent event(int64_t step, double loss) const;
  bool epoch_is_complete_but_open() const;
  bool evaluation_is_due_after(int64_t epoch) const;
  std::optional<std::string> finished() const;

  Result<Outcome> run();
  Result<std::optional<Outcome>> go_on();
  Result<std::optional<Outcome>> heed_notices();
  Status roll_back();
  Status restore_last(const Error& why);
  void note_divergence(const Error& error, const char* done);
  Status train_one_step();
  Status pass_over(const Batch& batch);
  Status watch_loss(const StepResult& result);
  void note_bad_sample(const BadRead& bad, const Dataset& dataset);
  void tell_bad_sample(const BadRead& bad, const Dataset& dataset);
  Status note_results(const StepResults& results);
  Status finish_steps();
  Status close_epoch();
  Result<std::optional<Evaluation>> evaluate_now(bool is_last);
  Result<std::optional<Evaluation>> evaluate_quietly();
  void note_target(const AccuracyRow& row);
  void write_best();
  std::optional<AccuracyRow> write_accuracy_table();
  Status keep_the_run();
  Status show_sign_of_life();
  Status save(const char* why);
  Result<Outcome> leave(const Notice& notice);
  Status heed(const Notice& advice);
  void note_notice(const Notice& notice);
  bool time_is_short() const;
  Result<Outcome> finish(std::string reason);
  Status close(Outcome& outcome);
  Status write_weights();
  Status write_report();

  // Ranks: trainer_ranks.cc has a step and what they tell each other, trainer_regroup.cc how they
  // become a group.
  bool is_together() const { return is_joined_; }
  bool is_group_over(const Error& error) const {
    return wants_regroup_ ||
           (group_ != nullptr && group_->is_broken() && error.code == Code::unavailable);
  }
  StallWatch::Work work_of(RankWork what, std::string waits_for);
  Result<Batch> next_batch();
  Result<StepResults> step_with_others(double rate, RankStep& exchange);
  Status train_together();
  Status note_undone(const RankStep& exchange, const std::optional<Error>& own);
  RankWord own_word();
  Status ask_all();
  Result<std::optional<Outcome>> heed_words();
  Result<Outcome> leave_with_all();
  Result<Outcome> leave_alone(const Notice& notice);
  Result<bool> agree_on_epoch();
  void hear_words();
  Status hear_bad_samples();
  void note_group_steps(Nanoseconds now, int64_t samples);
  void note_group(double seconds);
  nlohmann::json ranks_fields() const;
  Status regroup();
  Result<bool> form_group();
  Status settle();
  Status begin_as_leader();
  Status hold_the_run();
  Status take_for_the_group();
  Result<bool> is_behind_the_run();
  Status take_over();
  Status share_state(int64_t source, const Status& begun, bool has_tensors);
  Result<Bytes> pack_state(bool has_tensors);
  Status adopt_state(const Bytes& packed);
  void take_lines(const nlohmann::json& header, int64_t before);

  Status restore(const ResumePoint& point);
  Result<std::optional<ResumePoint>> find_branch();
  Result<AccuracyHistory> read_past(bool has_checkpoint);
  Status check_origin(const std::vector<nlohmann::json>& ledger, bool has_checkpoint) const;
  nlohmann::json become_branch(const ResumePoint& point);
  Status check_arithmetic(const CheckpointText& recorded, std::vector<std::string>& warnings);
  Result<Learner::Setup> setup_of_learner() const;
  Status fill_in_config();
  void warm_up();
  Result<std::string> fingerprint_of(const Learner::Setup& learner);
  Status make_learner();
  Status open_records(AccuracyHistory accuracy);
  Status begin_with_given_weights();
  void rate_shuffle();
  void watch_gpu();
  void name_other_processes(std::vector<std::string>& warnings);
  void warn_of_emulation(Precision precision, std::vector<std::string>& warnings) const;
  void watch_system();
  void make_loader();
  Status write_class_names();
  Status write_run_file();
  nlohmann::json process_fields() const;
  nlohmann::json use_fields();
  Result<std::string> state_text(const std::vector<Bytes>& blobs);

  const TrainerSetup& setup_;
  RunConfig config_;
  const RunData data_;
  const Timeline timeline_;
  PrefixStore checkpoints_;
  SpanMeter spans_;

  std::unique_ptr<Sequence> sequence_;
  std::unique_ptr<GpuDriver> gpu_driver_;  // on a GPU, if NVML works; records_ asks it
  std::unique_ptr<RunRecords> records_;
  std::unique_ptr<Learner> learner_;
  std::unique_ptr<Loader> loader_;
  int64_t loader_phase_ = -1;  // that loader_ reads
  int64_t empty_batches_ = 0;  // in a row
  std::optional<Error> divergence_;
  std::optional<AccuracyRow> newest_accuracy_;
  TrainState state_;

  // A step whose result the device has not yet told.
  struct OpenStep {
    int64_t step = 0;  // 0 for the first
    int64_t epoch = 0;
    int64_t samples = 0;
    double learning_rate = 0;
  };
  std::deque<OpenStep> open_steps_;
  std::set<std::pair<std::string, int64_t>> bad_samples_;  // told of, by data set
  double shuffle_quality_ = 0;
  std::string fingerprint_;
  std::optional<Gpu> gpu_;
  std::optional<double> energy_before_joules_;  // nothing if the driver does not tell
  int64_t first_samples_ = 0;                   // trained on before this process
  std::optional<int64_t> saved_step_;           // of the newest checkpoint
  bool state_is_saved_ = false;                 // the newest checkpoint holds just this state
  Nanoseconds saved_at_{0};
  std::optional<Error> save_error_;  // of the newest attempt, if that failed

  // Ranks; as they are here where there are none.
  Graveyard graveyard_;
  std::unique_ptr<StallWatch> watch_;  // null where there are none
  std::unique_ptr<WarmUp> warm_up_;    // null on a GPU
  std::unique_ptr<Collectives> group_;
  RankGroup generation_;         // that group_ is
  RankGroup noted_;              // the last that took a step
  bool leads_;                   // holds the run, records, saves
  bool is_joined_ = false;       // the learner steps with group_
  bool wants_regroup_ = false;   // all have agreed to
  bool has_state_ = false;       // learner_ and state_ are those of a step
  int64_t lease_ = -1;           // of the holder of the run under which that step was taken
  bool is_begun_ = false;        // run() has been entered
  std::vector<RankWord> words_;  // of all ranks, by their last step; empty: not asked yet
  RankWord last_step_;           // of this rank: how long it took
  double rate_ = 0;              // samples per second of this rank
  int64_t recorded_step_ = 0;    // by a leader before us: its line is there
  Nanoseconds stepped_at_{0};
  SpanTimes spans_before_;        // while another rank led
  RankBook book_;                 // of a leader
  std::string communication_;     // of the newest step, for its line
  std::deque<double> bad_words_;  // of a follower: for the leader, one with each step
};

}  // namespace tern
