#include "loader/fetch_retry.h"

#include <fmt/format.h>

#include "core/random.h"

namespace tern {
namespace {

constexpr Milliseconds kFirstDelay{100};

bool may_work_in_a_moment(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::deadline_exceeded;
}

// Half to all of it, so that threads and machines that failed together do not return together.
Nanoseconds delay_after(int64_t sample, int attempts) {
  const auto random =
      philox4x32({static_cast<uint32_t>(attempts), 0, 0, 0},
                 {static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)});
  const double fraction = 0.5 + 0.5 * (random[0] * 0x1.0p-32);
  const Nanoseconds full = kFirstDelay * (1 << (attempts - 1));
  return Nanoseconds(static_cast<int64_t>(static_cast<double>(full.count()) * fraction));
}

}  // namespace

Result<BytesView> fetch_with_retries(const Dataset& dataset, int64_t sample, Bytes& buffer,
                                     Clock* clock, const std::stop_token& stop,
                                     std::atomic<int>* attempt) {
  Nanoseconds first_failed{0};  // nobody looks at the clock while all is well
  for (int attempts = 1;; ++attempts) {
    if (attempt != nullptr) *attempt = attempts;
    Result<BytesView> stored = dataset.fetch(sample, buffer);
    if (stored || clock == nullptr || !may_work_in_a_moment(stored.error())) return stored;
    if (attempts == 1) first_failed = clock->now();
    const Nanoseconds passed = clock->now() - first_failed;
    if (attempts == kFetchAttemptsMax || passed >= kFetchTimeMax) {
      return fail(stored.error().code,
                  fmt::format("{}; gave up after {} attempts, {:.1f} s after the first failed",
                              stored.error().message, attempts, to_seconds(passed)));
    }
    const Nanoseconds delay = delay_after(sample, attempts);
    if (!clock->wait_for(delay, stop)) {
      return fail(Code::cancelled, "stopped before it was read again: " + stored.error().message);
    }
  }
}

}  // namespace tern
