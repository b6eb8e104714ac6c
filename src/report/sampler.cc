#include "report/sampler.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace tern {
namespace {

// 10 s become 3 hours; enough for any run.
constexpr int64_t kDoublingsMax = 10;
// In less than this a rate is noise: the processor's time is counted in hundredths of a second.
constexpr double kShortestSeconds = 0.05;

}  // namespace

Sampler::Sampler(Setup setup, Clock& clock, Sink sink)
    : setup_(std::move(setup)),
      clock_(clock),
      sink_(std::move(sink)),
      ticks_per_second_(static_cast<double>(::sysconf(_SC_CLK_TCK))),
      before_(read_system_counters(setup_.proc)),
      before_at_(clock.now()) {}

void Sampler::start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (clock_.wait_for(period(), stop)) sample();
  });
}

void Sampler::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  sample();
}

void Sampler::sample() {
  const Nanoseconds now = clock_.now();
  const double seconds = to_seconds(now - before_at_);
  if (seconds < kShortestSeconds) return;
  SystemCounters counters = read_system_counters(setup_.proc);
  SystemSample sample{.unix_ms = clock_.unix_ms(),
                      .seconds = seconds,
                      .values = system_use(before_, counters, seconds, ticks_per_second_)};
  if (setup_.gpu) {
    for (Scalar& value : setup_.gpu()) sample.values.push_back(std::move(value));
  }
  before_ = std::move(counters);
  before_at_ = now;
  ++taken_;
  sink_(sample);
}

Milliseconds Sampler::period() const {
  const int64_t taken = setup_.samples_before + taken_;
  const int64_t doublings = taken / std::max<int64_t>(1, setup_.samples_per_period);
  return setup_.period * (int64_t{1} << std::min(doublings, kDoublingsMax));
}

std::string sample_line(const SystemSample& sample, int64_t step, int64_t lease) {
  nlohmann::json values = nlohmann::json::object();
  for (const Scalar& value : sample.values) {
    // Four digits are more than there is to see, and bytes need all of theirs.
    const double rounded =
        std::abs(value.value) < 1e4 ? std::round(value.value * 1e4) / 1e4 : std::round(value.value);
    values[value.tag] = rounded;
  }
  const nlohmann::json line = {{"ms", sample.unix_ms},
                               {"step", step},
                               {"seconds", std::round(sample.seconds * 1e3) / 1e3},
                               {"values", values},
                               {"lease", lease}};
  return line.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tern
