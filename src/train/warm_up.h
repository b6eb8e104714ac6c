// The first step of a process takes many times as long as the next ones: code is loaded and
// compiled, threads and memory are made. Where others are waited for anyway, it is taken meanwhile.
#pragma once

#include <optional>
#include <string>
#include <thread>

#include "core/result.h"
#include "train/learner.h"

namespace tern {

// All that arithmetic_fingerprint() makes of a setup depends on, but for the machine.
std::string fingerprint_depends_on(Learner::Setup setup);

// Takes the step of arithmetic_fingerprint() on a thread of its own, so that it is known, and the
// process warm, when both are needed. Owned by the trainer; one thread calls it. The step draws
// random numbers from LibTorch's generator, as a learner does: before one is made or used,
// finish().
class WarmUp {
 public:
  // Begins at once. Where the step fails, fingerprint() says why.
  explicit WarmUp(const Learner::Setup& setup);
  ~WarmUp() = default;
  WarmUp(const WarmUp&) = delete;
  WarmUp& operator=(const WarmUp&) = delete;

  // Waits for the step.
  void finish();
  // The fingerprint of the arithmetic of `setup`; it takes a step now if the one before was of
  // another network, or failed.
  Result<std::string> fingerprint(const Learner::Setup& setup);

 private:
  const std::string network_;         // that the step is of
  std::optional<std::string> found_;  // by the thread; read after it has ended
  std::jthread thread_;
};

}  // namespace tern
