#include "train/late_results.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

#include "train/loss_scaler.h"

namespace tern {
namespace {

constexpr char kWhatToTry[] =
    "begin anew (--fresh, or another --run) with a smaller optimizer.learning_rate or a longer "
    "schedule.warmup_epochs";

}  // namespace

Error diverged(double loss, int64_t step) {
  return fail(Code::out_of_range, fmt::format("the loss is {} at step {}: training diverged; {}",
                                              loss, step + 1, kWhatToTry));
}

Result<StepResult> judge(const StepResult& result, double scale) {
  if (!result.is_skipped) {
    if (!std::isfinite(result.loss)) return diverged(result.loss, result.step);
    return result;
  }
  if (scale >= LossScaler::kScaleMin) return result;
  return fail(
      Code::out_of_range,
      fmt::format("the gradient overflows at step {} even with a loss scale of {}: training "
                  "diverged; {}, or with train.precision = bf16",
                  result.step + 1, 2 * scale, kWhatToTry));
}

c10::Event LateResults::record_event() const {
  // The backend's own default, because PyTorch's turns the timing off.
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

void LateResults::begin_step() {
  ++steps_;
  if (pending_.empty() || pending_.back().end->query()) ++dry_steps_;
  begin_.emplace(record_event());
}

void LateResults::end_step(int64_t step, const StepNumbers& numbers) {
  Pending pending{.step = step, .is_scaled = numbers.found_inf.defined()};
  std::vector<torch::Tensor> parts = {numbers.loss, numbers.correct};
  if (pending.is_scaled) parts.insert(parts.end(), {numbers.found_inf, numbers.scale});
  const torch::Tensor on_device = torch::stack(parts).to(torch::kFloat64);
  if (spare_.empty()) {
    spare_.push_back(torch::empty({4}, torch::dtype(torch::kFloat64).pinned_memory(true)));
  }
  pending.numbers = std::move(spare_.back());
  spare_.pop_back();
  pending.numbers.narrow(0, 0, on_device.numel()).copy_(on_device, /*non_blocking=*/true);
  pending.begin = std::move(begin_);
  pending.end.emplace(record_event());
  begin_.reset();
  pending_.push_back(std::move(pending));
}

Result<StepResult> LateResults::read(Pending& pending) {
  pending.end->synchronize();
  const double milliseconds = pending.begin->elapsedTime(*pending.end);
  computed_ += Nanoseconds(std::llround(milliseconds * 1e6));
  const auto* numbers = pending.numbers.const_data_ptr<double>();
  const StepResult result{.step = pending.step,
                          .loss = numbers[0],
                          .correct = static_cast<int64_t>(numbers[1]),
                          .is_skipped = pending.is_scaled && numbers[2] != 0};
  const double scale = pending.is_scaled ? numbers[3] : 0;
  spare_.push_back(std::move(pending.numbers));
  return judge(result, scale);
}

Result<StepResults> LateResults::take(bool wait_for_all) {
  StepResults results;
  while (!pending_.empty()) {
    Pending& oldest = pending_.front();
    const bool is_there = oldest.end->query();
    if (!is_there && !wait_for_all && pending_.size() <= kLate) break;
    Result<StepResult> result = read(oldest);
    pending_.pop_front();
    if (!result) return result.error();
    results.push_back(*result);
  }
  return results;
}

void LateResults::forget() {
  for (Pending& pending : pending_) read(pending).has_value();
  pending_.clear();
}

}  // namespace tern
