#include "train/late_results.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <torch/torch.h>

#include <cmath>

namespace tern {

Error diverged(double loss, int64_t step) {
  return fail(Code::out_of_range,
              fmt::format("the loss is {} at step {}: training diverged; begin "
                          "anew (--fresh) with a smaller optimizer.learning_rate or a longer "
                          "schedule.warmup_epochs",
                          loss, step + 1));
}

c10::Event LateResults::record_event() const {
  // The backend's own default, because PyTorch's turns the timing off.
  c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  return event;
}

void LateResults::begin_step() {
  if (!device_.is_cuda()) return;
  ++steps_;
  if (pending_.empty() || pending_.back().end->query()) ++dry_steps_;
  begin_.emplace(record_event());
}

void LateResults::end_step(int64_t step, const torch::Tensor& loss, const torch::Tensor& correct) {
  Pending pending{.step = step};
  const torch::Tensor numbers =
      torch::stack({loss.detach().to(torch::kFloat64), correct.to(torch::kFloat64)});
  if (!device_.is_cuda()) {
    pending.numbers = numbers;
    pending_.push_back(std::move(pending));
    return;
  }
  if (spare_.empty()) {
    spare_.push_back(torch::empty({2}, torch::dtype(torch::kFloat64).pinned_memory(true)));
  }
  pending.numbers = std::move(spare_.back());
  spare_.pop_back();
  pending.numbers.copy_(numbers, /*non_blocking=*/true);
  pending.begin = std::move(begin_);
  pending.end.emplace(record_event());
  begin_.reset();
  pending_.push_back(std::move(pending));
}

Result<StepResult> LateResults::read(Pending& pending) {
  if (pending.end) {
    pending.end->synchronize();
    const double milliseconds = pending.begin->elapsedTime(*pending.end);
    computed_ += Nanoseconds(std::llround(milliseconds * 1e6));
  }
  const auto* numbers = pending.numbers.const_data_ptr<double>();
  StepResult result{
      .step = pending.step, .loss = numbers[0], .correct = static_cast<int64_t>(numbers[1])};
  if (pending.end) spare_.push_back(std::move(pending.numbers));
  if (!std::isfinite(result.loss)) return diverged(result.loss, result.step);
  return result;
}

Result<StepResults> LateResults::take(bool wait_for_all) {
  StepResults results;
  while (!pending_.empty()) {
    Pending& oldest = pending_.front();
    const bool is_there = !oldest.end || oldest.end->query();
    if (!is_there && !wait_for_all && pending_.size() <= kLate) break;
    Result<StepResult> result = read(oldest);
    pending_.pop_front();
    if (!result) return result.error();
    results.push_back(*result);
  }
  return results;
}

}  // namespace tern
